"""The part of a GitHub Actions log that shows why a job failed.

Owns the markers that GitHub's runner writes into logs. Pure.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ci.events import CheckState
from ci.forge.json_fields import epoch, rows, text
from ci.github.payloads import state_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STAMP = re.compile(r"\ufeff?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z ?")
_ERROR = "##[error]"
_STEP = "##[group]Run "
_MARK = re.compile(r"##\[[a-z]+\]")

Line = tuple[float | None, str]
"""The time, if the log has one, and the text."""


def failed_steps(job: object) -> list[Mapping[str, Any]]:
    """Return the steps of a job that failed, in their order."""
    return [
        step
        for step in rows(job, "steps")
        if state_of(text(step, "conclusion")) is CheckState.FAILED
    ]


def excerpt_of(log: str, failed: Sequence[Mapping[str, Any]]) -> str:
    """Return what the first failed step printed up to its last error, without time stamps.

    Later steps clean up and may print a lot, so the end of the log is not where the failure is.
    """
    lines = _lines(log)
    span = _span(lines, failed[0]) if failed else []
    kept = span or _last_step_with_an_error(lines)
    ends = [at for at, (_, what) in enumerate(kept) if what.startswith(_ERROR)]
    if ends:
        kept = kept[: ends[-1] + 1]
    return "\n".join(_plain(what) for _, what in kept if what != "##[endgroup]")


def _lines(log: str) -> list[Line]:
    found: list[Line] = []
    at: float | None = None
    for line in log.splitlines():
        stamp = _STAMP.match(line)
        if stamp is not None:
            at = datetime.fromisoformat(stamp[1] + "+00:00").timestamp()
        # A line without a time stamp continues the previous one.
        found.append((at, line[stamp.end() :] if stamp is not None else line))
    return found


def _span(lines: Sequence[Line], step: Mapping[str, Any]) -> list[Line]:
    begin, end = epoch(step, "started_at"), epoch(step, "completed_at")
    if not begin or not end:
        return []
    return [(at, what) for at, what in lines if at is not None and begin <= at <= end]


def _last_step_with_an_error(lines: list[Line]) -> list[Line]:
    errors = [at for at, (_, what) in enumerate(lines) if what.startswith(_ERROR)]
    if not errors:
        return lines
    begins = [at for at, (_, what) in enumerate(lines[: errors[-1]]) if what.startswith(_STEP)]
    return lines[begins[-1] if begins else 0 :]


def _plain(line: str) -> str:
    if line.startswith(_ERROR):
        return "error: " + line.removeprefix(_ERROR)
    return _MARK.sub("", line, count=1) if line.startswith("##[") else line
