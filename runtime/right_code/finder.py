"""Tells whether commands, started in a folder, would use the code of that folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.right_code import above, named, node, python
from runtime.right_code.following import started_by
from runtime.right_code.interpreters import Surroundings
from runtime.right_code.shellwords import calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runtime.right_code.findings import Finding
    from runtime.right_code.trees import Trees


def find(
    folder: Path, trees: Trees, commands: Iterable[str], environ: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Return what would be used of another checkout; reads the disk, so not on an event loop.

    `environ` is what the commands are started with.
    """
    return tuple(dict.fromkeys(_found(folder, trees, tuple(commands), environ)))


def _found(
    folder: Path, trees: Trees, commands: tuple[str, ...], environ: Mapping[str, str]
) -> Iterator[Finding]:
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111  # as a text
    around = Surroundings(folder, environ.get("PATH", os.defpath), home)
    has_python = python.concerns(folder)
    yield from named.in_variables(folder, trees, environ)
    yield from named.in_manifests(folder, trees)
    for command in commands:
        first = calls(command)
        yield from named.in_calls(folder, trees, first, environ)
        more = started_by(folder, first)
        every = (*first, *(call for script in more.scripts for call in script.calls))
        for script in more.scripts:
            yield from named.in_script(folder, trees, script, environ)
        unknown = more.unknown if has_python else ()
        yield from python.findings(around, trees, every, unknown, command)
    if node.concerns(folder):
        yield from node.findings(folder, trees)
    own_target = any("CARGO_TARGET_DIR=" in command for command in commands)
    yield from above.findings(folder, trees, None if own_target else home)
