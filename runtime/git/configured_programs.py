"""Programs that the configuration of a repository would make an ordinary git run.

Owns reporting them to people. The runner's own git must never run any of them.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from runtime.git.porcelain import some_of
from runtime.git.safe_view import read_small

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.git.safe_view import SafeView


def named_programs(view: SafeView) -> dict[str, str]:
    """Return each key and hook by which the user's git would run something, with its digest."""
    found = {key: value.encode(errors="replace") for key, value in view.programs.items()}
    for hook in _hooks(view.common / "hooks"):
        found[f"hooks/{hook.name}"] = read_small(hook) or b""
    return {name: hashlib.sha256(what).hexdigest()[:16] for name, what in found.items()}


def new_programs(before: Mapping[str, str], view: SafeView) -> tuple[str, ...]:
    """Describe the programs that were added or changed since `before`."""
    fresh = [name for name, mark in named_programs(view).items() if before.get(name) != mark]
    if not fresh:
        return ()
    note = (
        f"{view.common} has programs for git to run that were added after this workspace was "
        f"made: {some_of(fresh)}. The runner's own git ignores them; yours does not: look at "
        f"`git config --file {view.common / 'config'} --list` and {view.common / 'hooks'}"
    )
    return (note,)


def _hooks(folder: Path) -> list[Path]:
    try:
        return [each for each in sorted(folder.iterdir()) if each.suffix != ".sample"]
    except OSError:
        return []
