"""Imports of Python that would come from another checkout than the folder in question."""

from __future__ import annotations

import configparser
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runtime.gitview import read_small
from runtime.right_code.findings import PYTHON, Finding
from runtime.right_code.following import path_settings
from runtime.right_code.interpreters import environment_folders, site_folders
from runtime.right_code.packages import sources

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from runtime.right_code.interpreters import Surroundings
    from runtime.right_code.packages import Source
    from runtime.right_code.shellwords import Call
    from runtime.right_code.trees import Trees

MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", "requirements.txt")
_MANAGERS = frozenset({"uv", "poetry", "pdm", "pipenv", "rye", "hatch"})
"""Programs that run what follows in an environment of the folder's own."""
_INSTALLS = re.compile(r"\b(pip3?|uv|poetry|pdm|hatch|flit|tox|nox)\b")
_RECIPES = ("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", "noxfile.py", "tox.ini")
_INIS = (
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)
_DEFAULTS = ("python3", "python")


class _Known(NamedTuple):
    """What was read of the disk already: scripts name the same program many times."""

    sites: dict[tuple[str, str], tuple[Path, ...]]
    sources: dict[Path, tuple[Source, ...]]

    def sites_of(self, name: str, around: Surroundings) -> tuple[Path, ...]:
        key = name, around.path
        if key not in self.sites:
            program = around.find(name)
            self.sites[key] = site_folders(program, around) if program is not None else ()
        return self.sites[key]

    def sources_of(self, site: Path) -> tuple[Source, ...]:
        if site not in self.sources:
            self.sources[site] = tuple(sources(site))
        return self.sources[site]


def concerns(folder: Path) -> bool:
    """Tell whether the folder has code of Python, so that what it starts may be a Python."""
    if any((folder / name).is_file() for name in (*MANIFESTS, "conftest.py")):
        return True
    shapes = ("requirements*.txt", "tests/*.py", "test/*.py")
    return any(True for shape in shapes for _ in folder.glob(shape))


def findings(
    around: Surroundings,
    trees: Trees,
    calls: Iterable[Call],
    unknown: Collection[Call],
    command: str,
) -> Iterator[Finding]:
    """Find what a command would import from elsewhere than the folder it runs in.

    `calls` is all that it starts; the `unknown` among them may start any Python.
    """
    folder = around.folder
    told: set[tuple[Path, str]] = set()
    known = _Known({}, {})
    for call in calls:
        own = _with_path_of(call, around)
        first = _first_on_path(call, folder, is_unknown=call in unknown)
        for site in _sites(call, own, known, is_unknown=call in unknown):
            found = known.sources_of(site)
            named = {each.place for each in found if not each.recorded}
            for each in found:
                if each.recorded and not each.copied and _is_named(each.place, named):
                    continue  # the path file beside it says more
                finding = _judged(each, around, trees, first, command)
                if finding is not None and (finding.where, finding.what) not in told:
                    told.add((finding.where, finding.what))
                    yield finding


def _with_path_of(call: Call, around: Surroundings) -> Surroundings:
    path = call.variables.get("PATH")
    if path is None:
        return around
    return around._replace(path=re.sub(r"\$\{?PATH\b\}?", lambda _: around.path, path))


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


def _first_on_path(call: Call, folder: Path, *, is_unknown: bool) -> tuple[str, ...]:
    """Return the folders that Python searches before all that is installed."""
    texts = [call.variables.get("PYTHONPATH", "")]
    if is_unknown:
        recipes = (_text(folder / each) for each in _RECIPES)
        texts += [found for recipe in recipes for found in path_settings(recipe)]
    entries = [entry for text in texts for entry in re.split(r"[:\s]", text) if entry]
    words = " ".join(call.words)
    if "pytest" in words or "py.test" in words or is_unknown:
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


def _sites(call: Call, around: Surroundings, known: _Known, *, is_unknown: bool) -> Iterator[Path]:
    """Return the folders of packages that a program, or what it starts, would import from."""
    found: dict[Path, None] = {}
    own = around.folder / ".venv"
    if call.name in _MANAGERS:
        found |= dict.fromkeys(environment_folders(own, around))
    elif is_unknown:
        for each in (*_DEFAULTS, "pytest"):
            found |= dict.fromkeys(known.sites_of(each, around))
        for inner in (*around.folder.glob(".tox/*"), *around.folder.glob(".nox/*")):
            found |= dict.fromkeys(environment_folders(inner, around))
    elif call.name:
        found |= dict.fromkeys(known.sites_of(call.program, around))
    yield from found


def _text(file: Path) -> str:
    return (read_small(file) or b"").decode("utf-8", errors="replace")
