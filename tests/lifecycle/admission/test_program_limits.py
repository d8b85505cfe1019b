"""What one lifecycle learns of an account, and clocks and adapters that misbehave."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lifecycle.admission.program_limits import ProgramLimits
from lifecycle.clock import SystemClock
from lifecycle.machine import events as on
from lifecycle.machine.states import Process, Tally, UnavailableProgram, Working
from lifecycle.mask_values import HIDDEN
from lifecycle.plan import Agent
from lifecycle.projection import onto_ledger
from lifecycle.record import AgentLifecycle, AttemptRow
from lifecycle.result import LoopResultType
from tests.lifecycle.world import AGENT, DONE, HANG, PATIENCE, World

if TYPE_CHECKING:
    import pytest

KEY = "sk-ant-api03-made-up-for-this-test-0123456789"
TILL_TEN = UnavailableProgram(program="claude", why="rate_limit", until=10.0)


def claude(model: str = "", **env: str) -> Agent:
    name = f"claude:{model}" if model else "claude"
    return Agent(agent_id="agent-T001", adapter=name, env=env)


def test_a_limit_of_one_model_says_nothing_of_another() -> None:
    program_limits = ProgramLimits()
    program_limits.note(claude("opus"), [replace(TILL_TEN, program="claude:opus")])
    assert [rest.program for rest in program_limits.resting(claude("opus"), 5.0)] == ["claude:opus"]
    assert program_limits.resting(claude("sonnet"), 5.0) == ()


def test_other_variables_may_be_another_account() -> None:
    program_limits = ProgramLimits()
    program_limits.note(claude(HOME="/a"), [TILL_TEN])
    assert program_limits.resting(claude(HOME="/a"), 5.0) == (TILL_TEN,)
    assert program_limits.resting(claude(HOME="/b"), 5.0) == ()


def test_what_an_earlier_runner_stored_is_known_although_secrets_are_not_kept() -> None:
    program_limits = ProgramLimits()
    program_limits.note(claude(ANTHROPIC_API_KEY=HIDDEN), [TILL_TEN])
    assert program_limits.resting(claude(ANTHROPIC_API_KEY=KEY), 5.0) == (TILL_TEN,)
    program_limits.forget(claude(ANTHROPIC_API_KEY=KEY))
    assert program_limits.resting(claude(ANTHROPIC_API_KEY=KEY), 5.0) == ()


def test_a_rest_that_is_over_is_not_told() -> None:
    program_limits = ProgramLimits()
    program_limits.note(claude(), [TILL_TEN])
    assert program_limits.resting(claude(), 10.0) == ()


def test_a_clock_that_is_set_back_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "_anchor", (0.0, 0.0))
    really, ahead = time.time, 21_600.0  # noqa: TID251  # the clock that is set
    monkeypatch.setattr("lifecycle.clock.time.time", lambda: really() + ahead)
    before = SystemClock().now()
    ahead = 0.0
    after = SystemClock().now()
    assert 0 <= after - before < 60
    ahead = 50_000.0
    assert SystemClock().now() - after > 20_000


async def test_a_wait_does_not_grow_by_what_the_clock_is_set_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemClock, "_anchor", (0.0, 0.0))
    really, ahead = time.time, 21_600.0  # noqa: TID251  # the clock that is set
    monkeypatch.setattr("lifecycle.clock.time.time", lambda: really() + ahead)
    script = {1: [{"exit": 3}], 2: [DONE]}
    async with world.running(script, retry_interval=0.5, retry_interval_cap=0.5) as running:
        await running.at("BackingOff")
        ahead = 0.0
        result = await running.result()
    assert result.result_type is LoopResultType.TASK_COMPLETE


async def test_a_process_that_nobody_can_attend_is_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no more watches")

    monkeypatch.setattr("lifecycle.attempt.sampling.AttemptSampler.add", broken)
    loop = world.loop()
    run = loop.run_agent_loop(world.agent([HANG]), world.task())
    done = await asyncio.wait_for(asyncio.gather(run, return_exceptions=True), PATIENCE)
    assert "no more watches" in str(done[0])
    assert world.marked() == []


def ended(**told: Any) -> float | None:
    """Return when an attempt that began at 100 counts as ended, found at 500."""
    record = AgentLifecycle(agent_id=AGENT, task="t")
    row = AttemptRow(agent_id=AGENT, attempt=1, started_at=100.0)
    process = Process(pid=1, start_time=1, boot_id="b", spawn_id="s")
    working = Working(tally=Tally(), process=process, since=100.0)
    event = on.RunnerRestarted(at=500.0, attempt=1, **told)
    after = onto_ledger(row, record, working, event, working)
    assert after is not None
    return after.ended_at


def test_what_passed_while_nobody_ran_was_not_worked() -> None:
    assert ended(last_sign=130.0) == 130.0
    assert ended() == 500.0


def test_a_sign_of_another_time_is_none() -> None:
    assert ended(last_sign=50.0) == 500.0
    assert ended(last_sign=900.0) == 500.0
