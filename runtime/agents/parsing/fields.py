"""Reads fields of untrusted JSON: what is missing or of another type counts as absent.

Owns the tolerance. It must not raise, whatever it is given.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from runtime.logs.files import clean

Fields: TypeAlias = dict[str, Any]
_HUGE = 10**15


def parsed(line: bytes | str) -> Fields | None:
    """Return the object that a line holds; None if it holds anything else."""
    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def section(fields: Fields, *names: str) -> Fields:
    """Return an object within objects; an empty one if it is not there."""
    found: Any = fields
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def sections(fields: Fields, name: str) -> list[Fields]:
    """Return the objects of a list."""
    found = fields.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(fields: Fields, name: str) -> str:
    """Return a text; '' if there is none."""
    found = fields.get(name)
    return found if isinstance(found, str) else ""


def count(fields: Fields, name: str) -> int:
    """Return a whole number from 0; 0 if there is none."""
    found = amount(fields, name)
    return int(found) if found is not None else 0


def number(fields: Fields, name: str) -> int | None:
    """Return a whole number, such as a status or an exit code; None if there is none."""
    found = fields.get(name)
    fits = isinstance(found, int) and not isinstance(found, bool) and abs(found) < _HUGE
    return found if fits else None


def amount(fields: Fields, name: str) -> float | None:
    """Return a finite number from 0; None if there is none."""
    found = fields.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    # Compared before it is made a float: there are whole numbers that no float can hold.
    return float(found) if 0 <= found < _HUGE else None


def tidy(words: str, room: int) -> str:
    """Return text fit to be stored and shown: clean, and cut in its middle to `room` characters."""
    half = room * 2
    if len(words) > 2 * half:
        words = words[:half] + words[-half:]
    words = clean(words.encode("utf-8", "replace").decode()).strip()
    if len(words) <= room:
        return words
    kept = (room - 7) // 2
    return f"{words[:kept]} [...] {words[-kept:]}"


def line_of(words: str, room: int = 500) -> str:
    """Return text as one tidy line."""
    return tidy(" ".join(words[: 4 * room].split()), room)
