"""Finds out whether commands in a folder would use the code of that folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.code_origin import named_paths, node, parent_settings, python
from runtime.code_origin.interpreters import InterpreterSearch
from runtime.code_origin.scripts import calls, started_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runtime.code_origin.findings import ForeignCode
    from runtime.code_origin.working_trees import Trees


def find(
    folder: Path, trees: Trees, commands: Iterable[str], environ: Mapping[str, str]
) -> tuple[ForeignCode, ...]:
    """Return what would be used from another checkout; blocking.

    `environ` is the environment of the commands.
    """
    return tuple(dict.fromkeys(_found(folder, trees, tuple(commands), environ)))


def _found(
    folder: Path, trees: Trees, commands: tuple[str, ...], environ: Mapping[str, str]
) -> Iterator[ForeignCode]:
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111  # as a text
    around = InterpreterSearch(folder, environ.get("PATH", os.defpath), home)
    has_python = python.concerns(folder)
    yield from named_paths.in_variables(folder, trees, environ)
    yield from named_paths.in_manifests(folder, trees)
    for command in commands:
        first = calls(command)
        yield from named_paths.in_calls(folder, trees, first, environ)
        more = started_by(folder, first)
        every = (*first, *(call for script in more.scripts for call in script.calls))
        for script in more.scripts:
            yield from named_paths.in_script(folder, trees, script, environ)
        unknown = more.unknown if has_python else ()
        yield from python.findings(around, trees, every, unknown, command)
    if node.concerns(folder):
        yield from node.findings(folder, trees)
    own_target = any("CARGO_TARGET_DIR=" in command for command in commands)
    yield from parent_settings.findings(folder, trees, None if own_target else home)
