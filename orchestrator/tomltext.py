"""Reads TOML for people who make mistakes: every complaint names file and line.

Knows nothing about settings. Does no more than read.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ConfigError

if TYPE_CHECKING:
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

    def where(self, path: tuple[str, ...]) -> str:
        """Name the place of a value: file and line, or the file alone if the line is unclear."""
        line = self._line(path)
        return f"{self.path}, line {line}" if line else str(self.path)

    def _line(self, path: tuple[str, ...]) -> int | None:
        """Find the first line before which the value is not there and with which it is.

        The parser itself is asked about the lines that hold the name, so comments, texts over
        several lines and every way of writing a key are told apart as TOML does.
        """
        lines = self._text.split("\n")
        for number, line in enumerate(lines):
            if path[-1] not in line:
                continue
            before = _parsed(lines[:number])
            if before is None or _has(before, path):
                continue
            for end in range(number + 1, len(lines) + 1):
                after = _parsed(lines[number:end], lines[:number])
                if after is not None:
                    if _has(after, path):
                        return number + 1
                    break
        return None


def _parsed(lines: list[str], before: list[str] | None = None) -> dict[str, Any] | None:
    try:
        return tomllib.loads("\n".join([*(before or []), *lines]))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _has(values: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True


def _explained(path: Path, text: str, problem: str) -> str:
    found = _AT.search(problem)
    if found is None:
        return f"{path} is no TOML: {problem}"
    line = found[1] or str(text.rstrip("\n").count("\n") + 1)
    return f"{path}, line {line}: no TOML: {problem[: found.start()]}"
