"""Which address of a pull request a result tells: the agent's, and the provider's beside it."""

from __future__ import annotations

import pytest

from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import AwaitingHuman, PrPending, Signal
from lifecycle.machine.table import decide
from lifecycle.record import AgentLifecycle
from lifecycle.result import LoopResultType, ended
from tests.lifecycle.world import AGENT, DONE, World, commit, says, until

URL = "https://github.com/x/y/pull/7"
LOCAL = "local://pr/1"


async def _is_open(world: World) -> bool:
    work = await world.work()
    return isinstance(work, PrPending) and work.number is not None


@pytest.mark.parametrize(
    ("said", "told"),
    [({"pr_url": URL}, (URL, LOCAL)), ({"pr_url": "#1"}, (LOCAL, LOCAL)), ({}, (LOCAL, LOCAL))],
    ids=["an address", "a number", "nothing"],
)
async def test_the_agents_address_is_told_and_the_providers_own_beside_it(
    world: World, said: dict[str, str], told: tuple[str, str]
) -> None:
    script = {1: [*commit("x.txt"), says("pr_created", **said)], 2: [DONE]}
    async with world.running(script, ci=world.ci(None)) as running:
        await running.at("PrPending")
        await until(lambda: _is_open(world))
        await running.loop.shutdown()
        result = await running.result()
    assert result.result_type is LoopResultType.SHUTDOWN
    assert (result.pr_url, result.provider_pr_url) == told


def test_both_are_told_after_the_time_out_too() -> None:
    word = Signal(type="pr_created", pr_url=URL)
    waits = PrPending(since=1.0, until=9.0, word=word, url=LOCAL, number=1)
    human = decide(waits, on.DeadlinePassed(at=9.0), Policy()).state
    assert isinstance(human, AwaitingHuman)
    result = ended(AgentLifecycle(agent_id=AGENT, task="Calculator", work=human))
    assert result is not None
    assert result.result_type is LoopResultType.PR_CREATED
    assert (result.pr_url, result.provider_pr_url) == (URL, LOCAL)


async def test_without_a_provider_only_the_agents_address_is_known(world: World) -> None:
    opened = [*commit("x.txt"), says("pr_created", pr_url=URL)]
    result = await world.run(opened, pr_merge_timeout=0.3)
    assert result.result_type is LoopResultType.PR_CREATED
    assert (result.pr_url, result.provider_pr_url) == (URL, None)
