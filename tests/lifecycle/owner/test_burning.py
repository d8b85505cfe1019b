"""Agents that get nowhere, by library: what a caller is told, and that every call ends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.loop import AgentLifecycleLoop
from lifecycle.machine import events as on
from lifecycle.machine.states import Blocked
from lifecycle.plan import Plan
from lifecycle.result import LoopResultType
from lifecycle.settings import Settings
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from tests.lifecycle.world import AGENT, DONE, PATIENCE, SHORT, says

if TYPE_CHECKING:
    from lifecycle.reporting import Committed
    from lifecycle.result import LoopResult
    from tests.lifecycle.world import Step, World

FAILS: list[Step] = [{"exit": 3}]
COMMITS_RED: list[Step] = [
    {"append": {"path": "x.txt", "text": "more\n"}},
    {"commit": "one more try"},
    DONE,
]
DIFFERS: dict[int, list[Step]] = {n: [{"say": f"try {n}"}, {"exit": n}] for n in range(1, 9)}
QUICK = {name: value for name, value in SHORT.items() if name != "max_retries"}


async def called(
    world: World,
    steps: list[Step] | dict[int, list[Step]],
    *,
    max_retries: int | None = None,
    verify: list[str] | None = None,
    heard: list[Committed] | None = None,
    **settings: Any,
) -> LoopResult:
    """Call the library as a user does, without a logger of his own."""

    def hear(news: Committed) -> None:
        if heard is not None:
            heard.append(news)

    loop = AgentLifecycleLoop(
        repo_dir=world.repo,
        plan=Plan(tasks=(world.task(),)),
        ci_provider=None,
        terminal_manager=TerminalManager(world.repo),
        branch_manager=BranchManager(world.repo),
        workspace_manager=WorkspaceManager(world.repo),
        max_retries=max_retries,
        store=world.store,
        settings=Settings.model_validate({**QUICK, **settings}),
        observers=(hear,),
    )
    task = world.task(verify=verify or [])
    return await asyncio.wait_for(loop.run_agent_loop(world.agent(steps), task), PATIENCE)


@pytest.mark.parametrize(
    ("steps", "verify", "retries"),
    [(FAILS, [], 0), (DIFFERS, [], 4), (COMMITS_RED, ["exit 1"], 4)],
    ids=["fails alike", "fails differently", "commits and stays red"],
)
async def test_who_names_the_retries_gets_exactly_those(
    world: World, steps: list[Step] | dict[int, list[Step]], verify: list[str], retries: int
) -> None:
    result = await called(world, steps, verify=verify, max_retries=retries)
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert (result.spawn_count, result.retry_count) == (retries + 1, retries)
    assert f"{retries} of {retries} retries used" in (result.error or "")


async def test_an_agent_that_blocks_again_once_it_is_unblocked_uses_up_what_was_named(
    world: World,
) -> None:
    loop = asyncio.create_task(called(world, [says("blocked", blocked_on=["keys"])], max_retries=2))
    result = await _unblocking(world, loop)
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert (result.spawn_count, result.retry_count) == (4, 2)


async def _unblocking(world: World, call: asyncio.Task[LoopResult]) -> LoopResult:
    asked = -1
    while not call.done():
        record = await world.store.get(AGENT)
        state = record.work if record is not None else None
        if isinstance(state, Blocked) and state.tally.attempt != asked:
            asked = state.tally.attempt
            await world.store.ask(AGENT, on.Unblocked(at=state.since, by="Ada"))
        await asyncio.sleep(0.01)
    return call.result()


GUIDE = "`loopwright guide agent-T001 TEXT`"


@pytest.mark.parametrize(
    ("steps", "verify", "attempts", "words"),
    [
        (FAILS, [], 3, ("3 attempts in a row changed nothing", GUIDE)),
        (COMMITS_RED, ["exit 1"], 5, ("failed in the same way 5 times", GUIDE)),
        (
            [says("question", question="Blue?")],
            [],
            1,
            ("Blue?", "`loopwright answer agent-T001 TEXT`"),
        ),
        (
            [says("blocked", blocked_on=["keys"])],
            [],
            1,
            ("keys", "`loopwright unblock agent-T001`"),
        ),
    ],
    ids=["fails alike", "commits and stays red", "asks", "blocks"],
)
class TestWaitsForPeople:
    """Agents that only a person can help."""

    async def test_the_caller_is_told_at_once_and_the_call_ends_after_blocked_timeout(  # noqa: PLR0913, PLR0917  # a table
        self,
        world: World,
        caplog: pytest.LogCaptureFixture,
        steps: list[Step] | dict[int, list[Step]],
        verify: list[str],
        attempts: int,
        words: tuple[str, str],
    ) -> None:
        heard: list[Committed] = []
        _, types = words
        with caplog.at_level(logging.WARNING, logger="loopwright"):
            result = await called(world, steps, verify=verify, heard=heard, blocked_timeout=0.6)
        told = [each.message for each in caplog.records if "waits_for_person" in each.message]
        assert told
        assert types in told[0]
        assert result.result_type is LoopResultType.BLOCKED
        assert types in (result.error or "")
        assert result.spawn_count == attempts
        if result.blocked_on != ["keys"]:
            assert result.blocked_on[0].startswith("person: ")
            assert types in next(each.ways for each in heard if each.ways)

    async def test_without_people_to_wait_for_the_call_ends_at_once_and_can_be_made_again(
        self,
        world: World,
        steps: list[Step] | dict[int, list[Step]],
        verify: list[str],
        attempts: int,
        words: tuple[str, str],
    ) -> None:
        for _ in range(2):
            result = await called(world, steps, verify=verify, stay_for_people=False)
            assert result.result_type is LoopResultType.BLOCKED
            assert result.blocked_on[0].startswith("person: ")
            assert all(each in (result.error or "") for each in words)
            assert result.spawn_count == attempts


async def test_a_summary_that_nobody_approves_ends_the_call(world: World) -> None:
    result = await called(world, [DONE], review_summaries=True, blocked_timeout=0.3)
    assert (result.result_type, result.spawn_count) == (LoopResultType.BLOCKED, 0)
    assert "loopwright summary approve agent-T001" in (result.error or "")


def test_breakers_hold_named_retries_only_where_they_are_set_too() -> None:
    def limits(settings: Settings) -> tuple[int, int, int]:
        return settings.max_retries, settings.stuck_limit, settings.same_gate_limit

    assert limits(Settings().naming_retries(7)) == (7, 0, 0)
    assert limits(Settings(stuck_limit=3).naming_retries(7)) == (7, 3, 0)
    assert limits(Settings(same_gate_limit=5, max_retries=9).naming_retries(0)) == (0, 0, 5)
    assert limits(Settings(max_retries=9)) == (9, 3, 5)
