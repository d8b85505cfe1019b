"""The rules every CI provider keeps, whatever stands behind it.

A provider joins by a module with a subclass of `ProviderContract` and a fixture `world`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import pytest

from ci.errors import UnknownPullRequestError
from ci.events import EXCERPT_LIMIT, CIEvent, CIEventType
from ci.interface import CIWatch, PullRequestState
from ci.verdict import VerdictStatus
from tests import waiting

if TYPE_CHECKING:
    from ci.interface import CIProvider, PullRequest

BASE = "main"
until = waiting.until


class World(Protocol):
    """A provider at work on a repository with a base branch, and how its CI can be steered."""

    events: list[CIEvent]
    """What a subscriber was told since the beginning, over all restarts."""

    @property
    def provider(self) -> CIProvider: ...

    async def commit(
        self, branch: str, *, outcome: str = "green", shared: str | None = None
    ) -> str:
        """Commit to the branch, made from the base if new, without reporting it.

        The outcome of its CI is `green`, `red` (printing "the sum is wrong") or `held` until
        `release`, then green; `shared` is the text of a file that all branches have.
        """
        ...

    async def release(self) -> None:
        """Let the held builds go on."""
        ...

    async def merged_text(self) -> str:
        """Return the shared file of the base branch."""
        ...

    async def restart(self) -> None:
        """Stop the provider and start it again from what it recorded."""
        ...


async def settled(world: World, sha: str) -> VerdictStatus:
    """Wait for the end of the commit's builds."""
    open_still = {VerdictStatus.PENDING, VerdictStatus.NONE}

    async def ended() -> VerdictStatus | None:
        status = (await world.provider.verdict(sha)).status
        return None if status in open_still else status

    return VerdictStatus(await until(ended, f"the end of the builds of {sha}"))


async def pushed(world: World, branch: str, sha: str) -> None:
    """Report a commit, and wait for what CI says about it."""
    await world.provider.pushed(branch, sha)
    world.provider.watch(CIWatch(key=branch, branch=branch, sha=sha))


async def opened(
    world: World, branch: str, *, outcome: str = "green", text: str = ""
) -> PullRequest:
    """Push a commit and open a pull request for it; wait for its checks unless they are held."""
    sha = await world.commit(branch, outcome=outcome, shared=text or None)
    await world.provider.pushed(branch, sha)
    pull = await world.provider.create_pull_request(branch=branch, base=BASE, title=f"Do {branch}")
    await follow(world, pull, sha)
    if outcome != "held":
        await settled(world, sha)
        await until(lambda: told_of(world, pull, CIEventType.PR_CHECKS_PASSED) or told_of(
            world, pull, CIEventType.PR_CHECKS_FAILED), "its checks")  # fmt: skip
    return await again(world, pull)


async def follow(world: World, pull: PullRequest, sha: str) -> None:
    """Wait for what becomes of a pull request."""
    world.provider.watch(CIWatch(key=pull.branch, branch=pull.branch, sha=sha, number=pull.number))


def told_of(world: World, pull: PullRequest, kind: CIEventType) -> bool:
    """Tell whether an event of this type came about the pull request."""
    return any(each.type is kind and each.pr_number == pull.number for each in world.events)


async def again(world: World, pull: PullRequest) -> PullRequest:
    """Ask for the pull request as it is now."""
    seen = await world.provider.pull_request(pull.number)
    assert seen is not None
    return seen


ON_THE_WAY = {CIEventType.BUILD_STARTED, CIEventType.PR_UPDATED}
"""What only some providers tell, and nobody waits for."""


def all_types(world: World) -> list[CIEventType]:
    return [event.type for event in world.events]


def types(world: World) -> list[CIEventType]:
    return [event.type for event in world.events if event.type not in ON_THE_WAY]


