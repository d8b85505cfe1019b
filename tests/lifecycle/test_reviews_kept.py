"""What people say while an agent is being started is told to the next: this one has its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.case import REMEMBERED_FACTS, Case
from lifecycle.context import ContextBuilder
from lifecycle.gather import snapshot_of
from lifecycle.machine import events as on
from lifecycle.machine.states import Process, Word
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle, JournalEntry
from lifecycle.settings import Settings
from templates.renderer import Renderer

if TYPE_CHECKING:
    from lifecycle.context import ContextSnapshot
    from lifecycle.machine.events import Event

AGENT = "agent-T1"
SPAWNED = on.AgentSpawned(
    at=5.0, attempt=1, process=Process(pid=7, start_time=1, boot_id="b", spawn_id="s")
)
SPOKE = on.AgentExited(
    at=5.5, attempt=1, exit_code=0, word=Word(type="task_complete", summary="done")
)
FAILED = on.SpawnFailed(at=4.0, attempt=1, text="no such program", fault=on.Fault.ENVIRONMENT)


def guided(text: str) -> on.Guided:
    return on.Guided(at=4.0, text=text, by="ada")


def reviewed(text: str) -> on.Reviewed:
    told = on.Told(title="calc.py:3 by ada", text=text)
    return on.Reviewed(at=4.0, number=7, text="was reviewed", details=(told,))


@pytest.fixture
def case() -> Case:
    task, agent = Task(id="T1", title="Calculator"), Agent(agent_id=AGENT, command=("true",))
    return Case(record=AgentLifecycle(agent_id=AGENT, task="Calculator"), task=task, agent=agent)


def remember(case: Case, event: Event, before: str, after: str = "", *, late: bool = False) -> None:
    case.seq += 1
    case.remember(
        JournalEntry(
            agent_id=AGENT, seq=case.seq, at=event.at, event=event, rule="", before=before,
            after=after or before, late=late,
        )
    )  # fmt: skip


def summary(case: Case) -> ContextSnapshot:
    builder = ContextBuilder(Renderer())
    return snapshot_of(case, builder=builder, settings=Settings(), at=9.0, completed={}, mail=None)


def said(case: Case) -> list[str]:
    seen = summary(case)
    return [*(each.text for each in seen.guidance), *(each.excerpt for each in seen.remarks)]


def test_what_is_said_while_an_agent_is_ordered_is_told_to_the_next(case: Case) -> None:
    remember(case, guided("in time"), "BackingOff")
    remember(case, on.Admitted(at=3.0), "BackingOff", "Spawning")
    remember(case, reviewed("name it add"), "Spawning")
    remember(case, guided("use decimals"), "Spawning")
    remember(case, SPAWNED, "Spawning", "Working")
    remember(case, SPOKE, "Working", "Capturing")
    remember(case, guided("be brief"), "Capturing")

    assert said(case) == ["use decimals", "be brief", "name it add"]
    assert [type(each.event) for each in case.recent[:2]] == [on.AgentSpawned, on.Reviewed]


def test_what_was_in_a_summary_is_told_again_until_an_attempt_has_signalled(case: Case) -> None:
    remember(case, guided("in the second"), "Spawning")
    remember(case, SPAWNED, "Spawning", "Working")
    remember(case, on.Admitted(at=6.0), "BackingOff", "Spawning")
    assert said(case) == ["in the second"]
    remember(case, SPAWNED, "Spawning", "Working")
    assert said(case) == ["in the second"]
    remember(case, SPOKE, "Working", "Capturing")
    assert said(case) == []
    remember(case, SPAWNED, "Spawning", "Working")
    assert said(case) == []


def test_what_was_said_at_an_order_that_failed_is_in_the_summary_of_the_next(case: Case) -> None:
    remember(case, guided("early"), "Spawning")
    remember(case, FAILED, "Spawning", "BackingOff")
    remember(case, on.Admitted(at=6.0), "BackingOff", "Spawning")
    assert said(case) == ["early"]
    remember(case, SPAWNED, "Spawning", "Working")
    remember(case, SPOKE, "Working", "Capturing")
    assert said(case) == []


def test_other_facts_of_that_time_belong_to_the_attempt_before(case: Case) -> None:
    remember(case, on.CiReported(at=4.0, type="build_failure", green=False), "Spawning")
    remember(case, on.PauseRequested(at=4.0), "Spawning")
    remember(case, guided("use decimals"), "Spawning")
    remember(case, SPAWNED, "Spawning", "Working")
    assert [type(each.event) for each in case.recent] == [on.AgentSpawned, on.Guided]
    assert summary(case).ci is None


def test_a_late_word_of_a_spawn_forgets_nothing(case: Case) -> None:
    remember(case, SPAWNED, "Spawning", "Working")
    remember(case, guided("be brief"), "Working")
    remember(case, SPAWNED, "Capturing", late=True)
    assert said(case) == ["be brief"]


def test_what_is_remembered_stays_bounded(case: Case) -> None:
    for n in range(2 * REMEMBERED_FACTS):
        remember(case, guided(str(n)), "Spawning")
    remember(case, SPAWNED, "Spawning", "Working")
    assert len(case.recent) + len(case.before) <= 2 * REMEMBERED_FACTS
    assert said(case)[-1] == str(2 * REMEMBERED_FACTS - 1)
