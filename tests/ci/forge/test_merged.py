"""A commit counts as merged only if it is in the base, whatever the forge shows as the head."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ci.events import CIEventType
from ci.forge.merge_rules import Rules
from ci.interface import CIWatch, PullRequestState
from tests.ci.contract import BASE, until
from tests.ci.forge.forge_world import ServedWorld
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.ports import CrashError, git

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.interface import PullRequest
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


# --- the branch of what was merged ----------------------------------------------------------------


async def test_its_branch_is_removed_there_and_comes_back_only_with_new_work(
    world: RemoteWorld,
) -> None:
    pull = await opened(world)
    assert (await world.provider.merge(pull.number, expected_sha=pull.head_sha)).merged
    origin = world.served.origin
    assert origin.head(BRANCH) is None
    await world.provider.pushed(BRANCH, pull.head_sha)
    assert origin.head(BRANCH) is None
    assert (await world.provider.merge(pull.number, expected_sha=pull.head_sha)).merged
    later = await world.commit(BRANCH, shared="more")
    await world.provider.pushed(BRANCH, later)
    assert origin.head(BRANCH) == later


def is_of_events(collection: str) -> bool:
    return collection.endswith(".events")


async def test_no_branch_is_removed_before_its_merge_is_stored(world: RemoteWorld) -> None:
    pull = await opened(world)
    origin = world.served.origin
    world.documents.loses = is_of_events
    with pytest.raises(CrashError):
        await world.provider.merge(pull.number, expected_sha=pull.head_sha)
    assert origin.head(BRANCH) == pull.head_sha
    world.documents.loses = lambda _: False
    await world.restart()
    assert CIEventType.PR_MERGED not in {event.type for event in world.events}
    assert origin.head(BRANCH) == pull.head_sha
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=pull.head_sha, number=pull.number))
    await until(lambda: origin.head(BRANCH) is None)
    assert CIEventType.PR_MERGED in {event.type for event in world.events}


async def test_what_a_runner_could_not_remove_any_more_is_removed_by_the_next(
    world: RemoteWorld,
) -> None:
    pull = await opened(world)
    world.documents.ends_with = is_of_events
    with pytest.raises(CrashError):
        await world.provider.merge(pull.number, expected_sha=pull.head_sha)
    assert world.served.origin.head(BRANCH) == pull.head_sha
    world.documents.ends_with = lambda _: False
    await world.restart()
    await until(lambda: world.served.origin.head(BRANCH) is None)


async def test_a_removal_that_the_forge_refuses_is_told_and_not_tried_again(
    world: RemoteWorld,
) -> None:
    pull = await opened(world)
    origin = world.served.origin
    git(origin.bare, "config", "receive.denyDeletes", "true")
    assert (await world.provider.merge(pull.number, expected_sha=pull.head_sha)).merged
    assert "branch_removal_refused" in [event for event, _ in world.logged]
    git(origin.bare, "config", "receive.denyDeletes", "false")
    await world.restart()
    await world.polled(pull.number)
    assert origin.head(BRANCH) == pull.head_sha


async def test_a_fork_with_a_branch_of_the_same_name_keeps_nothing(world: RemoteWorld) -> None:
    pull = await opened(world)
    assert isinstance(world.served, ServedWorld)
    pulls = world.served.served.pulls
    pulls[99] = replace(pulls[pull.number], number=99, head_repo=77)
    assert (await world.provider.merge(pull.number, expected_sha=pull.head_sha)).merged
    assert world.served.origin.head(BRANCH) is None


async def test_a_branch_that_another_pull_request_goes_into_stays(world: RemoteWorld) -> None:
    pull = await opened(world)
    sha = await world.commit("agent/b", shared="b")
    await world.provider.pushed("agent/b", sha)
    await world.provider.create_pull_request(branch="agent/b", base=BRANCH, title="On top")
    assert (await world.provider.merge(pull.number)).merged
    assert world.served.origin.head(BRANCH) == pull.head_sha
    said = "an open pull request needs it"
    await until(lambda: any(said in event.summary for event in world.events))


async def test_a_branch_with_commits_that_are_not_merged_stays(world: RemoteWorld) -> None:
    pull = await opened(world)
    await world.served.merge(pull.number)
    theirs = world.served.origin.commit(BRANCH, "theirs", "theirs")
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=pull.head_sha, number=pull.number))
    await until(lambda: CIEventType.PR_MERGED in [event.type for event in world.events])
    assert world.served.origin.head(BRANCH) == theirs
    assert "it has commits that are not merged" in world.events[-1].summary


async def test_a_merge_that_was_taken_back_is_believed_no_more_and_its_branch_stays(
    world: RemoteWorld,
) -> None:
    pull = await opened(world)
    origin = world.served.origin
    before = origin.head(BASE)
    await world.served.merge(pull.number)
    # Nobody can be given the commit of the merge any more.
    git(origin.bare, "update-ref", f"refs/heads/{BASE}", str(before))
    git(origin.bare, "gc", "--quiet", "--prune=now")
    world.provider.watch(CIWatch(key="a", branch=BRANCH, sha=pull.head_sha, number=pull.number))
    await until(lambda: CIEventType.PR_MERGED in [event.type for event in world.events])
    assert "is not in it: it takes another pull request" in world.events[-1].summary
    assert origin.head(BRANCH) == pull.head_sha


@pytest.mark.parametrize("change", [{"delete_head_branch": False}, {"merge_method": "squash"}])
async def test_the_settings_say_what_stays_and_how_a_squash_is_worded(
    world: RemoteWorld, change: dict[str, Any]
) -> None:
    world.rules = Rules(**change)
    pull = await opened(world)
    result = await world.provider.merge(pull.number)
    origin = world.served.origin
    assert origin.head(BRANCH) == (pull.head_sha if "delete_head_branch" in change else None)
    mark = world.served.forge.mark
    if "merge_method" in change:
        assert origin.message(result.commit or "").startswith(f"Do it ({mark}{pull.number})")


async def test_a_pull_request_of_a_fork_is_refused_as_such(tmp_path: Path) -> None:
    async with GiteaWorld.running(tmp_path / "forge", pushes=False) as gitea:
        world = RemoteWorld(gitea, tmp_path / "state")
        await world.start()
        pull = await opened(world)
        gitea.served.pulls[pull.number].head_repo = 77
        await world.commit(BRANCH, shared="ours")
        result = await world.provider.merge(pull.number)
        assert not result.merged
        assert "comes from a fork" in result.reason
        await world.aclose()


async def test_a_conflict_of_a_branch_that_is_not_here_is_told_with_its_files(
    tmp_path: Path,
) -> None:
    async with GiteaWorld.running(tmp_path / "forge", pushes=False) as gitea:
        world = RemoteWorld(gitea, tmp_path / "state")
        await world.start()
        pull = await opened(world)
        git(gitea.origin.repo, "update-ref", "-d", f"refs/heads/{BRANCH}")
        gitea.origin.commit(BASE, "theirs", "b")

        async def refused() -> bool:
            result = await world.provider.merge(pull.number)
            return "both changed shared.txt" in result.reason

        await until(refused, "the conflict")
        found = await world.provider.pull_request(pull.number)
        assert found is not None
        assert found.conflicts == ("shared.txt",)
        await world.aclose()
