"""The drawing of the night: it begins where work began, and names what there is room for."""

from __future__ import annotations

from typing import Any

from orchestrator.web.pages.ribbon import HOURS, WIDE, night_of

NOW = 1_800_000_000.0


def span(begin: float, end: float | None, task: str = "T1") -> Any:
    return {
        "agent_id": f"agent-{task}",
        "task_id": task,
        "attempt": 1,
        "started_at": NOW - begin,
        "ended_at": None if end is None else NOW - end,
        "outcome": "task_complete",
    }


def test_it_begins_at_the_first_attempt_that_is_shown() -> None:
    bars = night_of([span(3000, 1500), span(1500, None, "T2")], NOW)["bars"]
    assert [bar.x for bar in bars] == [0, WIDE / 2]
    assert [round(bar.width) for bar in bars] == [448, 448]
    assert [bar.colour for bar in bars] == ["green", "run"]


def test_it_is_at_least_ten_minutes_and_at_most_twelve_hours_wide() -> None:
    (short,) = night_of([span(60, 0)], NOW)["bars"]
    assert short.x == round(WIDE * 0.9, 1)
    long, *_ = night_of([span(2 * HOURS * 3600, 0)], NOW)["bars"]
    assert (long.x, round(long.width)) == (0, round(WIDE - 1.5))
