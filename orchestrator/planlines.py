"""Where in a plan something stands, and what is wrong with it in words. Reads no file."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from lifecycle.plan import Allowance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

BUDGET = "budget"
_MAY_BE = {
    "tokens": "a whole number above 0",
    "usd": "a number above 0",
    "hours": "a number above 0",
    "attempts": "a whole number above 0",
}
_A_BUDGET = f"a table of {', '.join(Allowance.model_fields)}, such as {{ usd = 5.0 }}"
_NO_TABLE = frozenset({"model_type", "model_attributes_type", "dict_type"})


def line_of(path: Path, text: str, place: Sequence[str | int]) -> str:
    """Return `:LINE` of a value in a TOML file that can be read; nothing for other files.

    The parser itself is asked whether the lines up to a point hold the value, so that every way to
    write a table counts; halving keeps that quick in long plans.
    """
    if path.suffix != ".toml":
        return ""
    lines = text.split("\n")
    if not _has(_until(lines, len(lines))[1], place):
        return ""
    low, high = 0, len(lines)
    while low + 1 < high:
        middle = (low + high) // 2
        if _has(_until(lines, middle)[1], place):
            high = middle
        else:
            low = middle
    # A value over several lines counts from its first one.
    return f":{_until(lines, low)[0] + 1}"


def wrong(error: Any) -> str:
    """Say what is wrong with one field, in the words of plans."""
    place = error["loc"]
    if error["type"] == "extra_forbidden":
        known = f"; it may hold {', '.join(_MAY_BE)}" if BUDGET in place[:-1] else ""
        return f"there is no field {place[-1]!r}{known}"
    if BUDGET in place[:-1] and place[-1] in _MAY_BE:
        return f"must be {_MAY_BE[place[-1]]}, not {error['input']!r:.60}"
    if error["type"] in _NO_TABLE:
        return f"must be {_A_BUDGET if place[-1:] == (BUDGET,) else 'a table'}"
    return re.sub(r"^Value error, ", "", str(error["msg"]))


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
