"""The programs that a shell command starts, as far as its words tell. Starts none of them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_STARTERS = frozenset({"env", "exec", "time", "nice", "nohup", "command", "!", "(", "{"})
"""Words before a program that change nothing about which one it is."""
_ENDS = re.compile(r"[;&|()\n]+")


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


def calls(command: str) -> tuple[Call, ...]:
    """Return the programs of a command line in their order."""
    found: list[Call] = []
    lasting: dict[str, str] = {}
    for words in _parts(command):
        variables, rest = dict(lasting), list(words)
        if rest[:1] == ["export"]:
            lasting |= dict(_split(word) for word in rest[1:] if _ASSIGNMENT.match(word))
            continue
        while rest and (rest[0] in _STARTERS or _ASSIGNMENT.match(rest[0])):
            word = rest.pop(0)
            if _ASSIGNMENT.match(word):
                variables |= dict([_split(word)])
        if not rest:
            lasting |= variables
        found.append(Call(tuple(rest), variables))
    return tuple(found)


def _split(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def _parts(command: str) -> list[list[str]]:
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # an open quote: the shell will say so
        words = command.split()
    parts: list[list[str]] = [[]]
    for word in words:
        if _ENDS.fullmatch(word):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]
