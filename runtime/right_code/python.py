"""Imports of Python that would come from another checkout than the folder in question."""

from __future__ import annotations

import configparser
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.gitview import read_small
from runtime.right_code.findings import PYTHON, Finding
from runtime.right_code.interpreters import environment_folders, is_python, site_folders
from runtime.right_code.packages import sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.right_code.interpreters import Surroundings
    from runtime.right_code.packages import Source
    from runtime.right_code.shellwords import Call
    from runtime.right_code.trees import Trees

MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", "requirements.txt")
_RUNNERS = frozenset({"make", "gmake", "just", "task", "sh", "bash", "zsh", "nox", "tox", "hatch"})
"""Programs that start others of which their command line tells nothing."""
_MANAGERS = frozenset({"uv", "poetry", "pdm", "pipenv", "rye", "hatch"})
"""Programs that run what follows in an environment of the folder's own."""
_INSTALLS = re.compile(r"\b(pip3?|uv|poetry|pdm|hatch|flit|tox|nox)\b")
_RECIPES = ("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", "noxfile.py", "tox.ini")
_PATH_SET = re.compile(r"PYTHONPATH\s*[:?+]?=\s*[\"']?([^\s\"';&]+)")
_INIS = (
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)
_DEFAULTS = ("python3", "python")


def concerns(folder: Path, calls: tuple[Call, ...]) -> bool:
    """Tell whether Python has a part in this: the folder has a project, or a command names it."""
    named = (Path(call.program).name for call in calls)
    if any(is_python(name) or name.startswith(("pytest", "py.test")) for name in named):
        return True
    return any((folder / name).is_file() for name in MANIFESTS)


def findings(
    around: Surroundings, trees: Trees, calls: tuple[Call, ...], command: str
) -> Iterator[Finding]:
    """Find what a command would import from elsewhere than the folder it runs in."""
    folder = around.folder
    told: set[tuple[Path, str]] = set()
    for call in calls:
        first = _first_on_path(call, folder)
        for site in _sites(call, around):
            found = list(sources(site))
            named = {each.place for each in found if not each.recorded}
            for each in found:
                if each.recorded and not each.copied and _is_named(each.place, named):
                    continue  # the path file beside it says more
                finding = _judged(each, around, trees, first, command)
                if finding is not None and (finding.where, finding.what) not in told:
                    told.add((finding.where, finding.what))
                    yield finding


def _judged(
    source: Source, around: Surroundings, trees: Trees, first: tuple[str, ...], command: str
) -> Finding | None:
    name, place = source.name or "modules", source.place
    if trees.leads(place, apart=around.folder):
        if not source.recorded and _is_shadowed(source, around.folder, trees, first):
            return None
        what = "a copy of" if source.copied else "the code in"
        return Finding(f"{name} would be {what} {place}", source.where, PYTHON)
    inside = Path(os.path.realpath(place)).is_relative_to(os.path.realpath(around.folder))
    if source.copied and inside and not _INSTALLS.search(command):
        return Finding(
            f"{name} would be a copy, as old as the installation, of {place}",
            source.where,
            "install it editable (`pip install -e`), so that each commit tests its own code",
        )
    return None


def _is_named(place: str, named: set[str]) -> bool:
    return any(each == place or each.startswith(place.rstrip("/") + "/") for each in named)


def _is_shadowed(source: Source, folder: Path, trees: Trees, first: tuple[str, ...]) -> bool:
    """Tell whether the same place of the folder itself comes before it on the search path."""
    real = os.path.realpath(source.place.removesuffix("/__init__.py"))
    if source.is_package:
        real = os.path.dirname(real)  # noqa: PTH120  # texts
    for root in trees.roots:
        if real != root and not real.startswith(root + os.sep):
            continue
        if os.path.normpath(folder / os.path.relpath(real, root)) in first:
            return True
    return False


def _first_on_path(call: Call, folder: Path) -> tuple[str, ...]:
    """Return the folders that Python searches before all that is installed."""
    texts = [call.variables.get("PYTHONPATH", "")]
    name = Path(call.program).name
    if name in _RUNNERS:
        recipes = (_text(folder / each) for each in _RECIPES)
        texts += [found for recipe in recipes for found in _PATH_SET.findall(recipe)]
    entries = [entry for text in texts for entry in re.split(r"[:\s]", text) if entry]
    words = " ".join(call.words)
    if "pytest" in words or "py.test" in words or name in _RUNNERS:
        entries += _of_pytest(folder)
    if re.search(r"\bpython[\d.]*\s+-m\b", words) or re.search(r"-m\s+unittest", words):
        entries.append(".")
    return tuple(os.path.normpath(folder / entry) for entry in entries)


def _of_pytest(folder: Path) -> list[str]:
    try:
        table = tomllib.loads(_text(folder / "pyproject.toml"))["tool"]["pytest"]
        said = table.get("ini_options", table).get("pythonpath", ())
        found = said.split() if isinstance(said, str) else [str(each) for each in said]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
        found = []
    for name, section in _INIS:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(_text(folder / name))
            found += parser.get(section, "pythonpath", fallback="").split()
        except configparser.Error:
            continue
    return found


def _sites(call: Call, around: Surroundings) -> Iterator[Path]:
    """Return the folders of packages that a program, or what it starts, would import from."""
    name = Path(call.program).name
    found: dict[Path, None] = {}
    own = around.folder / ".venv"
    if name in _MANAGERS:
        found |= dict.fromkeys(environment_folders(own, around))
    elif name in _RUNNERS:
        for each in (*_DEFAULTS, "pytest"):
            found |= dict.fromkeys(_sites_of(each, around))
        for inner in (*around.folder.glob(".tox/*"), *around.folder.glob(".nox/*")):
            found |= dict.fromkeys(environment_folders(inner, around))
    elif name:
        found |= dict.fromkeys(_sites_of(call.program, around))
    yield from found


def _sites_of(name: str, around: Surroundings) -> tuple[Path, ...]:
    program = around.find(name)
    return site_folders(program, around) if program is not None else ()


def _text(file: Path) -> str:
    return (read_small(file) or b"").decode("utf-8", errors="replace")
