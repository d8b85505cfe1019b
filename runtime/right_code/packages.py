"""Where the installed packages of a Python come from: each way on which a path is imported.

Owns the forms: path files, the finders of editable installs, the record of where a package came
from, and egg links. It must not judge whether a place is a good one.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from runtime.gitview import read_small

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_TEXT = re.compile(r"""['"](/[^'"\n]+)['"]""")
_MODULE = re.compile(r"import\s+(\w+)")
_MANGLED = re.compile(r"^(__editable__[._]*|__editable___|_editable_impl_|_+)")


class Source(NamedTuple):
    """One place that a folder of packages leads to."""

    name: str
    """The package, as far as it can be told."""
    place: str
    where: Path
    """The file that says so."""
    is_package: bool = False
    """The place is the package itself; else it is a folder that packages are searched in."""
    copied: bool = False
    """The package is a copy of what was there."""
    recorded: bool = False
    """Only the record of the installation says so."""


def sources(site: Path) -> Iterator[Source]:
    """Return the places outside of it from which a folder of packages makes code importable."""
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
            line = _text(site / name).partition("\n")[0].strip()
            if line:
                yield Source(name.removesuffix(".egg-link"), str(site / line), site / name)


def _of_path_file(file: Path) -> Iterator[Source]:
    for line in _text(file).splitlines():
        if line.startswith(("import ", "import\t")):
            texts = [line]
            texts += [_text(file.parent / f"{name}.py") for name in _MODULE.findall(line)]
            for text in texts:
                for place in dict.fromkeys(_TEXT.findall(text)):
                    yield Source(_named(file), place, file, is_package=True)
        elif line.strip() and not line.startswith("#"):
            yield Source(_named(file), str(file.parent / line.rstrip()), file)


def _of_record(folder: Path) -> Iterator[Source]:
    record = folder / "direct_url.json"
    text = _text(record)
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
        yield Source(name, unquote(url.path), record, copied=not edited, recorded=True)


def _named(file: Path) -> str:
    """Return the package that a path file was made for, as far as its name tells."""
    plain = _MANGLED.sub("", file.stem)
    name = re.split(r"-\d", plain, maxsplit=1)[0]
    return "" if name in ("easy-install", "virtualenv") else name


def _text(file: Path) -> str:
    return (read_small(file) or b"").decode("utf-8", errors="replace")
