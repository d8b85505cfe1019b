"""Several providers as one: nothing is green before all allow it, and nothing is told twice."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from ci.composite.provider import CompositeProvider
from ci.errors import ForgeError, ProviderError, UnknownPullRequestError, UnreachableError
from ci.events import CIEvent, CIEventType
from ci.forge.merge_rules import Rules
from ci.generic.provider import GenericProvider
from ci.interface import CIWatch, PullRequestState, Trouble
from ci.local.provider import LocalCIProvider
from ci.ports import ProviderPorts
from ci.verdict import Verdict, VerdictStatus
from ci.webhook_delivery import Delivery, Hint
from lifecycle.clock import SteppedClock
from tests.ci.contract import BASE, ProviderContract, again, opened, until
from tests.ci.local.local_world import LocalWorld
from tests.ci.webhooks.inboxes import SHA, check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

GREEN = (CIEventType.BUILD_SUCCESS, CIEventType.PR_CHECKS_PASSED)


class Ailing(GenericProvider):
    """A judge that cannot always be asked."""

    ails = ""

    async def verdict(self, sha: str) -> Verdict:
        if self.ails:
            raise UnreachableError(self.ails)
        return await super().verdict(sha)

    def troubles(self) -> tuple[Trouble, ...]:
        return (Trouble(place="judge", text=self.ails, since=0.0),) if self.ails else ()


class CompositeWorld(LocalWorld):
    """The local provider as the forge, and a judge that is told."""

    rules = Rules(checks_grace=0.0)

    def __init__(self, tmp_path: Path, **settings: Any) -> None:
        self.clock = SteppedClock()
        self.logged: list[tuple[str, dict[str, object]]] = []
        super().__init__(tmp_path, **settings)

    def new_provider(self) -> CompositeProvider:  # type: ignore[override]  # it is one for all that matters
        self.judge = Ailing(rules=lambda: self.rules)
        self.forge = LocalCIProvider(self.root, **self.settings)
        self.joined = CompositeProvider(self.forge, [self.judge], chance=lambda: 0.5)
        self.joined.subscribe(self.events.append)
        return self.joined

    def provider_ports(self) -> ProviderPorts:
        return ProviderPorts(
            repository=self.repository,
            commands=self.commands,
            documents=self.documents,
            now=self.clock.now,
            folder=self.folder,
            call_at=self.clock.call_at,
            report=lambda event, /, **fields: self.logged.append((event, fields)),
        )

    async def report(self, status: str, sha: str, **more: Any) -> None:
        told = check(status, sha, name="judge", at=self.clock.now(), **more)
        delivery = Delivery(
            key="generic:1", provider="generic", event="check", received_at=self.clock.now(),
            headers={}, body=json.dumps(told).encode(),
        )  # fmt: skip
        assert await self.joined.report(delivery)

    async def quiet(self) -> None:
        """Wait until everything that was told has been passed on or is held."""
        await self.forge._log.flush()
        await self.judge._log.flush()
        telling = self.joined._events
        poller = telling._poller
        assert poller is not None
        await until(lambda: telling._news.empty() and poller._task is None and not poller._uncached)
        await telling._log.flush()

    def green(self, sha: str) -> list[CIEvent]:
        return [event for event in self.events if event.type in GREEN and event.sha == sha]


@contextlib.asynccontextmanager
async def running(
    folder: Path, *, grace: float = 0.0, **settings: Any
) -> AsyncIterator[CompositeWorld]:
    world = CompositeWorld(folder, **settings)
    world.rules = Rules(checks_grace=grace)
    await world.start()
    try:
        yield world
    finally:
        await world.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[CompositeWorld]:
    async with running(tmp_path) as joined:
        yield joined


class TestContract(ProviderContract):
    """With a judge that has nothing to say, it is a provider like any other."""


async def pushed(world: CompositeWorld, branch: str = "agent/T1", outcome: str = "green") -> str:
    sha = await world.commit(branch, outcome=outcome)
    await world.provider.pushed(branch, sha)
    return sha


async def local_settled(world: CompositeWorld, sha: str) -> VerdictStatus:
    await until(lambda: _finished(world, sha), "the end of the local build")
    await world.quiet()
    return (await world.forge.verdict(sha)).status


async def _finished(world: CompositeWorld, sha: str) -> bool:
    ends = {CIEventType.BUILD_SUCCESS, CIEventType.BUILD_FAILURE}
    batch = await world.forge.events_since(0)
    return any(event.sha == sha and event.type in ends for event in batch.events)


async def test_a_green_word_of_one_is_held_until_the_other_is_green(tmp_path: Path) -> None:
    async with running(tmp_path, grace=120) as world:
        sha = await pushed(world)
        assert await local_settled(world, sha) is VerdictStatus.GREEN
        assert (await world.provider.verdict(sha)).status is VerdictStatus.PENDING
        assert world.green(sha) == []
        await world.report("passed", sha)
        await until(lambda: len(world.green(sha)) == 2, "the words of both")
        verdict = await world.provider.verdict(sha)
        assert (verdict.status, verdict.passed) == (
            VerdictStatus.GREEN,
            ("exec sh check.sh", "judge"),
        )


async def test_the_order_of_the_words_does_not_matter(tmp_path: Path) -> None:
    async with running(tmp_path, grace=120) as world:
        sha = await pushed(world, outcome="held")
        await world.report("passed", sha)
        await world.quiet()
        assert world.green(sha) == []
        await world.release()
        await local_settled(world, sha)
        await until(lambda: len(world.green(sha)) == 2, "the words of both")


async def test_a_judge_that_never_says_anything_holds_nothing_for_ever(tmp_path: Path) -> None:
    async with running(tmp_path, grace=120) as world:
        sha = await pushed(world)
        await local_settled(world, sha)
        assert world.green(sha) == []
        for _ in range(20):
            await until(lambda: world.clock.next_instant() is not None or bool(world.green(sha)))
            world.clock.advance(10)
            await world.quiet()
        assert len(world.green(sha)) == 1
        assert world.clock.now() <= world.events[0].at + 300


async def test_red_of_any_is_red_and_green_of_the_other_is_not_told(world: CompositeWorld) -> None:
    sha = await pushed(world, outcome="held")
    await world.report("failed", sha, log="the sum is wrong")
    verdict = await world.provider.verdict(sha)
    assert verdict.status is VerdictStatus.RED
    await until(lambda: CIEventType.BUILD_FAILURE in [event.type for event in world.events])
    await world.release()
    await local_settled(world, sha)
    assert world.green(sha) == []
    # Run again, it is green: now both are.
    world.clock.advance(5)
    await world.report("passed", sha)
    await until(lambda: bool(world.green(sha)))


async def test_whoever_waits_for_a_pull_request_hears_of_a_red_judge(world: CompositeWorld) -> None:
    pull = await opened(world, "agent/T1")
    await world.report("failed", pull.head_sha, log="the sum is wrong")
    watch = CIWatch(key="T1", branch="agent/T1", sha=pull.head_sha, number=pull.number)
    end = world.provider.watch(watch)

    def reds() -> list[CIEvent]:
        return [e for e in world.events if e.type is CIEventType.PR_CHECKS_FAILED]

    await until(lambda: len(reds()) == 1, "the red pull request")
    assert (reds()[0].pr_number, reds()[0].excerpt) == (pull.number, "the sum is wrong")
    assert (await again(world, pull)).checks is VerdictStatus.RED
    await world.provider.take(Hint(sha=pull.head_sha))
    await world.report("failed", pull.head_sha, number=2)
    await world.quiet()
    assert len(reds()) == 1
    end()
    end()


async def test_nothing_is_merged_that_a_judge_does_not_allow(tmp_path: Path) -> None:
    async with running(tmp_path, grace=120) as world:
        sha = await pushed(world)
        pull = await world.provider.create_pull_request(branch="agent/T1", base=BASE, title="Do it")
        await local_settled(world, sha)
        assert (await world.forge.verdict(sha)).status is VerdictStatus.GREEN
        refused = await world.provider.merge(pull.number)
        assert not refused.merged
        assert "pending" in refused.reason
        await world.report("failed", sha)
        assert "red" in (await world.provider.merge(pull.number)).reason
        world.clock.advance(1)
        await world.report("passed", sha)
        assert (await world.provider.merge(pull.number, expected_sha=sha)).merged
        seen = await again(world, pull)
        assert seen.state is PullRequestState.MERGED


async def test_one_cursor_counts_the_events_of_all(world: CompositeWorld) -> None:
    first = await pushed(world, "agent/T1")
    await local_settled(world, first)
    await world.report("failed", first)
    await world.quiet()
    half = await world.provider.events_since(0)
    second = await pushed(world, "agent/T2")
    await local_settled(world, second)
    rest = await world.provider.events_since(half.cursor)
    assert {event.sha for event in rest.events} == {second}
    assert [*half.events, *rest.events] == world.events
    assert (await world.provider.events_since(rest.cursor)).events == ()


async def test_what_a_crash_kept_from_being_passed_on_is_told_at_the_start(
    world: CompositeWorld,
) -> None:
    sha = await pushed(world)
    await local_settled(world, sha)
    before = list(world.events)
    assert before
    # As if the runner had died after the others kept their events and before this log did.
    world.documents.kept.pop("ci.joined.events")
    await world.restart()
    await until(lambda: len(world.events) == 2 * len(before))
    assert [e.event_id for e in world.events] == [e.event_id for e in before] * 2


async def test_one_that_cannot_be_asked_fails_the_question_and_no_green_word_gets_out(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, grace=120) as world:
        world.judge.ails = "the judge is away"
        sha = await pushed(world)
        await local_settled(world, sha)
        with pytest.raises(ForgeError, match="away"):
            await world.provider.verdict(sha)
        assert world.green(sha) == []
        assert [trouble.text for trouble in world.provider.troubles()] == ["the judge is away"]
        world.judge.ails = ""
        await world.report("passed", sha)
        await until(lambda: len(world.green(sha)) == 2)


async def test_a_hint_names_each_wait_once(world: CompositeWorld) -> None:
    sha = await pushed(world)
    end = world.provider.watch(CIWatch(key="T1", branch="agent/T1", sha=sha))
    assert await world.provider.take(Hint(sha=sha)) == ("T1",)
    end()
    assert await world.provider.take(Hint(sha=sha)) == ()


async def test_all_are_closed_when_one_does_not_start(tmp_path: Path) -> None:
    world = CompositeWorld(tmp_path)
    world.documents.kept["ci.generic"] = {SHA: '{"damaged": true}'}
    try:
        with pytest.raises(ProviderError, match="not readable"):
            await world.start()
        with pytest.raises(ProviderError, match="not running"):
            await world.provider.verdict(SHA)
        with pytest.raises(ProviderError, match="not running"):
            await world.forge.verdict(SHA)
        del world.documents.kept["ci.generic"]
        await world.provider.start()
        assert (await world.provider.verdict(SHA)).status is not VerdictStatus.GREEN
    finally:
        await world.close()


async def test_an_unknown_pull_request_is_the_forges_business(world: CompositeWorld) -> None:
    with pytest.raises(UnknownPullRequestError, match="77"):
        await world.provider.merge(77)


async def test_answers_to_reviewers_go_to_the_forge_and_are_told_where_it_has_none(
    world: CompositeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.joined.reply("agent-a", "agent/a", SHA, {"r1abc": "Done."})
    ((event, fields),) = world.logged
    assert (event, fields["agent_id"], fields["remark"]) == ("reply_refused", "agent-a", "r1abc")
    posted = []

    async def reply(*given: object) -> None:
        posted.append(given)

    monkeypatch.setattr(world.forge, "reply", reply, raising=False)
    await world.joined.reply("agent-a", "agent/a", SHA, {"r1abc": "Done."})
    assert posted == [("agent-a", "agent/a", SHA, {"r1abc": "Done."})]
