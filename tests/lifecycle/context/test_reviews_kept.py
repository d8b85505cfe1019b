"""What people say while an agent is being started is told to the next: this one has its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.context.collect import snapshot_of
from lifecycle.context.snapshot import ContextBuilder
from lifecycle.machine import events as on
from lifecycle.machine.states import Process, Signal
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle, JournalEntry
from lifecycle.settings import Settings
from lifecycle.working_copy import LocalCopy
from templates.renderer import Renderer

if TYPE_CHECKING:
    from lifecycle.context.snapshot import ContextSnapshot
    from lifecycle.machine.events import Event

AGENT = "agent-T1"
SPAWNED = on.AgentSpawned(
    at=5.0, attempt=1, process=Process(pid=7, start_time=1, boot_id="b", spawn_id="s")
)
SPOKE = on.AgentExited(
    at=5.5, attempt=1, exit_code=0, word=Signal(type="task_complete", summary="done")
)
FAILED = on.SpawnFailed(at=4.0, attempt=1, text="no such program", fault=on.Fault.ENVIRONMENT)


def test_a_remark_is_told_with_the_id_by_which_it_is_answered(local: LocalCopy) -> None:
    told = tuple(
        on.Detail(title=f"{name}.py:3 by ada", text=f"name it {name}", id=key)
        for name, key in (("add", "r1abc"), ("sub", ""), ("mul", "r2def"))
    )
    remember(local, SPAWNED, "Spawning", "Working")
    event = on.Reviewed(at=4.0, number=7, text="was reviewed", details=told)
    remember(local, event, "PrPending", "BackingOff")
    builder, snapshot = ContextBuilder(Renderer()), summary(local)
    assert [each.id for each in snapshot.remarks] == ["r1abc", "", "r2def"]
    page = builder.render(snapshot)
    assert "- **r1abc** `add.py:3 by ada`" in page
    assert "- `sub.py:3 by ada`" in page
    assert 'loopwright signal pr_created --reply r1abc="Done: ..."' in page
    prompt = builder.prompt(snapshot, comm_file="c.json", summary_file="s.md")
    assert "`replies` (an object:" in prompt


@pytest.mark.parametrize("known", ["", "https://forge.example/pulls/1"])
def test_who_judges_commits_and_knows_no_address_hides_none(local: LocalCopy, known: str) -> None:
    remember(local, on.PullRequestOpened(at=2.0, number=1, url=known), "PrPending")
    red = on.PullRequestMoved(at=3.0, fate=on.PrFate.CHECKS_FAILED, number=1, text="red")
    remember(local, red, "PrPending", "BackingOff")
    page = ContextBuilder(Renderer()).render(summary(local))
    shown = f" `{known}`" if known else ""
    assert f"- pull request 1{shown}: open\n" in page


def guided(text: str) -> on.Guided:
    return on.Guided(at=4.0, text=text, by="ada")


def reviewed(text: str) -> on.Reviewed:
    told = on.Detail(title="calc.py:3 by ada", text=text)
    return on.Reviewed(at=4.0, number=7, text="was reviewed", details=(told,))


@pytest.fixture
def local() -> LocalCopy:
    task, agent = Task(id="T1", title="Calculator"), Agent(agent_id=AGENT, command=("true",))
    return LocalCopy(
        record=AgentLifecycle(agent_id=AGENT, task="Calculator"), task=task, agent=agent
    )


def remember(
    local: LocalCopy, event: Event, before: str, after: str = "", *, late: bool = False
) -> None:
    local.seq += 1
    local.remember(
        JournalEntry(
            agent_id=AGENT, seq=local.seq, at=event.at, event=event, rule="", before=before,
            after=after or before, late=late,
        )
    )  # fmt: skip


def summary(local: LocalCopy) -> ContextSnapshot:
    builder = ContextBuilder(Renderer())
    return snapshot_of(local, builder=builder, settings=Settings(), at=9.0, completed={}, mail=None)


def said(local: LocalCopy) -> list[str]:
    seen = summary(local)
    return [*(each.text for each in seen.guidance), *(each.excerpt for each in seen.remarks)]


def test_what_is_said_while_an_agent_is_ordered_is_told_to_the_next(local: LocalCopy) -> None:
    remember(local, guided("in time"), "BackingOff")
    remember(local, on.Admitted(at=3.0), "BackingOff", "Spawning")
    remember(local, reviewed("name it add"), "Spawning")
    remember(local, guided("use decimals"), "Spawning")
    remember(local, SPAWNED, "Spawning", "Working")
    remember(local, SPOKE, "Working", "Capturing")
    remember(local, guided("be brief"), "Capturing")

    assert said(local) == ["use decimals", "be brief", "name it add"]
    assert [type(each.event) for each in local.recent[:2]] == [on.AgentSpawned, on.Reviewed]


def test_what_was_in_a_summary_is_told_again_until_an_attempt_has_signalled(
    local: LocalCopy,
) -> None:
    remember(local, guided("in the second"), "Spawning")
    remember(local, SPAWNED, "Spawning", "Working")
    remember(local, on.Admitted(at=6.0), "BackingOff", "Spawning")
    assert said(local) == ["in the second"]
    remember(local, SPAWNED, "Spawning", "Working")
    assert said(local) == ["in the second"]
    remember(local, SPOKE, "Working", "Capturing")
    assert said(local) == []
    remember(local, SPAWNED, "Spawning", "Working")
    assert said(local) == []


def test_what_was_said_at_an_order_that_failed_is_in_the_summary_of_the_next(
    local: LocalCopy,
) -> None:
    remember(local, guided("early"), "Spawning")
    remember(local, FAILED, "Spawning", "BackingOff")
    remember(local, on.Admitted(at=6.0), "BackingOff", "Spawning")
    assert said(local) == ["early"]
    remember(local, SPAWNED, "Spawning", "Working")
    remember(local, SPOKE, "Working", "Capturing")
    assert said(local) == []


def test_other_facts_of_that_time_belong_to_the_attempt_before(local: LocalCopy) -> None:
    remember(local, on.CiReported(at=4.0, type="build_failure", green=False), "Spawning")
    remember(local, on.PauseRequested(at=4.0), "Spawning")
    remember(local, guided("use decimals"), "Spawning")
    remember(local, SPAWNED, "Spawning", "Working")
    assert [type(each.event) for each in local.recent] == [on.AgentSpawned, on.Guided]
    assert summary(local).ci is None


def test_a_late_word_of_a_spawn_forgets_nothing(local: LocalCopy) -> None:
    remember(local, SPAWNED, "Spawning", "Working")
    remember(local, guided("be brief"), "Working")
    remember(local, SPAWNED, "Capturing", late=True)
    assert said(local) == ["be brief"]


def test_a_report_without_an_address_keeps_that_of_the_pull_request(local: LocalCopy) -> None:
    opened = on.PullRequestOpened(at=4.0, number=7, url="https://forge.test/pull/7")
    remember(local, opened, "PrPending")
    red = on.PullRequestMoved(at=5.0, fate=on.PrFate.CHECKS_FAILED, number=7, text="red")
    remember(local, red, "PrPending", "BackingOff")
    told = summary(local).ci
    assert told is not None
    assert told.pr is not None
    assert (told.pr.url, told.pr.state) == ("https://forge.test/pull/7", "open")
