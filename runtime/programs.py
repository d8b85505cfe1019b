"""What a repository names for an ordinary git to run: its programs.

Owns the telling of it to people. The runner's own git runs none of them, whatever is found here.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from runtime.gitview import read_small
from runtime.tree import some_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.gitview import View


def named_programs(view: View) -> dict[str, str]:
    """Return each key and hook with which git in the user's hands would run something: its mark."""
    found = {key: value.encode(errors="replace") for key, value in view.programs.items()}
    for hook in _hooks(view.common / "hooks"):
        found[f"hooks/{hook.name}"] = read_small(hook) or b""
    return {name: hashlib.sha256(what).hexdigest()[:16] for name, what in found.items()}


def new_programs(before: Mapping[str, str], view: View) -> tuple[str, ...]:
    """Tell which programs are named now that were not, or not so, before."""
    fresh = [name for name, mark in named_programs(view).items() if before.get(name) != mark]
    if not fresh:
        return ()
    note = (
        f"{view.common} has programs for git to run that were not there when this workspace was "
        f"made: {some_of(fresh)}. The runner's own git ignores them; yours does not: look at "
        f"`git config --file {view.common / 'config'} --list` and {view.common / 'hooks'}"
    )
    return (note,)


def _hooks(folder: Path) -> list[Path]:
    try:
        return [each for each in sorted(folder.iterdir()) if each.suffix != ".sample"]
    except OSError:
        return []
