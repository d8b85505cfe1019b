"""What an adapter's parser makes of a recorded run, complete or corrupted.

Pure but for the adapter's own code, which may raise; that is reported, never passed on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.agents.outcome import Ending, RunOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runtime.agents.adapter import Adapter

GOOD = frozenset({Ending.COMPLETED, Ending.WAITING})
"""Endings that say that the program ended its turn well."""
NOISE: tuple[bytes, ...] = (
    b"",
    b"\r",
    b"\x00\xff\xfe\x80",
    b"plain words that are not an event",
    b"null",
    b"[]",
    b"[1, 2",
    b'"text"',
    b"{",
    b"{}",
    b'{"type":',
    b'{"type":null}',
    b'{"type":7}',
    b'{"type":["a"]}',
    b'{"type":"conformance.unknown"}',
    b'{"type":"conformance.unknown","message":{"content":[{"type":"text","text":"x"}]}}',
    b'{"kind":"conformance.unknown","event":{}}',
    b"[" * 5000,
    b'{"type":"conformance.unknown","number":' + b"9" * 5000 + b"}",
    b'{"type":"conformance.unknown","text":"' + b"x" * 100_000 + b'"}',
)
"""Lines that no program writes today."""
_CODES = (0, 1, 255, -9, -15, None)
_SPOILT_AT_MOST = 200


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a run was judged when it was replayed."""

    outcome: RunOutcome | None
    problem: str = ""

    @property
    def good(self) -> bool:
        """Whether it counts as a turn that ended well."""
        return self.outcome is not None and self.outcome.outcome in GOOD


def replay(
    adapter: Adapter, now: Callable[[], float], lines: Iterable[bytes], code: int | None
) -> Replayed:
    """Feed lines to a fresh parser and ask how the run ended; a negative code is a signal."""
    try:
        parser = adapter.parser(now, live=True)
        for line in lines:
            parser.feed(line)
        outcome = parser.finish(code)
        json.dumps(outcome.to_json())
    except Exception as problem:  # noqa: BLE001  # an adapter's own code; that is a finding
        return Replayed(None, f"{type(problem).__name__}: {problem}")
    return Replayed(outcome)


def first_problem(
    adapter: Adapter, now: Callable[[], float], lines: Sequence[bytes]
) -> tuple[str, str]:
    """Return on which corrupted output the parser raised, and what; '' and '' if it never did."""
    for name, spoilt in _spoilings(lines):
        for code in _CODES:
            found = replay(adapter, now, spoilt, code)
            if found.problem:
                return name, found.problem
    return "", ""


def interleaved(lines: Sequence[bytes]) -> list[bytes]:
    """Return the output with unknown lines before each of its lines."""
    mixed: list[bytes] = []
    for place, line in enumerate(lines):
        mixed += (NOISE[place % len(NOISE)], line)
    return [*NOISE, *mixed]


def _spoilings(lines: Sequence[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    yield "no output", []
    for number, noise in enumerate(NOISE, 1):
        yield f"strange line {number}", [noise]
    yield "all strange lines", list(NOISE)
    some = lines[:_SPOILT_AT_MOST]
    yield "its output cut short in each line", [line[: len(line) // 2] for line in some]
    yield "its output without the start of each line", [line[len(line) // 2 :] for line in some]
    yield "its output with other types of values", [_retyped(line) for line in some]
    yield "the first half of its output", list(some[: len(some) // 2])


def _retyped(line: bytes) -> bytes:
    """Keep the names of an event, and make all that is below a value of another kind."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(found, dict):
        return line
    changed = {
        name: value if name == "type" else 7 if isinstance(value, dict | list | str) else "x"
        for name, value in found.items()
    }
    return json.dumps(changed).encode()