class ProviderContract:
    async def test_a_commit_nobody_built_is_never_green(self, world: World) -> None:
        verdict = await world.provider.verdict("0" * 40)
        assert verdict.status in {VerdictStatus.NONE, VerdictStatus.PENDING}

    async def test_a_pushed_commit_is_built_and_judged(self, world: World) -> None:
        sha = await world.commit("agent/a")
        await pushed(world, "agent/a", sha)
        assert await settled(world, sha) is VerdictStatus.GREEN
        await until(lambda: CIEventType.BUILD_SUCCESS in types(world))
        assert types(world) == [CIEventType.BUILD_SUCCESS]
        assert {(event.branch, event.sha) for event in world.events} == {("agent/a", sha)}

    async def test_a_red_verdict_carries_the_failing_output(self, world: World) -> None:
        sha = await world.commit("agent/a", outcome="red")
        await pushed(world, "agent/a", sha)
        assert await settled(world, sha) is VerdictStatus.RED
        verdict = await world.provider.verdict(sha)
        assert "the sum is wrong" in verdict.failed[0].excerpt
        assert len(verdict.failed[0].excerpt.encode()) <= EXCERPT_LIMIT
        assert verdict.failed[0].url
        await until(lambda: CIEventType.BUILD_FAILURE in types(world))
        assert "the sum is wrong" in world.events[-1].excerpt

    async def test_the_same_commit_again_is_not_built_again(self, world: World) -> None:
        sha = await world.commit("agent/a")
        for _ in range(3):
            await pushed(world, "agent/a", sha)
        await settled(world, sha)
        await pushed(world, "agent/a", sha)
        await until(lambda: CIEventType.BUILD_SUCCESS in types(world))
        started = [each for each in world.events if each.type is CIEventType.BUILD_STARTED]
        assert len(started) <= 1
        assert types(world) == [CIEventType.BUILD_SUCCESS]

    async def test_a_pull_request_is_found_by_number_and_url_and_branch(self, world: World) -> None:
        pull = await opened(world, "agent/a")
        assert pull.state is PullRequestState.OPEN
        assert pull.checks is VerdictStatus.GREEN
        for ref in (pull.number, str(pull.number), pull.url):
            assert await world.provider.pull_request(ref) == pull
        assert await world.provider.find_pull_request("agent/a") == pull
        assert await world.provider.find_pull_request("agent/b") is None
        for ref in (pull.number + 1, "not found", "https://example.org/pull/1"):
            assert await world.provider.pull_request(ref) is None

    async def test_an_open_pull_request_is_adopted(self, world: World) -> None:
        pull = await opened(world, "agent/a")
        same = await world.provider.create_pull_request(branch="agent/a", base=BASE, title="Other")
        # Its title may be written anew by the provider.
        assert (same.number, same.branch, same.state) == (pull.number, pull.branch, pull.state)
        assert types(world).count(CIEventType.PR_CREATED) == 1

    async def test_red_checks_refuse_the_merge(self, world: World) -> None:
        pull = await opened(world, "agent/a", outcome="red")
        result = await world.provider.merge(pull.number)
        assert not result.merged
        assert "red" in result.reason
        assert (await again(world, pull)).state is PullRequestState.OPEN

    async def test_pending_checks_refuse_the_merge(self, world: World) -> None:
        pull = await opened(world, "agent/a", outcome="held")
        result = await world.provider.merge(pull.number)
        assert not result.merged
        assert "pending" in result.reason
        await world.release()

    async def test_another_head_than_expected_refuses_the_merge(self, world: World) -> None:
        pull = await opened(world, "agent/a", text="from a")
        result = await world.provider.merge(pull.number, expected_sha="0" * 40)
        assert not result.merged
        assert pull.head_sha in result.reason
        assert await world.merged_text() == "base"

    async def test_an_unreported_commit_refuses_the_merge(self, world: World) -> None:
        pull = await opened(world, "agent/a")
        await world.commit("agent/a", outcome="held")
        assert not (await world.provider.merge(pull.number)).merged
        await world.release()

    async def test_a_green_pull_request_merges_and_merging_twice_is_one_merge(
        self, world: World
    ) -> None:
        pull = await opened(world, "agent/a", text="from a")
        first = await world.provider.merge(pull.number, expected_sha=pull.head_sha)
        second = await world.provider.merge(pull.number, expected_sha=pull.head_sha)
        assert first.merged
        assert first == second
        assert await world.merged_text() == "from a"
        seen = await again(world, pull)
        assert (seen.state, seen.merge_commit) == (PullRequestState.MERGED, first.commit)
        await until(lambda: CIEventType.PR_MERGED in types(world))
        assert types(world).count(CIEventType.PR_MERGED) == 1

    async def test_a_merge_tells_the_others_of_their_conflict_once(self, world: World) -> None:
        first = await opened(world, "agent/a", text="from a")
        second = await opened(world, "agent/b", text="from b")
        await world.provider.merge(first.number)
        result = await world.provider.merge(second.number)
        assert not result.merged
        assert "shared.txt" in result.reason
        await world.provider.merge(second.number)
        await until(lambda: CIEventType.PR_CONFLICT in types(world))
        assert types(world).count(CIEventType.PR_CONFLICT) == 1
        assert (await again(world, second)).conflicts == ("shared.txt",)
        assert await world.merged_text() == "from a"

    async def test_a_closed_pull_request_stays_closed(self, world: World) -> None:
        pull = await opened(world, "agent/a")
        assert (await world.provider.close(pull.number)).state is PullRequestState.CLOSED
        assert (await world.provider.close(pull.number)).state is PullRequestState.CLOSED
        result = await world.provider.merge(pull.number)
        assert not result.merged
        assert "closed" in result.reason
        await until(lambda: CIEventType.PR_CLOSED in types(world))
        assert types(world).count(CIEventType.PR_CLOSED) == 1

    async def test_after_a_closed_one_a_new_pull_request_is_opened(self, world: World) -> None:
        old = await opened(world, "agent/a")
        await world.provider.close(old.number)
        new = await world.provider.create_pull_request(branch="agent/a", base=BASE, title="Again")
        assert new.number > old.number
        found = await world.provider.find_pull_request("agent/a")
        assert found is not None
        assert found.number == new.number

    async def test_failed_checks_then_a_push_then_passed_checks(self, world: World) -> None:
        pull = await opened(world, "agent/a", outcome="red")
        fixed = await world.commit("agent/a")
        await world.provider.pushed("agent/a", fixed)
        await follow(world, pull, fixed)
        await settled(world, fixed)
        await until(lambda: CIEventType.PR_CHECKS_PASSED in types(world))
        about_it = [
            event
            for event in world.events
            if event.pr_number == pull.number and event.type not in ON_THE_WAY
        ]
        assert [event.type for event in about_it] == [
            CIEventType.PR_CREATED,
            CIEventType.PR_CHECKS_FAILED,
            CIEventType.PR_CHECKS_PASSED,
        ]
        assert [event.sha for event in about_it] == [pull.head_sha] * 2 + [fixed]
        assert "the sum is wrong" in about_it[1].excerpt
        assert (await world.provider.verdict(pull.head_sha)).status is VerdictStatus.RED
        assert (await world.provider.merge(pull.number, expected_sha=fixed)).merged

    async def test_no_such_pull_request_is_said_clearly(self, world: World) -> None:
        with pytest.raises(UnknownPullRequestError, match="77"):
            await world.provider.merge(77)
        with pytest.raises(UnknownPullRequestError, match="77"):
            await world.provider.close(77)

    async def test_a_restart_keeps_verdicts_and_pull_requests_and_tells_nothing_anew(
        self, world: World
    ) -> None:
        open_one = await opened(world, "agent/a", text="from a")
        red_one = await opened(world, "agent/b", outcome="red")
        merged_one = await opened(world, "agent/c")
        await world.provider.merge(merged_one.number)
        before = [await again(world, pull) for pull in (open_one, red_one, merged_one)]
        log = await world.provider.events_since(0)
        await world.restart()
        assert [await again(world, pull) for pull in before] == before
        assert (await world.provider.verdict(red_one.head_sha)).status is VerdictStatus.RED
        assert await world.provider.events_since(0) == log
        assert list(log.events) == world.events
        new = await opened(world, "agent/d")
        assert new.number > merged_one.number

    async def test_events_are_unique_and_can_be_read_back_from_a_cursor(self, world: World) -> None:
        await opened(world, "agent/a")
        half = await world.provider.events_since(0)
        await opened(world, "agent/b", outcome="red")
        rest = await world.provider.events_since(half.cursor)
        await until(lambda: len(world.events) == len(half.events) + len(rest.events))
        assert [*half.events, *rest.events] == world.events
        ids = [event.event_id for event in world.events]
        assert len(set(ids)) == len(ids)
        assert (await world.provider.events_since(rest.cursor)).events == ()

    async def test_an_unsubscribed_handler_hears_nothing_more(self, world: World) -> None:
        heard: list[CIEvent] = []
        unsubscribe = world.provider.subscribe(heard.append)
        await opened(world, "agent/a")
        await until(lambda: heard == world.events, "the same events")
        count = len(heard)
        unsubscribe()
        unsubscribe()
        await opened(world, "agent/b")
        assert len(world.events) > count == len(heard)

    async def test_a_handler_that_fails_disturbs_nobody_and_is_reported(self, world: World) -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context.get("exception"))
        )

        def fail(event: CIEvent) -> None:
            raise ArithmeticError(event.event_id)

        heard: list[CIEvent] = []
        world.provider.subscribe(fail)
        world.provider.subscribe(heard.append)
        await opened(world, "agent/a")
        await until(lambda: heard == world.events, "the same events")
        assert [type(fault) for fault in reported] == [ArithmeticError] * len(heard)
