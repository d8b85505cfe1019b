"""Where the Python behind a program searches for packages, found by reading files.

Reads `pyvenv.cfg`, the first line of a script and the layout of installations. It must not start a
program: files in the folder of an agent may be anything.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runtime.git.safe_view import read_small_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?$")
_VERSION = re.compile(r"[\w.-]+")
_STEPS = 4
"""Limit on scripts between a program and its interpreter."""


class InterpreterSearch(NamedTuple):
    """Resolves the name of a program to an interpreter."""

    folder: Path
    path: str
    home: Path

    def find(self, name: str) -> Path | None:
        """Return the program that a name resolves to in the folder."""
        if "/" in name:
            found = self.folder / name
            return found if found.is_file() and os.access(found, os.X_OK) else None
        if not self.path:
            return None
        entries = (str(self.folder / each) for each in self.path.split(os.pathsep))
        on_path = shutil.which(name, path=os.pathsep.join(entries))
        return Path(on_path) if on_path else None


def is_python(name: str) -> bool:
    """Tell whether a program has the name of an interpreter."""
    return _PYTHON.match(Path(name).name) is not None


def site_folders(program: Path, around: InterpreterSearch) -> tuple[Path, ...]:
    """Return the site folders that a program would import from; none if it is not Python."""
    for _ in range(_STEPS):
        if program.parent.name == "shims":
            return _behind_shim(program, around)
        if is_python(program.name):
            prefix = program.parent.parent
            if (prefix / "pyvenv.cfg").is_file():
                return environment_folders(prefix, around)
            return _installed(program, around)
        name = _interpreter(program)
        following = around.find(name) if name else None
        if following is None:
            return ()
        program = following
    return ()


def environment_folders(prefix: Path, around: InterpreterSearch) -> tuple[Path, ...]:
    """Return the site folders of a virtual environment."""
    found = sorted({each.resolve() for each in prefix.glob("lib*/p*/site-packages")})
    told = dict(
        re.findall(r"(?m)^\s*([\w-]+)\s*=\s*(.*?)\s*$", read_small_text(prefix / "pyvenv.cfg"))
    )
    if told.get("include-system-site-packages", "").lower() == "true" and "home" in told:
        found += _installed(Path(told["home"]) / "python3", around)
    return tuple(found)


def _installed(program: Path, around: InterpreterSearch) -> tuple[Path, ...]:
    """Return the site folders of an installation that is not a virtual environment."""
    real = Path(os.path.realpath(program))
    version = re.search(r"\d+\.\d+", real.name)
    name = f"python{version[0]}" if version else "python3*"
    prefix = real.parent.parent
    shapes = (
        f"lib*/{name}/site-packages",
        f"local/lib/{name}/dist-packages",
        f"local/lib/{name}/site-packages",
        "lib/python3/dist-packages",
    )
    found = [each for shape in shapes for each in prefix.glob(shape)]
    found += around.home.glob(f".local/lib/{name}/site-packages")
    return tuple(found)


def _behind_shim(shim: Path, around: InterpreterSearch) -> tuple[Path, ...]:
    """Resolve the shims of version managers, which do not name an interpreter."""
    root = shim.parent.parent
    if not (shim.with_name("python").exists() or shim.with_name("python3").exists()):
        return ()
    named = _pinned(around.folder) or _words(root / "version")
    pythons = [root / "versions" / each / "bin" / "python" for each in named]
    if not any(each.exists() for each in pythons):
        pythons = sorted(root.glob("installs/python/*/bin/python"))
    return tuple(
        dict.fromkeys(
            site for each in pythons if each.exists() for site in site_folders(each, around)
        )
    )


def _pinned(folder: Path) -> list[str]:
    for place in (folder, *folder.parents):
        if found := _words(place / ".python-version"):
            return found
    return []


def _words(file: Path) -> list[str]:
    return [
        word
        for word in read_small_text(file).split()
        if _VERSION.fullmatch(word) and ".." not in word
    ]


def _interpreter(script: Path) -> str:
    """Return the interpreter of a script, if it is Python."""
    lines = list(_lines(script))
    if not lines or not lines[0].startswith("#!"):
        return ""
    words = lines[0][2:].split()
    if words[:1] == ["/bin/sh"] and len(lines) > 1:
        # The form used if the path of the interpreter is too long for a first line.
        long = re.match(r"""'''exec'\s+"?([^"]+?)"?\s+"\$0\"""", lines[1])
        words = [long[1]] if long else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words and is_python(words[0]) else ""


def _lines(script: Path) -> Iterator[str]:
    yield from read_small_text(script).splitlines()[:2]
