"""Settings in parent folders, which tools find when they search upwards from a folder.

Reports only what a tool would really use: for most tools a file of the same kind in the folder
itself ends the search. Files above both the folder and the user's working tree apply to both, and
are harmless unless they name a path in there.
"""

from __future__ import annotations

import os
import re
import tomllib
from typing import TYPE_CHECKING, Any

from runtime.code_origin import node, python
from runtime.code_origin.findings import ForeignCode
from runtime.git.safe_view import read_small_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runtime.code_origin.working_trees import Trees

_OWN_CONFIG = "give the folder settings of its own: commit a {name}"
_PYTEST = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_ESLINT = (".eslintrc", ".eslintrc.js", ".eslintrc.cjs", ".eslintrc.json", ".eslintrc.yml")
_USE = re.compile(r"(?m)^\s*(?:use\s+)?([./][^\s()]*)\s*$|^use\s+([./][^\s()]*)")


def findings(folder: Path, trees: Trees, home: Path | None) -> Iterator[ForeignCode]:
    """Find settings above the folder that would affect commands in it.

    Without a home the place of cargo's builds is not checked.
    """
    inside = [above for above in folder.parents if trees.leads(above) or not trees.is_around(above)]
    if any((folder / name).is_file() for name in python.MANIFESTS):
        yield from _pytest(folder, inside)
    if node.concerns(folder):
        yield from _first(folder, inside, _ESLINT, "eslint would take the settings of")
        yield from _first(folder, inside, (".pnp.cjs",), "packages would come from")
        yield from _first(folder, inside, ("tsconfig.json",), "TypeScript would take the paths of")
    if (folder / "go.mod").is_file() or (folder / "go.work").is_file():
        yield from _go(folder, trees)
    if (folder / "Cargo.toml").is_file():
        yield from _cargo_workspace(folder, inside)
        if home is not None:
            yield from _cargo_builds(folder, trees, home)


def _first(
    folder: Path, above: list[Path], names: tuple[str, ...], what: str
) -> Iterator[ForeignCode]:
    """Report the nearest file of a kind, unless the folder has one itself."""
    if any((folder / name).is_file() for name in names):
        return
    for place in above:
        for name in names:
            if (place / name).is_file():
                remedy = _OWN_CONFIG.format(name=names[0])
                yield ForeignCode(f"{what} {place}", place / name, remedy)
                return


def _pytest(folder: Path, above: list[Path]) -> Iterator[ForeignCode]:
    if any(_configures_pytest(folder / name) for name in _PYTEST):
        return
    for place in above:
        for name in _PYTEST:
            if _configures_pytest(place / name):
                yield ForeignCode(
                    f"pytest would take the settings and the conftest.py of {place}",
                    place / name,
                    _OWN_CONFIG.format(name="pytest.ini with the line [pytest]"),
                )
                return


def _configures_pytest(file: Path) -> bool:
    text = read_small_text(file)
    if file.name.endswith("pytest.ini"):
        return file.is_file()
    return re.search(r"(?m)^\[(tool:pytest|pytest|tool\.pytest[\w.]*)\]", text) is not None


def _go(folder: Path, trees: Trees) -> Iterator[ForeignCode]:
    for place in folder.parents if not (folder / "go.work").is_file() else ():
        file = place / "go.work"
        if file.is_file():
            used = (first or second for first, second in _USE.findall(read_small_text(file)))
            leading = [each for each in used if trees.leads(place / each, apart=folder)]
            if trees.leads(file, apart=folder) or leading:
                yield ForeignCode(
                    f"go would take its modules from {leading[0] if leading else place}",
                    file,
                    "put `GOWORK=off` before the go commands, or commit a go.work",
                )
            return


def _cargo_workspace(folder: Path, inside: list[Path]) -> Iterator[ForeignCode]:
    if "[workspace" in read_small_text(folder / "Cargo.toml"):
        return
    for place in inside:
        if "[workspace" in read_small_text(place / "Cargo.toml"):
            yield ForeignCode(
                f"cargo would take {place} for the workspace of this package",
                place / "Cargo.toml",
                _OWN_CONFIG.format(name="Cargo.toml with a [workspace] table"),
            )
            return


def _cargo_builds(folder: Path, trees: Trees, home: Path) -> Iterator[ForeignCode]:
    for place in dict.fromkeys((folder, *folder.parents, home)):
        for name in ("config.toml", "config"):
            file = place / ".cargo" / name
            wrong = _wrong_target(_toml(file), place, folder, trees)
            if wrong:
                yield ForeignCode(
                    f"cargo would use builds of other checkouts, in {wrong}",
                    file,
                    "put `CARGO_TARGET_DIR=target` before the cargo commands",
                    committed=place == folder,
                )


def _wrong_target(said: dict[str, Any], place: Path, folder: Path, trees: Trees) -> str:
    """Return the target folder if it is shared by several checkouts, or in another one."""
    build = said.get("build")
    named = build.get("target-dir") if isinstance(build, dict) else None
    if not isinstance(named, str):
        return ""
    target = os.path.normpath(place / named)
    own = target.startswith(os.path.normpath(folder) + os.sep)
    shared = named.startswith(os.sep) or place != folder
    return target if not own and (shared or trees.leads(target, apart=folder)) else ""


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_small_text(file))
    except tomllib.TOMLDecodeError:
        return {}
