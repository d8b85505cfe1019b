"""The night as a drawing: which slot worked when on which task, and how that ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.terminal.text import instant
from orchestrator.web.pages.site import task_url

if TYPE_CHECKING:
    from orchestrator.web.reading.attempts import AttemptSpanForm

HOURS = 12
MOST_LANES = 6
WIDE = 899.0
_LANE = 19
_HOUR = 3600
_NARROWEST = 2.0
_LETTER = 7.0
_GREY = frozenset(
    ("blocked", "rate_limit", "quota", "overloaded", "network", "interrupted", "stopped", "killed")
)
_GREEN = frozenset(("task_complete", "pr_created", "completed"))


class RibbonBar(NamedTuple):
    """One attempt."""

    x: float
    y: float
    width: float
    colour: str
    text: str
    label: str
    href: str


def night_of(attempts: list[AttemptSpanForm], present: float) -> dict[str, Any]:
    """Return what the drawing needs; without bars there was nothing."""
    begin = max(present - HOURS * _HOUR, min((each["started_at"] for each in attempts), default=0))
    long = max(present - begin, _HOUR / 6)
    begin = present - long
    lanes: list[float] = []
    bars = []
    for each in sorted(attempts, key=lambda one: one["started_at"]):
        start, end = max(each["started_at"], begin), each["ended_at"] or present
        lane = next((n for n, free in enumerate(lanes) if free <= each["started_at"]), len(lanes))
        if lane == len(lanes) and lane < MOST_LANES:
            lanes.append(end)
        if lane >= MOST_LANES:
            continue
        lanes[lane] = end
        bars.append(_bar(each, (start - begin) / long, (end - begin) / long, lane, present))
    height = len(lanes) * _LANE + 19
    step = _HOUR if long > 3 * _HOUR else _HOUR // 6
    first = (int(begin) // step + 1) * step
    hours = [
        (round(WIDE * (at - begin) / long, 1), time.strftime("%H:%M", time.localtime(at)))
        for at in range(first, int(present), step)
        if (present - at) / long > 0.04  # noqa: PLR2004  # there stands the present
    ]
    return {
        "bars": bars,
        "lanes": len(lanes),
        "rows": [n * _LANE for n in range(len(lanes))],
        "height": height,
        "hours": hours,
        "label": f"From {instant(begin, present)} to {instant(present, present)}: which slot "
        "worked on which task",
    }


def _bar(each: AttemptSpanForm, begin: float, end: float, lane: int, present: float) -> RibbonBar:
    x, wide = WIDE * begin, max(_NARROWEST, WIDE * (end - begin) - 1.5)
    outcome = each["outcome"]
    colour = "red"
    if each["ended_at"] is None:
        colour, outcome = "run", "working"
    elif outcome in _GREEN:
        colour = "green"
    elif outcome == "question":
        colour = "you"
    elif outcome in _GREY:
        colour = "grey"
    name = each["task_id"]
    ended = instant(each["ended_at"] or present, present)
    label = f"{name} attempt {each['attempt']}, {instant(each['started_at'], present)} to {ended}"
    return RibbonBar(
        round(x, 1),
        lane * _LANE + 0.5,
        round(wide, 1),
        colour,
        name if wide > len(name) * _LETTER + 6 else "",
        f"{label}, {outcome.replace('_', ' ')}",
        task_url(each["agent_id"]),
    )
