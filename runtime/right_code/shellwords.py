"""The programs that a shell command starts, as far as its words tell. Starts none of them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import PurePosixPath

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
"""Programs before another one that do not change which one it is, and their options with values."""
_FIRST_WORDS = {"timeout": 1, "gtimeout": 1, "taskset": 1, "flock": 1}
"""How many words of their own come before the program."""
_ENDS = re.compile(r"[;&|()\n]+")
_COMMENT = re.compile(r"(?:^|\s)#")


@dataclass(frozen=True, slots=True)
class Call:
    """One program with its arguments."""

    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    """What is set for it on the same line, or exported before it."""

    @property
    def program(self) -> str:
        """The program as it was written; empty for a line that only sets variables."""
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
    """Take away what comes before the program itself."""
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
    """Return the folder of programs of the virtual environment that is activated."""
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
