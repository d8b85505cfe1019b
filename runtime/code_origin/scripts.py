"""Which programs a shell command starts, also by shell scripts and the scripts in `package.json`.

It must not start anything, nor judge what it finds.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from runtime.code_origin.interpreters import is_python
from runtime.code_origin.node import folders
from runtime.code_origin.working_trees import is_below
from runtime.git.safe_view import read_small, read_small_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    _Packages = Callable[[Path | None], tuple[tuple[Path, dict[str, str]], ...]]

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_KEYWORDS = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "(", "{", "}"}
)
_STARTERS = {
    "env": "-u -C --unset --chdir",
    "exec": "-a",
    "time": "-f -o --format --output",
    "nice": "-n --adjustment",
    "nohup": "",
    "command": "",
    "builtin": "",
    "timeout": "-k -s --kill-after --signal",
    "gtimeout": "-k -s --kill-after --signal",
    "stdbuf": "-i -o -e --input --output --error",
    "setsid": "",
    "ionice": "-c -n --class --classdata",
    "taskset": "",
    "flock": "-w -E --timeout --conflict-exit-code",
    "xargs": "-n -P -I -L -d -a -s -E",
    "xvfb-run": "-s -n -e -f -p -w --server-args --server-num",
    "caffeinate": "-t -w",
    "sudo": "-u -g --user --group",
}
"""Wrappers that run the program after them, and their options with values."""
_FIRST_WORDS = {"timeout": 1, "gtimeout": 1, "taskset": 1, "flock": 1}
"""How many arguments of their own come before the program."""
_ENDS = re.compile(r"[;&|()\n]+")
_COMMENT = re.compile(r"(?:^|\s)#")


@dataclass(frozen=True, slots=True)
class Call:
    """One program with its arguments."""

    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    """Variables set on the same line, or exported before it."""

    @property
    def program(self) -> str:
        """The program as written; empty for a line that only sets variables."""
        return self.words[0] if self.words else ""

    @property
    def name(self) -> str:
        """The program without its folder."""
        return PurePosixPath(self.program).name


def calls(command: str, *, deepest: int = 3) -> tuple[Call, ...]:
    """Return the programs of a command line, or of the lines of a script, in their order."""
    found: list[Call] = []
    lasting: dict[str, str] = {}
    for words in _parts(command):
        variables, rest = dict(lasting), list(words)
        if rest[:1] == ["export"]:
            lasting |= dict(_split(word) for word in rest[1:] if _ASSIGNMENT.match(word))
            continue
        _begin(rest, variables)
        if not rest:
            lasting |= variables
        call = Call(tuple(rest), variables)
        found.append(call)
        if deepest and (text := text_of(call)):
            inner = calls(text, deepest=deepest - 1)
            found += (Call(each.words, variables | each.variables) for each in inner)
        if activated := _activated(call):
            lasting["PATH"] = f"{activated}:{lasting.get('PATH', '$PATH')}"
    return tuple(found)


def _begin(rest: list[str], variables: dict[str, str]) -> None:
    """Remove everything before the program itself."""
    while rest:
        name = PurePosixPath(rest[0]).name
        if _ASSIGNMENT.match(rest[0]):
            variables |= dict([_split(rest.pop(0))])
        elif rest[0] in _KEYWORDS:
            del rest[0]
        elif name in _STARTERS:
            del rest[0]
            while rest and rest[0].startswith("-"):
                valued = rest.pop(0) in _STARTERS[name].split()
                del rest[: int(valued)]
            del rest[: _FIRST_WORDS.get(name, 0)]
        else:
            return


def text_of(call: Call) -> str:
    """Return the command line that a shell is given as an argument."""
    if call.name == "eval":
        return " ".join(call.words[1:])
    for option, text in zip(call.words[1:], call.words[2:], strict=False):
        if call.name in SHELLS and re.fullmatch(r"-[a-z]*c[a-z]*", option):
            return text
    return ""


def _activated(call: Call) -> str:
    """Return the `bin` folder of the virtual environment that is activated."""
    if call.program in (".", "source") and call.words[1:] and call.words[1].endswith("/activate"):
        return call.words[1].removesuffix("/activate")
    return ""


def _split(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def _parts(command: str) -> list[list[str]]:
    lines = [_without_comment(line) for line in command.replace("\\\n", " ").splitlines()]
    try:
        words = _words(" ; ".join(lines))
    except ValueError:  # an open quote: the shell will say so
        words = []
        for line in lines:
            try:
                words += [*_words(line), ";"]
            except ValueError:  # as in the lines of a text between quotes
                words += [*line.split(), ";"]
    parts: list[list[str]] = [[]]
    for word in words:
        if _ENDS.fullmatch(word):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _without_comment(line: str) -> str:
    single = double = begin = 0
    for found in _COMMENT.finditer(line):
        single += line.count("'", begin, found.start())
        double += line.count('"', begin, found.start())
        begin = found.start()
        if single % 2 == 0 and double % 2 == 0:
            return line[:begin]
    return line


PACKAGE = "package.json"
_RUNNERS = frozenset({"make", "gmake", "just", "task", "nox", "tox", "hatch"})
"""Programs that start others which their command line does not name."""
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
"""Limits, because an agent may have written what is read."""


class Script(NamedTuple):
    """A script that is started."""

    file: Path
    text: str
    calls: tuple[Call, ...]
    committed: bool


class StartedCalls(NamedTuple):
    """What calls start indirectly."""

    scripts: tuple[Script, ...]
    unknown: tuple[Call, ...]
    """Calls that may start anything."""


def started_by(folder: Path, first: tuple[Call, ...]) -> StartedCalls:
    """Follow calls in a folder, and the scripts that they start, recursively."""
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
    return StartedCalls(tuple(scripts), tuple(unknown))


def path_settings(text: str) -> list[str]:
    """Return the values of PYTHONPATH in a recipe."""
    return _PATH_SET.findall(text)


def _of_call(call: Call, place: Path, packages: _Packages) -> Iterator[tuple[Path, Path, str]]:
    """Return the folder, file and text of each script that a call starts directly."""
    if call.name in _SCRIPT_RUNNERS:
        yield from _of_packages(call, place, packages)
        return
    file = _script_file(call, place)
    text = read_small_text(file) if file is not None else ""
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
    """Return the calls of a script; if a variable names the program, all Pythons in the text."""
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
