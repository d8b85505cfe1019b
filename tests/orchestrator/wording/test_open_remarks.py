"""Which remarks of reviewers still wait for an attempt, as `show` tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import events as on
from lifecycle.machine.states import Process, Signal
from lifecycle.record import JournalEntry
from orchestrator.wording.facts import open_remarks

if TYPE_CHECKING:
    from lifecycle.machine.events import Event

PROCESS = Process(pid=7, start_time=1, boot_id="b", spawn_id="s")
SPAWNED = on.AgentSpawned(at=5.0, attempt=1, process=PROCESS)
SIGNALLED = on.BreakpointReached(at=6.0, attempt=1, word=Signal(type="pr_created"))


def reviewed(*ids: str) -> on.Reviewed:
    told = tuple(on.Detail(title=f"calc.py:3 by {each or 'ada'}", id=each) for each in ids)
    return on.Reviewed(at=4.0, number=7, details=told)


def after(*events: Event) -> tuple[str, ...]:
    return open_remarks(
        JournalEntry(
            agent_id="a", seq=seq, at=event.at, event=event, rule="", before="", after="",
            late=False,
        )
        for seq, event in enumerate(events)
    )  # fmt: skip


def test_a_remark_waits_with_its_id_until_who_was_told_has_signalled() -> None:
    assert after(reviewed("r1abc", "")) == ("r1abc calc.py:3 by r1abc",)
    assert after(reviewed("r1abc"), SPAWNED) == ("r1abc calc.py:3 by r1abc",)
    assert after(reviewed("r1abc"), SPAWNED, SIGNALLED) == ()


def test_one_that_came_after_the_attempt_began_waits_for_the_next() -> None:
    late = (SPAWNED, reviewed("r1abc"), SIGNALLED)
    assert after(*late) == ("r1abc calc.py:3 by r1abc",)
    assert after(*late, SPAWNED, SIGNALLED) == ()
