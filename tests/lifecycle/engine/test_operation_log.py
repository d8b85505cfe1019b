"""What people ask of lifecycles is logged once, under the names that others rely on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.engine.operation_log import ADD, OPERATIONS
from lifecycle.errors import LifecycleError
from lifecycle.machine import events as on
from lifecycle.machine.runner_orders import OperationNote
from tests.lifecycle.world import AGENT, HANG, says

if TYPE_CHECKING:
    from lifecycle.engine.engine import LocalEngine
    from tests.lifecycle.world import World

OPERATION = ("lifecycle_operation", "lifecycle_validation_failed")


def heard(engine: LocalEngine) -> list[dict[str, Any]]:
    """Have what is logged of operations from now on in a list."""
    logs: list[dict[str, Any]] = []

    def report(event: str, /, **fields: object) -> None:
        if event in OPERATION:
            logs.append({"event": event, **fields})

    engine.shared.report = report
    return logs


def test_every_operation_of_people_has_a_name() -> None:
    people = {
        each
        for each in vars(on).values()
        if isinstance(each, type) and issubclass(each, on.PersonEvent)
    }
    assert set(OPERATIONS) == people - {on.PersonEvent}


async def test_a_pause_a_second_one_and_what_ends_them_are_logged_once_each(world: World) -> None:
    # No turn passes by itself meanwhile.
    async with world.running([HANG], retry_interval=60.0, retry_interval_cap=60.0) as running:
        await running.at("Working")
        engine = running.loop.engine
        logs = heard(engine)
        pause = on.PauseRequested(at=1.0, by="ada", turns=5)
        await engine.ask(AGENT, pause)
        with pytest.raises(LifecycleError) as refused:
            await engine.ask(AGENT, replace(pause, at=2.0))
        await engine.ask(AGENT, on.ResumeRequested(at=3.0, by="ada", why="it was a mistake"))
        with pytest.raises(LifecycleError, match="there is nothing to resume"):
            await engine.ask(AGENT, on.ResumeRequested(at=4.0, by="ada"))
        await engine.ask(AGENT, on.RejectRequested(at=5.0, by="ada", why="no"))
    done = {"event": "lifecycle_operation", "agent_name": AGENT, "turn": 1, "by": "ada"}
    vain = {**done, "event": "lifecycle_validation_failed"}
    told = str(refused.value)
    assert told == (f"{AGENT} is working (attempt 1); it will be paused after this attempt already")
    assert logs == [
        {**done, "operation": "pause_agent", "auto_resume_turns": 5},
        {**vain, "operation": "pause_agent", "reason": told},
        {**done, "operation": "resume_agent", "why": "it was a mistake"},
        {
            **vain,
            "operation": "resume_agent",
            "reason": f"{AGENT} is working (attempt 1); there is nothing to resume",
        },
        {**done, "operation": "remove_agent", "why": "no"},
    ]


async def test_a_resume_starts_the_loop_of_what_nobody_runs_and_is_in_vain_where_none_is_started(
    world: World,
) -> None:
    async with world.running([says("blocked", blocked_on=["a key"])]) as running:
        await running.at("Blocked")
    started: list[str] = []
    async with world.loop().opened() as engine:
        logs = heard(engine)
        with pytest.raises(LifecycleError, match="is waiting; there is nothing to resume"):
            await engine.ask(AGENT, on.ResumeRequested(at=1.0, by="ada"))
        engine.revive = lambda record: started.append(record.agent_id)
        await engine.ask(AGENT, on.ResumeRequested(at=2.0, by="ada"))
    assert started == [AGENT]
    assert [(each["event"], each["operation"]) for each in logs] == [
        ("lifecycle_validation_failed", "resume_agent"),
        ("lifecycle_operation", "resume_agent"),
    ]


async def test_what_a_command_did_by_itself_is_logged_when_the_runner_hears_of_it(
    world: World,
) -> None:
    async with world.loop().opened() as engine:
        logs = heard(engine)
        note = OperationNote(at=1.0, by="ada", operation=ADD, agent_name="bob")
        await engine.noted(replace(note, resolved_name="bob_1"))
        await engine.noted(replace(note, refused="25 is the limit"))
    assert logs == [
        {
            "event": "lifecycle_operation", "operation": "add_agent", "agent_name": "bob",
            "resolved_name": "bob_1", "turn": 0, "by": "ada",
        },
        {
            "event": "lifecycle_validation_failed", "operation": "add_agent", "agent_name": "bob",
            "reason": "25 is the limit", "turn": 0, "by": "ada",
        },
    ]  # fmt: skip
