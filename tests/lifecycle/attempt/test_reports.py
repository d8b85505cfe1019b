"""What an agent's program reports decides who pays, what follows and what people see."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.errors import PlanError
from lifecycle.machine import events as on
from lifecycle.machine.states import BackingOff, Rejected
from lifecycle.result import LoopResult, LoopResultType
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle import reporting as claude
from tests.lifecycle.reporting import Programs, agent
from tests.lifecycle.world import (
    AGENT,
    DONE,
    HANG,
    PATIENCE,
    Running,
    World,
    commit,
    rests,
    says,
    until,
)

if TYPE_CHECKING:
    import contextlib

    from lifecycle.plan import Agent

FAST = {"limit_margin": 0.0, "limit_interval": 0.05, "trouble_interval": 0.05}


@pytest.fixture
def programs(world: World, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return Programs(world, monkeypatch)


async def run(world: World, who: Agent, **settings: object) -> LoopResult:
    world.settings.update({"tool_server": "off", **FAST, **settings})
    return await asyncio.wait_for(world.loop().run_agent_loop(who, world.task()), PATIENCE)


def running(
    world: World, who: Agent, **settings: Any
) -> contextlib.AbstractAsyncContextManager[Running]:
    world.settings.update({"tool_server": "off", **FAST})
    return world.running([], agent=who, **settings)


def soon(seconds: float = 3600.0) -> float:
    return time.time() + seconds  # noqa: TID251  # limits end by the clock on the wall


async def test_what_a_program_reports_is_in_the_ledger_the_books_and_the_next_summary(
    world: World, programs: Programs
) -> None:
    worked = [claude.starts(), claude.uses("Bash"), *commit("x.txt"), claude.finishes("Half.")]
    programs.plays("claude", {1: worked, 2: [claude.starts(), DONE, claude.finishes()]})
    result = await run(world, agent("claude"))
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    first, second = await world.attempts()
    assert first.program == "claude"
    assert first.report is not None
    assert (first.report.model, first.report.session_id) == ("m-large", "s-1")
    assert (first.report.tool_calls, first.report.last_words) == (1, "Half.")
    assert (first.used.tokens, first.used.cost_usd) == (120, 0.25)
    assert (first.outcome, second.outcome) == ("no_breakpoint", "task_complete")
    books = await world.store.spendings()
    assert [(row.attempt, row.program, row.tokens, row.cost_usd) for row in books] == [
        (1, "claude", 120, 0.25),
        (2, "claude", 120, 0.25),
    ]
    told = world.prompt(2)
    assert "It was `claude`, with 1 tool call and 120 tokens." in told
    assert "Half." in told


async def test_a_usage_limit_waits_for_its_end_costs_nothing_and_can_be_cut_short(
    world: World, programs: Programs
) -> None:
    end = soon()
    programs.plays("claude", {1: [claude.starts(), *claude.limited(end)], 2: [DONE]})
    async with running(world, agent("claude")) as loop:
        await loop.at("BackingOff")
        work = await world.work()
        assert isinstance(work, BackingOff)
        assert abs(work.until - end) <= 1
        assert (work.tally.retry_count, work.tally.limits) == (0, 1)
        assert "rate_limit" in work.why
        assert world.marked() == []
        await loop.ask(on.ResumeRequested)
        result = await loop.result()
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
    assert (result.spawn_count, await world.outcomes()) == (2, ["rate_limit", "task_complete"])


async def test_a_program_that_is_not_signed_in_stops_at_once_with_what_to_do(
    world: World, programs: Programs
) -> None:
    programs.plays("claude", claude.fails("Invalid API key", 401, "authentication_failed"))
    result = await run(world, agent("claude"))
    assert (result.result_type, result.spawn_count) == (LoopResultType.ERROR, 1)
    assert result.retry_count == 0
    assert "auth: Invalid API key" in str(result.error)
    assert "loopwright resume" in str(result.error)


async def test_a_broken_program_is_replaced_and_a_missing_one_too(
    world: World, programs: Programs
) -> None:
    programs.plays("claude", claude.fails("Invalid API key", 401, "authentication_failed"))
    programs.plays("codex", [DONE])
    result = await run(world, agent("copilot", "claude", "codex"))
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert [row.program for row in await world.attempts()] == ["claude", "codex"]


async def test_a_program_that_retries_hopelessly_is_ended_early(
    world: World, programs: Programs
) -> None:
    vain = [claude.starts(), claude.asks_again("authentication_failed", 401), HANG]
    programs.plays("claude", vain)
    result = await run(world, agent("claude"), idle_limit=0.4)
    assert (result.result_type, result.spawn_count) == (LoopResultType.ERROR, 1)
    assert await world.outcomes() == ["auth"]
    assert world.marked() == []


async def test_a_program_that_waits_long_for_a_limit_is_ended_early(
    world: World, programs: Programs
) -> None:
    waits = [claude.starts(), claude.asks_again("rate_limit", 429, delay_ms=3_600_000), HANG]
    programs.plays("claude", {1: waits, 2: [DONE]})
    result = await run(world, agent("claude"), idle_limit=0.4)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
    assert await world.outcomes() == ["rate_limit", "task_complete"]


async def test_too_many_tool_calls_are_a_loop(world: World, programs: Programs) -> None:
    calls = [claude.uses("Bash", f"c{number}") for number in range(8)]
    programs.plays("claude", {1: [claude.starts(), *calls, HANG], 2: [DONE]})
    result = await run(world, agent("claude"), max_tool_calls=5, idle_limit=0.4)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    first, _ = await world.attempts()
    assert first.outcome == "loop"
    assert "more than 5 tool calls (max_tool_calls)" in first.error


async def test_a_tool_that_waits_for_its_program_is_not_idle(
    world: World, programs: Programs
) -> None:
    waiting = [claude.starts(), {"sleep": 0.3}, claude.uses("Bash"), {"run": ["sleep", "2"]}]
    programs.plays("claude", {1: [*waiting, DONE], 0: [HANG]})
    result = await run(world, agent("claude"), idle_limit=1.4)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 1)


@pytest.mark.parametrize("idle", [0.8, 600.0])
async def test_a_tool_that_never_ends_is_by_the_limit_for_tools(
    world: World, programs: Programs, idle: float
) -> None:
    waiting = [claude.starts(), {"sleep": 0.2}, claude.uses("Bash"), {"run": ["sleep", "600"]}]
    programs.plays("claude", {1: waiting, 2: [DONE]})
    result = await run(world, agent("claude"), idle_limit=idle, tool_limit=1.2)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert await world.outcomes() == ["hang", "task_complete"]


# --- budgets ----------------------------------------------------------------------------------


async def test_a_used_up_budget_starts_no_further_attempt(world: World, programs: Programs) -> None:
    programs.plays("claude", [claude.starts(), *commit("x.txt"), claude.finishes(tokens=980)])
    result = await run(world, agent("claude"), budget_tokens=1500, max_retries=50)
    assert (result.result_type, result.spawn_count) == (LoopResultType.ERROR, 2)
    assert "budget of the lifecycle: 2,000 of 1,500 tokens used" in str(result.error)
    work = await world.work()
    assert isinstance(work, Rejected)
    assert work.reason == "budget"


async def test_an_attempt_is_ended_when_what_it_reports_uses_up_the_budget(
    world: World, programs: Programs
) -> None:
    programs.plays("claude", [claude.starts(), *commit("x.txt"), claude.spends(2000), HANG])
    result = await run(world, agent("claude"), budget_tokens=1500, idle_limit=0.4)
    assert (result.result_type, result.spawn_count) == (LoopResultType.ERROR, 1)
    assert "budget of the lifecycle" in str(result.error)
    assert await world.outcomes() == ["budget"]
    assert world.marked() == []


async def test_a_raised_budget_lets_it_go_on_with_what_was_used_counted(
    world: World, programs: Programs
) -> None:
    programs.plays("claude", {1: [claude.finishes(tokens=80)], 2: [DONE, claude.finishes()]})
    stopped = await run(world, agent("claude"), budget_attempts=1)
    assert "budget of the lifecycle: 1 of 1 attempts used" in str(stopped.error)
    still = await run(world, agent("claude"), budget_attempts=1)
    assert (still.result_type, still.spawn_count) == (LoopResultType.ERROR, 1)
    result = await run(world, agent("claude"), budget_attempts=2)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)


async def test_a_budget_that_a_program_cannot_report_is_refused_before_anything_is_begun(
    world: World, programs: Programs
) -> None:
    programs.plays("codex", [DONE])
    with pytest.raises(PlanError, match=r"codex reports no dollars.*prices = .*budget_exempt"):
        await run(world, agent("claude", "codex"), budget_usd=5.0)
    assert await world.store.get(AGENT) is None
    result = await run(world, agent("claude", "codex"), budget_usd=5.0, budget_exempt=("codex",))
    assert result.result_type is LoopResultType.TASK_COMPLETE


async def test_tokens_of_a_lost_attempt_cost_what_the_price_says(
    world: World, programs: Programs
) -> None:
    used = claude.codex_uses(3_000_000)
    works = [claude.codex_starts(), *commit("x.txt"), used, {"write": {"path": "up"}}, HANG]
    programs.plays("codex", {1: works, 2: [DONE]})
    prices = {"codex": {"input": 1.0, "output": 10.0}}
    async with running(world, agent("codex"), prices=prices, budget_usd=9.0) as loop:
        await loop.appears("up")
        await loop.ask(on.StopRequested, pause=True)
        await loop.result()
    [spending] = await world.store.spendings()
    assert spending.cost_usd == pytest.approx(3.0)


# --- how it is started ------------------------------------------------------------------------


async def test_a_key_reaches_a_program_only_when_asked(
    world: World, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-made-up-for-this-test")
    programs.plays("claude", {1: [{"exit": 1}], 2: [DONE]})
    await run(world, agent("claude"))
    assert "ANTHROPIC_API_KEY" not in programs.variables("claude", 1)
    world.store = SqliteStore.in_memory()
    await run(world, agent("claude"), pass_env=("ANTHROPIC_API_KEY",))
    assert programs.variables("claude", 2)["ANTHROPIC_API_KEY"].startswith("sk-ant-")


async def test_model_and_more_arguments_come_from_plan_and_settings(
    world: World, programs: Programs
) -> None:
    programs.plays("claude", [DONE])
    who = agent("claude:m-small").model_copy(update={"args": ("--add-dir", "docs")})
    await run(world, who, agent_args=("--effort", "low"), max_turns=7)
    given = programs.arguments("claude")
    assert given[-4:] == ["--effort", "low", "--add-dir", "docs"]
    assert given[given.index("--model") + 1] == "m-small"
    assert given[given.index("--max-turns") + 1] == "7"


async def test_the_private_settings_of_an_attempt_are_gone_with_it(
    world: World, programs: Programs
) -> None:
    folder = world.paths.config(AGENT, 1)
    kept = {"run": ["sh", "-c", f"stat -c '%a' {folder} {folder}/* > modes.txt"]}
    programs.plays("claude", [kept, {"commit": "modes"}, DONE])
    await run(world, agent("claude"), tool_server="on")
    modes = world.git("show", f"agent/{AGENT}:modes.txt").split()
    assert modes[0] == "700"
    assert modes[1:] == ["600"]
    assert not folder.exists()
    assert "mcp__loopwright__report_breakpoint" in world.prompt(1)


async def test_words_and_later_failures_do_not_hide_a_word_that_was_written(
    world: World, programs: Programs
) -> None:
    signed = says("blocked", blocked_on=["T9"], reason="waits")
    programs.plays("claude", [signed, *claude.limited(soon())])
    async with running(world, agent("claude")) as loop:
        await loop.at("Blocked")
        assert await world.outcomes() == ["blocked"]


async def test_a_frozen_program_is_not_ended_for_what_it_cannot_get_past_meanwhile(
    world: World, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lifecycle.attempt.output_monitor.HOPELESS_AFTER", 0.6)
    go = world.folder / "go"
    trouble = claude.asks_again("rate_limit", 429)
    programs.plays("claude", [claude.starts(), trouble, {"wait_file": str(go)}, DONE])
    async with running(world, agent("claude"), idle_limit=0.4) as loop:
        await loop.at("Working")
        await until(lambda: b"api_retry" in world.paths.log(AGENT, 1).read_bytes())
        await loop.ask(on.PauseRequested, now=True)
        pid = loop.loop.engine.machine.terminals.live()[0].identity.pid
        await until(lambda: rests(pid))
        go.touch()
        frozen = time.monotonic()
        await until(lambda: time.monotonic() > frozen + 1.5)
        assert type(await world.work()).__name__ == "Working"
        await loop.ask(on.ResumeRequested)
        result = await loop.result()
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)


async def test_a_budget_that_is_used_up_meanwhile_ends_also_what_is_frozen(world: World) -> None:
    async with world.running([HANG], budget_hours=0.8 / 3600) as loop:
        await loop.at("Working")
        await loop.ask(on.PauseRequested, now=True)
        result = await loop.result()
    assert result.result_type is LoopResultType.ERROR
    assert str(result.error).startswith("budget of the lifecycle")
    assert world.marked() == []
