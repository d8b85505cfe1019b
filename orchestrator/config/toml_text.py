"""Reads TOML for people who make mistakes: every complaint names file and line.

Knows nothing about settings. Does no more than read.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_AT = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")


class TomlText:
    """One TOML file: its values, and where each stands."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self._text = path, text
        try:
            self.values: dict[str, Any] = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as problem:
            raise ConfigError(_explained(path, text, str(problem))) from problem

    @classmethod
    def read(cls, path: Path) -> TomlText | None:
        """Read a file; None if there is none."""
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as problem:
            raise ConfigError(f"{path} cannot be read ({problem.strerror})") from problem
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as problem:
            line = data[: problem.start].count(b"\n") + 1
            raise ConfigError(
                f"{path}, line {line}: not UTF-8; save the file as UTF-8"
            ) from problem
        return cls(path, text.replace("\r\n", "\n"))

    def table(self, *path: str) -> dict[str, Any]:
        """Return a table by its path, empty if there is none."""
        found = self.values
        for at, name in enumerate(path, 1):
            inner = found.get(name, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{self.where(path[:at])}: {'.'.join(path[:at])} must be a table")
            found = inner
        return found

    def has(self, path: Sequence[str | int]) -> bool:
        """Tell whether a value is there."""
        return _has(self.values, path)

    def where(self, path: Sequence[str | int]) -> str:
        """Name the place of a value: file and line, or the file alone if the line is unclear."""
        line = line_of(self._text, path)
        return f"{self.path}, line {line}" if line else str(self.path)


def line_of(text: str, place: Sequence[str | int]) -> int:
    """Return the line of a value in a TOML text that can be read, from 1; 0 if it is not there.

    The parser itself is asked whether the lines up to a point hold the value, so that every way to
    write a table counts; bisection keeps that quick in long files.
    """
    lines = text.split("\n")
    if not _has(_until(lines, len(lines))[1], place):
        return 0
    low, high = 0, len(lines)
    while low + 1 < high:
        middle = (low + high) // 2
        if _has(_until(lines, middle)[1], place):
            high = middle
        else:
            low = middle
    # A value over several lines counts from its first one.
    return _until(lines, low)[0] + 1


def _until(lines: list[str], end: int) -> tuple[int, Mapping[str, Any]]:
    """Return the most of the first lines that are TOML by themselves, and what they say."""
    for number in range(end, 0, -1):
        try:
            return number, tomllib.loads("\n".join(lines[:number]))
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
    return 0, {}


def _has(values: Any, place: Sequence[str | int]) -> bool:
    for name in place:
        if isinstance(name, int):
            if not isinstance(values, list) or name >= len(values):
                return False
        elif not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True


def _explained(path: Path, text: str, problem: str) -> str:
    found = _AT.search(problem)
    if found is None:
        return f"{path} is not valid TOML: {problem}"
    line = found[1] or str(text.rstrip("\n").count("\n") + 1)
    return f"{path}, line {line}: not valid TOML: {problem[: found.start()]}"
