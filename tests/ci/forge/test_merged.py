"""A commit counts as merged only if it is in the base, whatever the forge shows as the head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci.events import CIEventType
from ci.forge.merge_rules import Rules
from ci.interface import CIWatch, PullRequestState
from tests.ci.contract import BASE, until
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.gitea.gitea_world import GiteaWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.interface import PullRequest
    from tests.ci.forge.forge_world import ServedWorld

BRANCH = "agent/a"


@pytest.fixture
async def world(served_type: type[ServedWorld[Any]], tmp_path: Path) -> AsyncIterator[RemoteWorld]:
    async with served_type.running(tmp_path / "forge", pushes=False) as forge:
        world = RemoteWorld(forge, tmp_path / "state")
        await world.start()
        yield world
        await world.aclose()


async def opened(world: RemoteWorld) -> PullRequest:
    await world.commit(BRANCH, shared="a")
    return await world.provider.create_pull_request(branch=BRANCH, base=BASE, title="Do it")


async def test_what_was_pushed_after_the_merge_is_not_merged(world: RemoteWorld) -> None:
    pull = await opened(world)
    merged = await world.served.merge(pull.number)
    later = await world.commit(BRANCH, shared="more")
    await world.provider.pushed(BRANCH, later)
    result = await world.provider.merge(pull.number, expected_sha=later)
    assert not result.merged
    assert "is merged: open a new one" in result.reason
    found = await world.provider.find_pull_request(BRANCH)
    assert found is not None
    assert (found.state, found.merge_commit) == (PullRequestState.MERGED, merged)
    assert found.head_sha != later
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=later, number=pull.number))
    await until(lambda: CIEventType.PR_MERGED in [event.type for event in world.events])
    assert f"{later[:12]} is not in it: it takes another pull request" in world.events[-1].summary


@pytest.mark.parametrize("method", ["merge", "squash"])
async def test_what_a_person_merged_in_any_way_is_merged(world: RemoteWorld, method: str) -> None:
    pull = await opened(world)
    await world.commit("other", shared=None)
    seen = await world.served.pull(pull.number)
    await world.served.try_merge(seen, method)
    result = await world.provider.merge(pull.number, expected_sha=pull.head_sha)
    assert result.merged
    assert result.commit == await world.served.forge.head(BASE)


async def test_nothing_is_merged_in_the_round_that_woke_somebody(tmp_path: Path) -> None:
    rules = Rules(auto_merge=True, wake_on_comments=True, checks_grace=0)
    async with GiteaWorld.running(tmp_path / "forge", pushes=False) as gitea:
        world = RemoteWorld(gitea, tmp_path / "state", rules=rules)
        await world.start()
        pull = await opened(world)
        gitea.say(pull.number, gitea.reviewer, "And the docs?")
        watch = CIWatch(key="a", branch=BRANCH, sha=pull.head_sha, number=pull.number)
        over = world.provider.watch(watch)
        await until(lambda: CIEventType.PR_CHANGES_REQUESTED in {e.type for e in world.events})
        await world.polled(pull.number)
        assert (await gitea.pull(pull.number)).state is PullRequestState.OPEN
        # An approval with words asks for nothing, so the next wait ends with the merge.
        over()
        gitea.served.review(pull.number, gitea.reviewer, "APPROVED", "Nice, thank you")
        told = len(world.events)
        world.provider.watch(watch)
        await until(lambda: CIEventType.PR_MERGED in {e.type for e in world.events})
        assert CIEventType.PR_CHANGES_REQUESTED not in {e.type for e in world.events[told:]}
        await world.aclose()
