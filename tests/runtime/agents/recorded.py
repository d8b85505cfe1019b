"""Runs of real agent programs as they were recorded, and the reading of them."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.agents.catalogue import built_in

if TYPE_CHECKING:
    from datetime import tzinfo

    from runtime.agents.outcome import Ending, RunOutcome
    from runtime.agents.parsing.parser import Parser

FOLDER = Path(__file__).parent / "transcripts"
NOON = 1795003200.0
"""2026-11-18 12:00 UTC, the day on which the runs were recorded."""
CODES = {
    "claude": {
        **dict.fromkeys(("bgtool", "failtool", "mcp", "noperm", "oauth_warn", "ok"), 0),
        **dict.fromkeys(("res1", "res2", "sig_INT", "text"), 0),
        **dict.fromkeys(("budget", "e_auth", "e_billing", "e_context", "e_drop", "e_model"), 1),
        **dict.fromkeys(("e_overloaded", "e_rate_limit", "e_rate_ra", "maxturns"), 1),
        **dict.fromkeys(("netdown", "oauth_limit"), 1),
        "sig_TERM": 143,
    },
    "codex": {
        **dict.fromkeys(("bgtool", "failtool", "mcp", "ok", "res1"), 0),
        **dict.fromkeys(("e_auth", "e_billing", "e_codex_limit", "e_context", "e_drop"), 1),
        **dict.fromkeys(("e_model", "e_overloaded", "e_rate_limit", "e_usage_limit"), 1),
        "sig_INT": 1,
        "sig_TERM": -15,
        "netdown": -9,
    },
    "gemini": {
        **dict.fromkeys(("e_drop", "failtool", "maxturns", "mcp", "ok", "res1", "res2"), 0),
        "sig_TERM_group": 0,
        "netdown": 1,
        "e_auth": 145,
        "e_context": 144,
        "e_gemini_daily": 173,
        "e_rate_limit": 173,
        "e_overloaded": 17,
    },
    "opencode": {
        **dict.fromkeys(("failtool", "ok", "res1", "res2"), 0),
        **dict.fromkeys(("e_auth", "e_billing", "e_model", "e_overloaded", "e_rate_limit"), 1),
        "netdown": 1,
        "e_context": -9,
        "sig_TERM": -15,
    },
    "copilot": {"ok": 0, "e_auth": 1, "e_context": 1, "e_rate_limit": 1},
}
"""The exit code of each recorded run; negative is a signal."""
ALL = [(name, case) for name, cases in CODES.items() for case in cases]
Line = bytes | dict[str, Any]


def lines(name: str, case: str) -> list[bytes]:
    return (FOLDER / name / f"{case}.stdout").read_bytes().split(b"\n")


def stderr(name: str, case: str) -> str:
    path = FOLDER / name / f"{case}.stderr"
    return path.read_text() if path.exists() else ""


def parser(name: str, *, now: float = NOON, zone: tzinfo | None = UTC, live: bool = True) -> Parser:
    return built_in(name).parser(lambda: now, zone, live=live)


def replay(name: str, case: str, *, live: bool = True, now: float = NOON) -> RunOutcome:
    """Judge a recorded run."""
    reading = parser(name, live=live, now=now)
    for line in lines(name, case):
        reading.feed(line)
    return reading.finish(CODES[name][case], stderr_tail=stderr(name, case))


def ran(  # noqa: PLR0913  # a run has that many sides
    name: str,
    *said: Line,
    code: int | None = 0,
    stderr: str = "",
    ours: Ending | None = None,
    now: float = NOON,
    live: bool = True,
) -> RunOutcome:
    """Judge a run that is made up of lines."""
    reading = parser(name, now=now, live=live)
    for line in said:
        reading.feed(line if isinstance(line, bytes) else compact(line))
    return reading.finish(code, stderr_tail=stderr, our_reason=ours)


def compact(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()


def part_of(name: str, case: str, *kinds: str) -> list[dict[str, Any]]:
    """Return the events of a recorded run, all or those of some kinds."""
    found = [json.loads(line) for line in lines(name, case) if line]
    return [each for each in found if not kinds or each["type"] in kinds]
