"""Which address of a pull request a result tells: the agent's, and the provider's beside it."""

from __future__ import annotations

import pytest

from lifecycle.machine.states import PrPending
from lifecycle.result import LoopResultType
from tests.lifecycle.world import DONE, World, commit, says, until

URL = "https://github.com/x/y/pull/7"
LOCAL = "local://pr/1"


@pytest.mark.parametrize(
    ("said", "told"),
    [({"pr_url": URL}, (URL, LOCAL)), ({"pr_url": "#1"}, (LOCAL, LOCAL)), ({}, (LOCAL, LOCAL))],
    ids=["an address", "a number", "nothing"],
)
async def test_the_agents_address_is_told_and_the_providers_own_beside_it(
    world: World, said: dict[str, str], told: tuple[str, str]
) -> None:
    opened = [*commit("x.txt"), says("pr_created", **said)]
    result = await world.run(opened, ci=world.ci(None), pr_merge_timeout=0.3)
    assert result.result_type is LoopResultType.PR_CREATED
    assert (result.pr_url, result.provider_pr_url) == told
    # The wait begins once more, and ends alike.
    again = await world.run(opened, ci=world.ci(None))
    assert (again.pr_url, again.provider_pr_url) == told


async def test_without_a_provider_only_the_agents_address_is_known(world: World) -> None:
    opened = [*commit("x.txt"), says("pr_created", pr_url=URL)]
    result = await world.run(opened, pr_merge_timeout=0.3)
    assert (result.pr_url, result.provider_pr_url) == (URL, None)


async def _is_open(world: World) -> bool:
    work = await world.work()
    return isinstance(work, PrPending) and work.number is not None


async def test_a_shutdown_while_the_merge_is_awaited_tells_both(world: World) -> None:
    script = {1: [*commit("x.txt"), says("pr_created", pr_url=URL)], 2: [DONE]}
    async with world.running(script, ci=world.ci(None)) as running:
        await running.at("PrPending")
        await until(lambda: _is_open(world))
        await running.loop.shutdown()
        result = await running.result()
    assert result.result_type is LoopResultType.SHUTDOWN
    assert (result.pr_url, result.provider_pr_url) == (URL, LOCAL)
