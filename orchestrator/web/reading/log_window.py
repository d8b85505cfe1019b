"""A part of a log as people read it: which lines, of which kind, and where it goes on.

Looks through a bounded part of the file, so that a log of any size answers at once. What a kind
is, the agent's program says through its adapter.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

from orchestrator.web.reading.log_bytes import CHUNK
from orchestrator.wording.program_output import TROUBLE, ReadableOutput
from runtime.agents.events import Event, Text, ToolCall, UnknownEvent
from runtime.agents.parsing.lines import CAP
from runtime.logs.files import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from orchestrator.web.reading.log_bytes import LogBytes, RawLine
    from runtime.agents.adapter import Adapter
    from runtime.agents.parsing.parser import Clock

LIMIT = 200
MOST = 1000
"""Lines of one window."""
BLOCK = 1 << 16
"""Bytes that are read at once: a window of 200 lines is mostly smaller."""
LOOKED = 1 << 21
"""Bytes that are looked through for the lines of one window."""
LOOKED_FOR_ERRORS = 1 << 23
SEARCHED = 1 << 26
"""Bytes that one search goes through."""
_CANDIDATES = 500
"""Lines that one search reads because they may hold the text."""
ROOM = 4000
"""Characters of one line that are shown."""
_WINDOW_ROOM = 200_000
"""Characters of all lines of a window, about."""
_CONTEXT = 5
"""Lines above one that was found."""
_ERROR = re.compile(
    r"\b(?:error|errors|failed|failure|exception|traceback|fatal|panic|denied)\b", re.IGNORECASE
)
_NO_ERROR = re.compile(r"\b(?:0|no) (?:errors?|failures?|failed)\b", re.IGNORECASE)
_LEFT_OUT = re.compile(rb"\[\.\.\. (\d+) bytes left out \.\.\.\]")

Kind = Literal["tool", "words", "output", "error", "note", "gap"]


class LogLineForm(TypedDict):
    """A line of a log in words; a long text of the agent is one."""

    at: int
    """where it begins in the file, in bytes"""
    end: int
    number: int | None
    """of the line in the file; null far within a large one"""
    kind: Kind
    """a `tool` call, the agent's `words`, other `output`, an `error`, a `note` about the run, or a
    `gap` where the middle of a log above its cap is gone"""
    text: str
    left_out: int
    """characters of the text that are not here"""
    open: bool
    """its end is not written yet; it comes again, longer"""


class LogWindowForm(TypedDict):
    """A part of a log."""

    lines: list[LogLineForm]
    before: int | None
    """ask with `before` for the lines above; null at the beginning"""
    after: int
    """ask with `after` for the lines below"""
    more: bool
    """whether there are lines below now"""
    size: int
    """of the log, in bytes"""
    looked: int
    """bytes that were looked through"""
    found: int | None
    """where the text was found that was searched for"""
    goes_on: int | None
    """where to go on searching: a search looks through a part of a large log"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which part is wanted; the end if neither place is given."""

    before: int | None = None
    after: int | None = None
    at: int | None = None
    """Around a byte."""
    limit: int = LIMIT
    errors: bool = False
    q: str = ""
    """A text to search for, from the place on; from the end backwards if none is given."""


@dataclass(frozen=True, slots=True)
class LogReader:
    """How the lines of one attempt's log are put into words."""

    adapter: Adapter | None
    """None where the program's output is its own text."""
    now: Clock
    folder: str = ""
    mask: Callable[[str], str] = str

    def lines(self, raw: Iterable[RawLine]) -> list[LogLineForm]:
        """Return lines in words; numbers are not filled in."""
        told = ReadableOutput(self.adapter, self.now, self.folder) if self.adapter else None
        found = list[LogLineForm]()
        for line in raw:
            for kind, text, goes_on in self._pieces(line, told):
                last = found[-1] if goes_on and found and found[-1]["kind"] == "words" else None
                if last is not None:
                    # One text of the agent that comes in pieces.
                    shown, left_out = self._shown(last["text"] + text)
                    last |= {"end": line.end, "text": shown}
                    last["left_out"] += left_out
                    continue
                shown, left_out = self._shown(text)
                found.append(
                    {
                        "at": line.at,
                        "end": line.end,
                        "number": None,
                        "kind": kind,
                        "text": shown,
                        "left_out": left_out,
                        "open": not line.whole and not line.hole,
                    }
                )
        return found

    def _shown(self, text: str) -> tuple[str, int]:
        """Return the beginning of a text, safe to be shown, and how much is left out."""
        begin = self.mask(clean(text[: 2 * ROOM])).rstrip()
        return begin[:ROOM], max(0, len(text) - 2 * ROOM) + max(0, len(begin) - ROOM)

    def _pieces(
        self, line: RawLine, told: ReadableOutput | None
    ) -> Iterator[tuple[Kind, str, bool]]:
        """Yield kind and text of what a line says, and whether it goes on with the one before."""
        if line.hole:
            yield "gap", f"{line.end - line.at:,} bytes left out: the log was above its cap", False
        elif (left := _LEFT_OUT.fullmatch(line.data)) is not None:
            yield "gap", f"{int(left[1]):,} bytes left out: the log was above its cap", False
        elif told is None:
            # What a program wrote over itself is seen as it was at last.
            data = line.data.rstrip(b"\r")
            text = data[data.rfind(b"\r") + 1 :].decode("utf-8", "replace")
            wrong = _ERROR.search(text[:ROOM]) and not _NO_ERROR.search(text[:ROOM])
            yield "error" if wrong else "output", text, False
        elif len(line.data) > CAP:
            yield "note", f"[a report of more than {CAP:,} bytes]", False
        else:
            for event, words in told.pieces(line.data):
                goes_on = isinstance(event, Text) and event.part
                yield _kind(event, words), words.replace(TROUBLE, ""), goes_on


