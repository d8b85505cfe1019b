"""What commands start in their turn, as far as scripts tell: of a shell, and in `package.json`.

Reads them; starts none. It must not judge what it finds.
"""

from __future__ import annotations

import json
import os
import re
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from runtime.gitview import read_small
from runtime.right_code.interpreters import is_python
from runtime.right_code.node import folders
from runtime.right_code.shellwords import SHELLS, Call, calls, text_of
from runtime.right_code.trees import is_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    _Packages = Callable[[Path | None], tuple[tuple[Path, dict[str, str]], ...]]

PACKAGE = "package.json"
_RUNNERS = frozenset({"make", "gmake", "just", "task", "nox", "tox", "hatch"})
"""Programs that start others of which their command line tells nothing."""
_SCRIPT_RUNNERS = frozenset(
    {"npm", "pnpm", "yarn", "bun", "npm-run-all", "run-s", "run-p", "npm-run-all2"}
)
_SHORT = {"t": "test", "tst": "test"}
_ELSEWHERE = frozenset({"-C", "--prefix", "--dir", "--cwd"})
_IN_PACKAGES = frozenset({
    "-w", "--workspace", "--workspaces", "-ws", "-r", "--recursive", "--filter", "-F",
    "workspace", "workspaces",
})  # fmt: skip
_MENTIONED = re.compile(r"(?<!-m )(?<![\w/.$])(python[\d.]*|pytest|py\.test)(?![\w/.=<>~!\[-])")
_PATH_SET = re.compile(r"PYTHONPATH\s*[:?+]?=\s*[\"']?([^\s\"';&]+)")
_MOST_SCRIPTS, _MOST_CALLS, _MOST_TEXT = 16, 64, 1 << 14
"""How far one command is followed: what is read, an agent may have written."""


class Script(NamedTuple):
    """A script that is started."""

    file: Path
    text: str
    calls: tuple[Call, ...]
    committed: bool


class Started(NamedTuple):
    """What calls start in their turn."""

    scripts: tuple[Script, ...]
    unknown: tuple[Call, ...]
    """Calls of which nobody can tell what they start."""


def started_by(folder: Path, first: tuple[Call, ...]) -> Started:
    """Follow calls in a folder, and the scripts that those start, to their end."""
    scripts: list[Script] = []
    unknown: list[Call] = []
    seen: set[tuple[Path, str]] = set()
    packages = cache(partial(_packages, folder))
    waiting = [(folder, first)]
    while waiting:
        place, group = waiting.pop()
        for call in group[:_MOST_CALLS]:
            if call.name == "cd" and call.words[1:]:
                place = place / call.words[1]
                continue
            found = [*_of_call(call, place, packages)]
            if not found and _starts_something(call, place, folder):
                unknown.append(call)
            for where, file, text in found:
                if (file, text) in seen or len(seen) == _MOST_SCRIPTS:
                    continue
                seen.add((file, text))
                inner = tuple(_handed_on(_all_calls(text[:_MOST_TEXT]), call))
                committed = is_below(os.path.normpath(file), os.path.normpath(folder))
                scripts.append(Script(file, text, inner, committed))
                waiting.append((where, inner))
    return Started(tuple(scripts), tuple(unknown))


def path_settings(text: str) -> list[str]:
    """Return what a recipe sets as the search path of Python."""
    return _PATH_SET.findall(text)


def _of_call(call: Call, place: Path, packages: _Packages) -> Iterator[tuple[Path, Path, str]]:
    """Return where it runs, the file and the text of each script that a call starts itself."""
    if call.name in _SCRIPT_RUNNERS:
        yield from _of_packages(call, place, packages)
        return
    file = _script_file(call, place)
    text = _text(file) if file is not None else ""
    if file is not None and text and not _is_of_other_language(text):
        yield place, file, text


def _script_file(call: Call, place: Path) -> Path | None:
    if call.name in SHELLS or call.program in (".", "source"):
        named = [word for word in call.words[1:] if not word.startswith(("-", "+", "<", ">"))]
        return place / named[0] if named else None
    return place / call.program if "/" in call.program and not is_python(call.name) else None


def _is_of_other_language(text: str) -> bool:
    head = text.partition("\n")[0]
    if head.startswith("#!"):
        return SHELLS.isdisjoint(re.split(r"[\s/]", head[2:]))
    return "\0" in text


def _starts_something(call: Call, place: Path, folder: Path) -> bool:
    if call.name in _RUNNERS:
        return True
    file = _script_file(call, place)
    if file is None:
        return call.name in SHELLS and not text_of(call)
    return file.is_file() and is_below(os.path.normpath(file), os.path.normpath(folder))


def _of_packages(call: Call, place: Path, packages: _Packages) -> Iterator[tuple[Path, Path, str]]:
    words = call.words[1 : call.words.index("--") if "--" in call.words else None]
    for option, value in zip_longest(words, words[1:], fillvalue=""):
        name, _, joined = option.partition("=")
        if name in _ELSEWHERE:
            place = place / (joined or value)
    asked = {_SHORT.get(word, word) for word in words}
    globs = sorted(word for word in asked if "*" in word and word.strip("*"))[:_MOST_SCRIPTS]
    everywhere = not _IN_PACKAGES.isdisjoint(word.partition("=")[0] for word in words)
    for where, scripts in packages(None if everywhere else place):
        named = [name for name in scripts if name in asked or _is_like(name, globs)]
        for each in (step for name in named for step in (f"pre{name}", name, f"post{name}")):
            if each in scripts:
                yield where, where / PACKAGE, scripts[each]


def _packages(top: Path, place: Path | None) -> tuple[tuple[Path, dict[str, str]], ...]:
    """Return the scripts of the package in a folder, or of all packages of the workspace."""
    places = (place,) if place is not None else folders(top)
    return tuple((each, _scripts(each / PACKAGE)) for each in places)


def _is_like(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _scripts(file: Path) -> dict[str, str]:
    try:
        said = json.loads(read_small(file) or b"{}")
    except (ValueError, RecursionError):
        return {}
    scripts = said.get("scripts") if isinstance(said, dict) else None
    if not isinstance(scripts, dict):
        return {}
    return {name: text for name, text in scripts.items() if isinstance(text, str)}


def _all_calls(text: str) -> Iterator[Call]:
    """Return the calls of a script; where a variable says which program, all Pythons it names."""
    found = calls(text)
    yield from found
    if not any(call.program.startswith("$") and "/" not in call.program for call in found):
        return
    named = {call.name for call in found}
    variables = {"PYTHONPATH": ":".join(path_settings(text))}
    for name in sorted(set(_MENTIONED.findall("\n".join(_code_lines(text))))):
        if name not in named:
            yield Call((name,), variables)


def _code_lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _handed_on(found: Iterable[Call], by: Call) -> Iterator[Call]:
    for call in found:
        yield Call(call.words, {**by.variables, **call.variables})


def _text(file: Path) -> str:
    return (read_small(file) or b"").decode("utf-8", errors="replace")
