"""Tells whether gates failed alike: the same failure looks a little different each time it is run.

Owns what of an output is noise (times, numbers, addresses, temporary paths, order) and which of its
lines tell most. Pure; what follows from failures that are alike is the machine's business.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.machine.states import Gate

OUTPUT_BYTES = 64 * 1024
"""Of the end of an output, what is compared."""
_LINES = 3
_WIDTH = 240

_NOISE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"/(?:tmp|var/folders|private/var|var/tmp|dev/shm|run/user)/[^\s'\"`:,;)\]]*", "TMP"),
        (r"\b(?:tmp|temp)[a-z0-9_]{6,}\b", "TMP"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "HEX"),
        (r"\b0x[0-9a-f]+\b", "HEX"),
        (r"\b(?=[0-9a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,}\b", "HEX"),
        (
            (
                r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,? "
                r"(?=[a-z]{3}\b|\d)"
            ),
            "",
        ),
        (r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.? (?=\d)", ""),
        # A number by itself, with its unit; digits of a name (test_1, E501) tell things apart.
        (
            (
                r"(?<![a-z_])\d+(?:[.,:]\d+)*(?:e[+-]?\d+)?\s?"
                r"(?:[nµu]?s|ms|secs?|seconds?|mins?|minutes?|hours?|h|%|[kmg]i?b)?(?![a-z_\d])"
            ),
            "#",
        ),
        # How far test runners got, a character for each test.
        (r"(?:^|(?<=\s))[.FEsxX]{2,}\s*(?:\[\s*#\])?\s*$", ""),
        (r"\[\s*#\s*\]", ""),
        (r"\s+", " "),
    )
)
_TELLS = re.compile(
    r"fail|error|exception|assert|expected|panic|not ok|undefined|cannot|^E  |✗|✖", re.IGNORECASE
)


class GateFailure(NamedTuple):
    """How gates failed."""

    digest: str = ""
    lines: str = ""


def failure_of(red: Sequence[tuple[Gate, str]]) -> GateFailure:
    """Return what is common to this failure and others like it; each gate with its output."""
    if not red:
        return GateFailure()
    told = [[gate.command, gate.end, sorted(map(_plain, _lines(text)))] for gate, text in red]
    digest = hashlib.sha256(json.dumps(told).encode(errors="replace")).hexdigest()[:16]
    return GateFailure(digest, _telling([line for _, text in red for line in _lines(text)]))


def _lines(text: str) -> list[str]:
    lines = text.splitlines()
    if len(text.encode(errors="replace")) >= OUTPUT_BYTES - 4:
        del lines[:1]  # cut somewhere
    return [line for line in lines if line.strip()]


def _plain(line: str) -> str:
    for pattern, instead in _NOISE:
        line = pattern.sub(instead, line)
    return line.strip()


def _telling(lines: list[str]) -> str:
    found = [line for line in lines if _TELLS.search(line)] or lines
    chosen = list(dict.fromkeys(" ".join(line.split()) for line in found))[-_LINES:]
    text = " | ".join(chosen)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."
