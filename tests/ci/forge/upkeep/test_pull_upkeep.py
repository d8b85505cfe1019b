"""A pull request says what the newest attempt says, and asks whom the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.forge.merge_rules import Rules
from ci.interface import CIWatch, PullRequestState
from tests.ci.contract import BASE, until
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.github.github_world import EmulatedWorld
from tests.ci.gitlab.gitlab_world import GitLabWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.interface import PullRequest
    from tests.ci.github.emulated import Emulated

BRANCH = "agent/a"


@pytest.fixture(params=[GiteaWorld, GitLabWorld, EmulatedWorld])
async def world(
    request: pytest.FixtureRequest, emulated: Emulated, tmp_path: Path
) -> AsyncIterator[RemoteWorld]:
    """On emulate the assignees and the end of a draft are played by `tools/github.mjs`."""
    more = (emulated,) if request.param is EmulatedWorld else ()
    async with request.param.running(tmp_path / "forge", *more, pushes=False) as forge:
        world = RemoteWorld(forge, tmp_path / "state")
        await world.start()
        await world.commit(BRANCH, shared="a")
        yield world
        await world.aclose()


async def opened(world: RemoteWorld, body: str = "First words", **more: str) -> PullRequest:
    facts = {"branch": BRANCH, "base": BASE, "title": "Do it", "body": body, **more}
    return await world.provider.create_pull_request(**facts)


async def test_the_words_of_a_later_attempt_replace_ours_and_no_persons(
    world: RemoteWorld,
) -> None:
    pull = await opened(world)
    await world.restart()
    again = await opened(world, "Second words", title="Do it well")
    assert (again.number, again.title, again.body) == (pull.number, "Do it well", "Second words")
    seen = await world.served.pull(pull.number)
    await world.served.forge.edit_pull(seen, title=seen.title, body="A person wrote this")
    again = await opened(world, "Third words", title="Do it best")
    assert (again.title, again.body) == ("Do it best", "A person wrote this")


async def test_people_are_asked_and_an_unknown_one_stops_nothing(world: RemoteWorld) -> None:
    reviewer = world.served.reviewer
    world.rules = Rules(reviewers=(reviewer,), assignees=(reviewer,))
    pull = await opened(world)
    assert await world.served.asked(pull.number) == [reviewer]
    assert await world.served.assigned(pull.number) == [reviewer]
    await world.provider.close(pull.number)
    nobody = "nobody-of-that-name"
    world.rules = Rules(reviewers=(nobody, reviewer), assignees=(nobody, reviewer))
    again = await opened(world)
    assert again.state is PullRequestState.OPEN
    assert await world.served.asked(again.number) == [reviewer]
    assert await world.served.assigned(again.number) == [reviewer]


async def test_a_draft_is_made_ready_once_it_is_green(world: RemoteWorld) -> None:
    reviewer = world.served.reviewer
    world.rules = Rules(draft_first=True, reviewers=(reviewer,), checks_grace=0)
    sha = await world.commit(BRANCH, outcome="held", shared="b")
    pull = await opened(world)
    assert (await world.served.pull(pull.number)).draft
    await opened(world, "Other words")
    assert (await world.served.pull(pull.number)).draft
    assert await world.served.asked(pull.number) == []
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=sha, number=pull.number))
    await world.polled(pull.number)
    assert (await world.served.pull(pull.number)).draft
    await world.release()

    async def is_ready() -> bool:
        return not (await world.served.pull(pull.number)).draft

    await until(is_ready, "the end of the draft")
    await until(lambda: world.served.asked(pull.number), "the request for a review")
    assert (await world.served.pull(pull.number)).title == "Do it"
