"""Python imports that would come from another checkout than the given folder.

Owns the formats that make a path importable: `.pth` files, finders of editable installs,
`direct_url.json`, egg links.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from runtime.code_origin.findings import PYTHON, ForeignCode
from runtime.code_origin.interpreters import environment_folders, site_folders
from runtime.code_origin.scripts import path_settings
from runtime.git.safe_view import read_small_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from runtime.code_origin.interpreters import InterpreterSearch
    from runtime.code_origin.scripts import Call
    from runtime.code_origin.working_trees import Trees

_TEXT = re.compile(r"""['"](/[^'"\n]+)['"]""")
_MODULE = re.compile(r"import\s+(\w+)")
_MANGLED = re.compile(r"^(__editable__[._]*|__editable___|_editable_impl_|_+)")


class PackageSource(NamedTuple):
    """One path that a folder of packages refers to."""

    name: str
    """The package, if known."""
    place: str
    where: Path
    """The file that says so."""
    is_package: bool = False
    """The path is the package itself; else it is a folder on the search path."""
    copied: bool = False
    """The package is a copy of what was there."""
    recorded: bool = False
    """Only the record of the installation says so."""


def sources(site: Path) -> Iterator[PackageSource]:
    """Return the outside paths from which a folder of packages makes code importable."""
    try:
        names = sorted(os.listdir(site))  # noqa: PTH208  # names are all that is wanted
    except OSError:
        return
    for name in names:
        if name.endswith(".pth"):
            yield from _of_path_file(site / name)
        elif name.endswith(".dist-info"):
            yield from _of_record(site / name)
        elif name.endswith(".egg-link"):
            line = read_small_text(site / name).partition("\n")[0].strip()
            if line:
                yield PackageSource(name.removesuffix(".egg-link"), str(site / line), site / name)


def _of_path_file(file: Path) -> Iterator[PackageSource]:
    for line in read_small_text(file).splitlines():
        if line.startswith(("import ", "import\t")):
            texts = [line]
            texts += [read_small_text(file.parent / f"{name}.py") for name in _MODULE.findall(line)]
            for text in texts:
                for place in dict.fromkeys(_TEXT.findall(text)):
                    yield PackageSource(_named(file), place, file, is_package=True)
        elif line.strip() and not line.startswith("#"):
            yield PackageSource(_named(file), str(file.parent / line.rstrip()), file)


def _of_record(folder: Path) -> Iterator[PackageSource]:
    record = folder / "direct_url.json"
    text = read_small_text(record)
    if not text:
        return
    try:
        said = json.loads(text)
        info, url = said.get("dir_info"), urlsplit(said.get("url", ""))
    except (ValueError, AttributeError):
        return
    if isinstance(info, dict) and url.scheme == "file":
        name = folder.name.partition("-")[0]
        edited = info.get("editable") is True
        yield PackageSource(name, unquote(url.path), record, copied=not edited, recorded=True)


def _named(file: Path) -> str:
    """Return the package that a `.pth` file was made for, guessed from its name."""
    plain = _MANGLED.sub("", file.stem)
    name = re.split(r"-\d", plain, maxsplit=1)[0]
    return "" if name in ("easy-install", "virtualenv") else name


MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", "requirements.txt")
_MANAGERS = frozenset({"uv", "poetry", "pdm", "pipenv", "rye", "hatch"})
"""Programs that run a command in the folder's own environment."""
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
    """Cache of what was read from disk: scripts name the same program many times."""

    sites: dict[tuple[str, str], tuple[Path, ...]]
    sources: dict[Path, tuple[PackageSource, ...]]

    def sites_of(self, name: str, around: InterpreterSearch) -> tuple[Path, ...]:
        key = name, around.path
        if key not in self.sites:
            program = around.find(name)
            self.sites[key] = site_folders(program, around) if program is not None else ()
        return self.sites[key]

    def sources_of(self, site: Path) -> tuple[PackageSource, ...]:
        if site not in self.sources:
            self.sources[site] = tuple(sources(site))
        return self.sources[site]


def concerns(folder: Path) -> bool:
    """Tell whether the folder has Python code, so that commands may start Python."""
    if any((folder / name).is_file() for name in (*MANIFESTS, "conftest.py")):
        return True
    shapes = ("requirements*.txt", "tests/*.py", "test/*.py")
    return any(True for shape in shapes for _ in folder.glob(shape))


def findings(
    around: InterpreterSearch,
    trees: Trees,
    calls: Iterable[Call],
    unknown: Collection[Call],
    command: str,
) -> Iterator[ForeignCode]:
    """Find what a command would import from outside the folder it runs in.

    `calls` is all that it starts; the `unknown` ones may start any Python.
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


def _with_path_of(call: Call, around: InterpreterSearch) -> InterpreterSearch:
    path = call.variables.get("PATH")
    if path is None:
        return around
    return around._replace(path=re.sub(r"\$\{?PATH\b\}?", lambda _: around.path, path))


def _judged(
    source: PackageSource,
    around: InterpreterSearch,
    trees: Trees,
    first: tuple[str, ...],
    command: str,
) -> ForeignCode | None:
    name, place = source.name or "modules", source.place
    if trees.leads(place, apart=around.folder):
        if not source.recorded and _is_shadowed(source, around.folder, trees, first):
            return None
        what = "a copy of" if source.copied else "the code in"
        return ForeignCode(f"{name} would be {what} {place}", source.where, PYTHON)
    inside = Path(os.path.realpath(place)).is_relative_to(os.path.realpath(around.folder))
    if source.copied and inside and not _INSTALLS.search(command):
        return ForeignCode(
            f"{name} would be a copy, as old as the installation, of {place}",
            source.where,
            "install it editable (`pip install -e`), so that each commit tests its own code",
        )
    return None


def _is_named(place: str, named: set[str]) -> bool:
    return any(each == place or each.startswith(place.rstrip("/") + "/") for each in named)


def _is_shadowed(source: PackageSource, folder: Path, trees: Trees, first: tuple[str, ...]) -> bool:
    """Tell whether the same path in the folder itself comes earlier on the search path."""
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
    """Return the folders that Python searches before installed packages."""
    texts = [call.variables.get("PYTHONPATH", "")]
    if is_unknown:
        recipes = (read_small_text(folder / each) for each in _RECIPES)
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
        table = tomllib.loads(read_small_text(folder / "pyproject.toml"))["tool"]["pytest"]
        said = table.get("ini_options", table).get("pythonpath", ())
        found = said.split() if isinstance(said, str) else [str(each) for each in said]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
        found = []
    for name, section in _INIS:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(read_small_text(folder / name))
            found += parser.get(section, "pythonpath", fallback="").split()
        except configparser.Error:
            continue
    return found


def _sites(
    call: Call, around: InterpreterSearch, known: _Known, *, is_unknown: bool
) -> Iterator[Path]:
    """Return the site folders that a program, or what it starts, would import from."""
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