def _kind(event: Event, words: str) -> Kind:
    match event:
        case Text():
            return "words"
        case ToolCall():
            return "tool"
        case UnknownEvent():
            return "output"
        case _:
            return "error" if words.startswith(TROUBLE) else "note"


def window(log: LogBytes, reader: LogReader, asked: Asked) -> LogWindowForm:
    """Return a part of a log."""
    if asked.q:
        return _searched(log, reader, asked)
    if asked.after is not None or asked.at is not None:
        at = log.line_at(asked.at if asked.after is None else asked.after)  # type: ignore[arg-type]  # one of them is given
        return _below(log, reader, asked, at)
    return _above(log, reader, asked, log.size if asked.before is None else asked.before)


def _below(log: LogBytes, reader: LogReader, asked: Asked, begin: int) -> LogWindowForm:
    """Return the lines from one on."""
    found, at, room = list[LogLineForm](), begin, _looks(asked)
    block = CHUNK if asked.errors else BLOCK
    while at - begin < room and len(found) < asked.limit:
        raw = log.after(at, block)
        if not raw:
            break
        found += _wanted(reader.lines(raw), asked)
        at = raw[-1].end
    kept = _fitting(found, asked.limit)
    looked = at - begin
    if len(kept) < len(found):
        at = kept[-1]["end"]
    return _form(log, kept, _Places(begin, at, looked))


def _above(log: LogBytes, reader: LogReader, asked: Asked, end: int) -> LogWindowForm:
    """Return the lines before a byte."""
    end = min(end, log.size)
    found, at, room = list[LogLineForm](), end, _looks(asked)
    block = CHUNK if asked.errors else BLOCK
    while end - at < room and len(found) < asked.limit:
        raw = log.before(at, block)
        if not raw:
            break
        found = _wanted(reader.lines(raw), asked) + found
        at = raw[0].at
    kept = _fitting(found[::-1], asked.limit)[::-1]
    looked = end - at
    if len(kept) < len(found):
        at = kept[0]["at"]
    return _form(log, kept, _Places(at, end, looked))


def _searched(log: LogBytes, reader: LogReader, asked: Asked) -> LogWindowForm:
    """Return the lines around the next one that holds the text, or how far it was looked for."""
    forward = asked.after is not None
    place = asked.after if asked.after is not None else asked.before
    begin = at = log.size if place is None else max(0, min(place, log.size))
    wanted, needles, candidates = asked.q.casefold(), _needles(asked.q), _CANDIDATES
    while abs(at - begin) < SEARCHED and candidates > 0:
        raw = log.after(at) if forward else log.before(at)
        if not raw:
            break
        at = raw[-1].end if forward else raw[0].at
        for line in raw if forward else reversed(raw):
            data = line.data.lower()
            if not any(each in data for each in needles):
                continue
            candidates -= 1
            if any(wanted in each["text"].casefold() for each in reader.lines([line])):
                above = _above(log, reader, Asked(limit=_CONTEXT), line.at)
                first = above["lines"][0]["at"] if above["lines"] else line.at
                shown = _below(log, reader, Asked(limit=asked.limit), first)
                goes_on = line.end if forward else line.at
                return shown | {"found": line.at, "goes_on": goes_on}
    over = at >= log.size if forward else at <= 0
    plain = Asked(limit=asked.limit)
    if forward:
        shown = _below(log, reader, plain, log.line_at(begin))
    else:
        shown = _above(log, reader, plain, begin)
    return shown | {"goes_on": None if over else at, "looked": abs(at - begin)}


def _needles(text: str) -> tuple[bytes, ...]:
    """Return how a text may stand in a file: as it is, or within JSON."""
    low = text.lower()
    forms = (low, json.dumps(low, ensure_ascii=False)[1:-1], json.dumps(low)[1:-1])
    return tuple(dict.fromkeys(each.encode("utf-8", "replace") for each in forms))


def _wanted(lines: list[LogLineForm], asked: Asked) -> list[LogLineForm]:
    return [each for each in lines if each["kind"] == "error"] if asked.errors else lines


def _looks(asked: Asked) -> int:
    return LOOKED_FOR_ERRORS if asked.errors else LOOKED


def _fitting(lines: list[LogLineForm], limit: int) -> list[LogLineForm]:
    """Return the first lines that fit into a window; what one line of the file says stays whole."""
    room = _WINDOW_ROOM
    for count, line in enumerate(lines):
        room -= len(line["text"])
        full = count >= limit or (room < 0 and count > 0)
        if full and line["at"] != lines[count - 1]["at"]:
            return lines[:count]
    return lines


@dataclass(frozen=True, slots=True)
class _Places:
    """What a window covers."""

    begin: int
    end: int
    looked: int


def _form(log: LogBytes, lines: list[LogLineForm], places: _Places) -> LogWindowForm:
    if lines:
        number = log.number(lines[0]["at"])
        at = lines[0]["at"]
        for line in lines:
            if number is not None:
                number += log.read(at, line["at"] - at).count(b"\n")
                at = line["at"]
            line["number"] = number
            if line["kind"] == "gap":
                number = None
    # A line whose end is not written yet is read once more.
    after = lines[-1]["at"] if lines and lines[-1]["open"] else places.end
    return {
        "lines": lines,
        "before": places.begin or None,
        "after": after,
        "more": places.end < log.size,
        "size": log.size,
        "looked": places.looked,
        "found": None,
        "goes_on": None,
    }
