"""A branch has one pull request, whoever asks for it how often and whatever answer is lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ci.errors import RefusedError, UnreachableError
from ci.events import CIEventType
from ci.forge.merge_rules import Rules
from ci.forge.protocol import NewPull
from ci.forge.upkeep import one_per_branch
from ci.interface import CIWatch, PullRequestState
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.forge_server import fails, raw
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.served_git import BASE
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from ci.interface import PullRequest
    from tests.ci.forge_server import Asked, Reply

BRANCH = "agent/a"


@pytest.fixture
async def gitea(tmp_path: Path) -> AsyncIterator[GiteaWorld]:
    async with GiteaWorld.running(tmp_path / "forge", pushes=False) as gitea:
        yield gitea


@pytest.fixture
async def world(gitea: GiteaWorld, tmp_path: Path) -> AsyncIterator[RemoteWorld]:
    world = RemoteWorld(gitea, tmp_path / "state")
    await world.start()
    await world.commit(BRANCH)
    yield world
    await world.aclose()


def posts(gitea: GiteaWorld) -> int:
    return gitea.server.count("POST", gitea.pulls)


async def opened(world: RemoteWorld) -> PullRequest:
    return await world.provider.create_pull_request(branch=BRANCH, base=BASE, title="Do it")


async def test_two_who_ask_at_once_get_the_same(gitea: GiteaWorld, world: RemoteWorld) -> None:
    gitea.served.while_creating = lambda: asyncio.sleep(0.1)
    first, second = await asyncio.gather(opened(world), opened(world))
    assert first.number == second.number == 1
    assert posts(gitea) == 1


async def opening_is_lost(world: RemoteWorld, gitea: GiteaWorld) -> Callable[[], Awaitable[object]]:
    """Ask for a pull request, and return what carries that out."""
    heal = gitea.server.overlay()
    asked: list[Asked] = []

    def lost(request: Asked) -> Reply:
        asked.append(request)
        return raw(b"")

    gitea.server.route("POST", gitea.pulls, lost)
    with pytest.raises(UnreachableError):
        await opened(world)
    heal()
    return lambda: gitea.served._creates(asked[0])


async def when_asked_again(world: RemoteWorld) -> PullRequest:
    """Ask until it is no longer only looked for."""

    async def found() -> PullRequest | None:
        try:
            return await opened(world)
        except UnreachableError:
            return None

    pull: PullRequest = await until(found, "a pull request")
    return pull


@pytest.mark.parametrize("restarts", [False, True])
async def test_what_is_carried_out_long_after_it_was_lost_is_closed_with_a_word(
    gitea: GiteaWorld, world: RemoteWorld, *, restarts: bool
) -> None:
    carry_out = await opening_is_lost(world, gitea)
    before = world.now()
    pull = await when_asked_again(world)
    assert world.now() > before + 30
    if restarts:
        await world.restart()
    sha = await world.commit(BRANCH, outcome="held")
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=sha, number=pull.number))
    await carry_out()
    await until(lambda: gitea.served.pulls[2].comments, "the word")
    one, two = gitea.served.pulls.values()
    assert (one.state, two.state) == ("open", "closed")
    assert [said["body"] for said in two.comments] == [
        "Closed: pull request 1 is open for the same branch."
    ]
    assert (await opened(world)).number == 1
    assert CIEventType.PR_CLOSED not in [each.type for each in world.events]


async def test_what_somebody_else_opens_after_a_lost_answer_stays(
    gitea: GiteaWorld, world: RemoteWorld
) -> None:
    await opening_is_lost(world, gitea)
    pull = await when_asked_again(world)
    sha = await world.commit(BRANCH, outcome="held")
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=sha, number=pull.number))
    one = gitea.served.pulls[1]
    gitea.served.pulls[2] = replace(one, number=2, title="Theirs", comments=[])
    listed = gitea.server.count("GET", gitea.pulls)
    await until(lambda: gitea.server.count("GET", gitea.pulls) > listed + 2, "lists")
    assert [each.state for each in gitea.served.pulls.values()] == ["open", "open"]


async def test_a_draft_whose_answer_was_lost_is_ours_when_it_is_found(
    gitea: GiteaWorld, world: RemoteWorld
) -> None:
    world.rules = Rules(draft_first=True, reviewers=("dora",), checks_grace=0)
    await (await opening_is_lost(world, gitea))()
    pull = await opened(world)
    head = gitea.served.pulls[1].head
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=head, number=pull.number))
    await until(lambda: gitea.served.pulls[1].asked, "the question to the reviewer")
    assert gitea.served.pulls[1].title == "Do it"


async def test_an_answer_that_is_lost_is_looked_for_also_by_the_next_runner(
    gitea: GiteaWorld, world: RemoteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_per_branch, "UNHEARD_FOR", 1e6)
    carry_out = await opening_is_lost(world, gitea)
    await world.restart()
    with pytest.raises(UnreachableError, match="looked for before it is asked for again"):
        await opened(world)
    # Now the server does what it was asked.
    await carry_out()
    assert (await opened(world)).number == 1
    assert list(gitea.served.pulls) == [1]


async def test_what_never_arrived_is_asked_for_again(gitea: GiteaWorld, world: RemoteWorld) -> None:
    heal = gitea.server.overlay()
    gitea.server.route("POST", gitea.pulls, fails(502))
    with pytest.raises(UnreachableError):
        await opened(world)
    heal()
    assert (await when_asked_again(world)).number == 1
    assert posts(gitea) == 2


async def test_of_two_the_older_is_adopted_and_ours_is_closed_with_a_word(
    gitea: GiteaWorld, world: RemoteWorld
) -> None:
    async def somebody_is_quicker() -> None:
        gitea.served.while_creating = lambda: asyncio.sleep(0)
        await gitea.forge.create_pull(NewPull(branch=BRANCH, base=BASE, title="Quicker"))

    gitea.served.while_creating = somebody_is_quicker
    assert (await opened(world)).number == 1
    one, two = gitea.served.pulls.values()
    assert (one.state, two.state) == ("open", "closed")
    assert [said["body"] for said in two.comments] == [
        "Closed: pull request 1 is open for the same branch."
    ]
    found = await world.provider.find_pull_request(BRANCH)
    assert found is not None
    assert found.number == 1


async def test_one_that_somebody_opened_in_between_is_adopted(
    gitea: GiteaWorld, world: RemoteWorld
) -> None:
    heal = gitea.server.overlay()

    async def refuses(_: Asked) -> Reply:
        heal()
        await gitea.forge.create_pull(NewPull(branch=BRANCH, base=BASE, title="Theirs"))
        return fails(409, "pull request already exists for these targets")

    gitea.server.route("POST", gitea.pulls, refuses)
    assert (await opened(world)).title == "Theirs"


async def test_what_a_person_merged_before_it_was_asked_for_takes_no_other(
    gitea: GiteaWorld, world: RemoteWorld
) -> None:
    first = await opened(world)
    await world.provider.pushed(BRANCH, await world.commit(BRANCH, shared="more"))
    await gitea.pull(first.number)
    await gitea.merge(first.number)
    again = await opened(world)
    assert (again.number, again.state) == (first.number, PullRequestState.MERGED)
    assert posts(gitea) == 1
    await world.commit(BRANCH, shared="the rest")
    assert (await opened(world)).number == first.number + 1


async def test_a_refusal_is_told_and_nothing_is_waited_for(
    gitea: GiteaWorld, world: RemoteWorld
) -> None:
    heal = gitea.server.overlay()
    gitea.server.route("POST", gitea.pulls, fails(422, "no title that we like"))
    with pytest.raises(RefusedError, match="that we like"):
        await opened(world)
    heal()
    assert (await opened(world)).number == 1


@pytest.mark.parametrize("draft", [False, True])
async def test_who_could_not_be_asked_for_a_review_is_asked_later(
    gitea: GiteaWorld, world: RemoteWorld, *, draft: bool
) -> None:
    world.rules = Rules(draft_first=draft, reviewers=("dora",), checks_grace=0)
    question = f"{gitea.pulls}/1/requested_reviewers"
    heal = gitea.server.overlay()
    gitea.server.route("POST", question, fails(502))
    pull = await opened(world)
    watch = CIWatch(key="a", branch=BRANCH, sha=gitea.served.pulls[1].head, number=pull.number)
    world.provider.watch(watch)
    await until(lambda: gitea.server.count("POST", question), "the question")
    await world.restart()
    heal()
    world.provider.watch(watch)
    await until(lambda: gitea.served.pulls[1].asked == ["dora"], "the answer")
    asked = gitea.server.count("POST", question)
    await world.polled(pull.number)
    await opened(world)
    assert gitea.server.count("POST", question) == asked
