"""How things look on a terminal: ages, instants, tables, colours, and untrusted text made safe.

Imports nothing heavy. Reads no environment but what it is given. Must not know what it shows.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, TextIO

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_KEPT = "\u00a0\u200c\u200d"
"""Unprintable to Python, but part of ordinary words and symbols."""
_WIDE = "WF"
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
ENOUGH = 40
"""Columns that a text needs beside others; with less, or for a longer word, it stands below."""
INDENT = 4


def now() -> float:
    """Return the present instant; commands ask once and hand it on."""
    return time.time()  # noqa: TID251  # the outermost edge; everything below is handed this value


def safe(text: str, *, lines: bool = False) -> str:
    """Show control, direction and other invisible characters as escapes.

    With `lines`, newlines and tabs are kept.
    """
    if text.isprintable():
        return text
    kept = _KEPT + "\n\t" if lines else _KEPT
    return "".join(char if char.isprintable() or char in kept else _escaped(char) for char in text)


def one_line(text: str, width: int = 0) -> str:
    """Return untrusted text, made safe, on one line; cut to `width` columns if that is given."""
    flat = safe(" ".join(text.split()))
    return cut(flat, width) if width else flat


def cut(text: str, width: int) -> str:
    """Cut to a number of columns; what was cut shows as '...'."""
    if columns(text) <= width:
        return text
    room, kept = max(width - 3, 0), []
    for char in text:
        room -= columns(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + "..."[:width]


def columns(text: str) -> int:
    """Return how many columns a terminal gives a text."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width  # noqa: PLC0415  # rarely needed

    return sum(
        0
        if combining(char) or char in "\u200c\u200d\ufe0f"
        else 1 + (east_asian_width(char) in _WIDE)
        for char in text
    )


def span(seconds: float) -> str:
    """Say how long something takes or took: `45 s`, `3 min`, `2 h 5 min`, `4 d 3 h`."""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < _DAY:
        return _two(whole // _HOUR, "h", whole % _HOUR // _MINUTE, "min")
    return _two(whole // _DAY, "d", whole % _DAY // _HOUR, "h")


def short_count(number: int) -> str:
    """Return a number in three digits: `950`, `12.3k`, `1.24M`; nothing for 0."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if number >= size:
            value = number / size
            return f"{value:.{max(0, 3 - len(str(int(value))))}f}{unit}"
    return str(number) if number else ""


def instant(at: float, present: float, *, seconds: bool = False) -> str:
    """Say when something was or will be, in local time: the hour today, else with the date."""
    then, today = time.localtime(at), time.localtime(present)
    hour = "%H:%M:%S" if seconds else "%H:%M"
    return time.strftime(hour if then[:3] == today[:3] else f"%Y-%m-%d {hour}", then)


def stamp(at: float) -> str:
    """Return an instant as ISO 8601 in UTC, for programs and logs."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = 0) -> str:
    """Lay out rows in columns, safe for a terminal; nothing of the last column is cut off."""
    return "\n".join(blocks(heads, rows, width=width))


def blocks(heads: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = 0) -> list[str]:
    """Return a table as one text for its head and one for each row.

    To fit `width` the last column is wrapped; where it has no room, it stands below the others.
    """
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(columns(row[at]) for row in (heads, *shown)) for at in range(len(heads))]
    before = sum(widths[:-1]) + 2 * (len(heads) - 1)
    return [
        _block("".join(map(_padded, row[:-1], widths)), row[-1], before, width)
        for row in (heads, *shown)
    ]


def _padded(cell: str, size: int) -> str:
    return cell + " " * (size - columns(cell) + 2)


def _block(start: str, last: str, before: int, width: int) -> str:
    room = width - before
    if not width or columns(last) <= room:
        return f"{start}{last}".rstrip()
    if room >= max(ENOUGH, *map(columns, last.split(" "))):
        return start + f"\n{' ' * before}".join(wrapped(last, room))
    lines = [start.rstrip(), *wrapped(last, max(width - INDENT, ENOUGH))]
    return f"\n{' ' * INDENT}".join(lines)


def wrapped(text: str, width: int, *, links: bool = False) -> list[str]:
    """Break a line at blanks, and within a word that is longer than the line.

    With `links` an address is not broken, as it would open nothing: the terminal itself wraps it.
    """
    lines, line = list[str](), ""
    for word in text.split(" "):
        if line and columns(line) + 1 + columns(word) <= width:
            line += f" {word}"
            continue
        if line:
            lines.append(line)
        line = word if links and "://" in word else ""
        for char in "" if line else word:
            if columns(line) + columns(char) > width:
                lines.append(line)
                line = ""
            line += char
    return [*lines, line]


def terminal_width(stream: TextIO, environ: Mapping[str, str]) -> int:
    """Return the width of the terminal; 0 (no limit) when the stream is not one."""
    if not stream.isatty():
        return 0
    if environ.get("COLUMNS", "").isdigit():
        return int(environ["COLUMNS"])
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return 80


def coloured(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to use colours: only on a terminal that has them, and not against NO_COLOR."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def paint(text: str, colour: str, *, wanted: bool) -> str:
    """Return the text in a colour of ours, if colours are wanted."""
    code = _CODES.get(colour)
    return f"\x1b[{code}m{text}\x1b[0m" if wanted and code else text


def to_json(value: Any, *, compact: bool = False) -> str:
    """Return JSON that is safe on any terminal: nothing but ASCII."""
    return json.dumps(
        value, separators=(",", ":") if compact else None, indent=None if compact else 2
    )


def say(text: str = "") -> None:
    """Write a line of data to standard output."""
    sys.stdout.write(text + "\n")


def tell(text: str) -> None:
    """Write a line about progress to standard error."""
    sys.stderr.write(text + "\n")


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first} {unit} {second} {smaller}" if second else f"{first} {unit}"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
