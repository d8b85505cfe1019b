"""What a provider on a forge tells, when it asks, and what it does when nobody answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.errors import (
    LimitedError,
    MissingError,
    ProviderError,
    UnauthorizedError,
    UnreachableError,
)
from ci.interface import PullRequestState
from ci.verdict import VerdictStatus
from ci.webhook_delivery import Hint
from tests.ci.forge.scripted_forge import check, scene_of, sha

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ci.forge.scripted_forge import Scene

UNREACHABLE = UnreachableError("forge.test does not answer", retry_at=None)

# --- verdicts ---------------------------------------------------------------------------------


async def test_a_commit_without_checks_is_pending_and_after_its_grace_none(scene: Scene) -> None:
    first = await scene.provider.verdict(sha("1"))
    scene.clock.advance(119)
    still = await scene.provider.verdict(sha("1"))
    scene.clock.advance(2)
    after = await scene.provider.verdict(sha("1"))
    assert (first.status, still.status) == (VerdictStatus.PENDING, VerdictStatus.PENDING)
    assert after.status is VerdictStatus.NONE


async def test_none_wakes_nobody_unless_it_counts_as_green(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.watch(number=None)
        await scene.later(300)
        assert scene.told == []
        assert "none" in (await scene.stands())["text"]
    async with scene_of(tmp_path, require_ci=False) as scene:
        scene.watch(number=None)
        await scene.later(100)
        assert scene.told == []
        await scene.later(30)
        assert scene.told == ["build_success"]
        assert "require_ci = false" in scene.events[0].summary


async def test_a_merge_that_was_asked_for_is_told_once_to_whoever_waits(scene: Scene) -> None:
    scene.forge.open()
    scene.forge.by_sha[sha("1")] = (check("unit"),)
    scene.remote.heads["agent/a"] = sha("1")
    scene.watch(since=5.0)
    await scene.quiet()
    assert (await scene.provider.merge(7)).merged
    await scene.later(2000)
    assert scene.told.count("pr_merged") == 1


async def test_red_checks_are_told_with_each_failed_step_and_its_log(scene: Scene) -> None:
    scene.forge.by_sha[sha("1")] = (
        check("unit", "failed", summary="step Run pytest"),
        check("lint", "failed", how="timed_out"),
        check("docs"),
    )
    scene.forge.logs = {"unit": "1 failed", "lint": "x" * 5000}
    scene.watch(number=None)
    await scene.quiet()
    (event,) = scene.events
    assert event.type == "build_failure"
    assert [detail.title for detail in event.details] == [
        "unit: step Run pytest",
        "lint: timed_out",
    ]
    assert event.details[0].text == "1 failed"
    assert len(event.details[1].text.encode()) <= 4096


async def test_the_same_red_is_told_once_and_a_fresh_red_again(scene: Scene) -> None:
    scene.wait_for_checks(check("unit", "failed"))
    await scene.later(2000)
    assert scene.told == ["build_failure"]
    scene.forge.by_sha[sha("1")] = (check("unit", "failed", ref="unit-2"),)
    await scene.later(2000)
    assert scene.told == ["build_failure", "build_failure"]


async def test_a_restart_tells_nothing_anew(scene: Scene) -> None:
    scene.wait_for_checks(check("unit", "failed"))
    await scene.quiet()
    await scene.restart()
    scene.watch(number=None)
    await scene.quiet()
    assert scene.told == ["build_failure"]


# --- pull requests ----------------------------------------------------------------------------


async def test_each_fate_of_a_pull_request_is_told_once(scene: Scene) -> None:
    scene.wait_for_pull(updated_at=5.0)
    await scene.quiet()
    scene.forge.change(mergeable=False)
    await scene.later(200)
    scene.forge.change(mergeable=True)
    await scene.later(200)
    scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("m"))
    await scene.later(2000)
    assert scene.told == ["pr_conflict", "pr_merged"]
    assert scene.remote.followed == []


async def test_after_a_merge_the_base_here_follows(scene: Scene) -> None:
    scene.remote.heads["main"] = sha("9")
    scene.forge.open()
    scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("9"))
    scene.watch()
    await scene.quiet()
    assert scene.told == ["pr_merged"]
    assert scene.remote.followed == [("main", sha("9"))]


async def test_a_pull_request_that_is_gone_from_the_list_is_asked_for_by_itself(
    scene: Scene,
) -> None:
    scene.wait_for_pull(check("unit"))
    await scene.later(400)
    asked = scene.forge.asked["pull"]
    scene.forge.change(state=PullRequestState.CLOSED)
    await scene.later(200)
    assert scene.told == ["pr_checks_passed", "pr_closed"]
    assert scene.forge.asked["pull"] == asked + 1


async def test_what_is_over_is_asked_after_no_more(scene: Scene) -> None:
    scene.forge.open()
    scene.forge.change(state=PullRequestState.CLOSED)
    scene.watch()
    await scene.quiet()
    before = scene.forge.asked.total()
    await scene.later(3000)
    assert scene.forge.asked["pull"] + scene.forge.asked["checks"] == 1
    assert scene.forge.asked.total() - before <= 6


async def test_a_head_of_ours_that_the_forge_still_shows_never_counts(scene: Scene) -> None:
    await scene.provider.pushed("agent/a", sha("1"))
    await scene.provider.pushed("agent/a", sha("2"))
    scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)
    scene.forge.by_sha[sha("2")] = (check("unit"),)
    scene.forge.open(head=sha("1"))
    scene.watch(sha=sha("2"))
    await scene.quiet()
    assert scene.told == []
    assert "not registered the push" in (await scene.stands())["text"]
    scene.forge.change(head_sha=sha("2"))
    await scene.later(30)
    assert scene.told == ["pr_checks_passed"]


async def test_what_refused_a_merge_is_told_at_once(scene: Scene) -> None:
    scene.remote.heads["main"] = sha("9")
    scene.wait_for_pull(check("unit"))
    await scene.quiet()
    # The list of pull requests shows nothing of it.
    scene.forge.change(mergeable=False, updated_at=1.0)
    assert not (await scene.provider.merge(7)).merged
    await scene.quiet()
    assert scene.told == ["pr_checks_passed", "pr_conflict"]


async def test_a_conflict_names_what_to_merge(scene: Scene) -> None:
    scene.remote.heads["main"] = sha("9")
    scene.wait_for_pull(mergeable=False)
    await scene.quiet()
    assert "conflicts with main" in scene.events[0].summary
    assert "refs/loopwright/remote/main" in scene.events[0].summary


# --- when nobody answers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        UNREACHABLE,
        UnauthorizedError("the token is over", status=401),
        LimitedError("the limit is used up", status=403, retry_at=1_800_000_300.0),
        UnreachableError("500", status=500, retry_at=1_800_000_060.0),
    ],
)
async def test_a_forge_that_cannot_be_asked_is_said_so_and_asked_again(
    scene: Scene, error: UnreachableError
) -> None:
    scene.forge.by_sha[sha("1")] = (check("unit"),)
    scene.forge.open()
    scene.forge.failing = error
    scene.watch()
    await scene.quiet()
    stands = await scene.stands()
    assert stands["trouble"] is True
    assert str(error) in stands["text"]
    assert [trouble.text for trouble in scene.provider.troubles()] == [str(error)]
    asked = scene.forge.asked.total()
    if error.retry_at is not None:
        await scene.later(error.retry_at - scene.clock.now() - 1)
        assert scene.forge.asked.total() == asked
    scene.forge.failing = None
    await scene.later(200)
    assert scene.provider.troubles() == ()
    assert (await scene.stands())["trouble"] is False
    assert scene.told == ["pr_checks_passed"]
    events = [event for event, _ in scene.reported]
    assert events == ["forge_unusable", "forge_usable"]
    assert scene.reported[0][1] == {"place": scene.forge.place, "reason": str(error)}


async def test_a_renamed_repository_is_said_before_anything_must_be_pushed(scene: Scene) -> None:
    scene.wait_for_pull(check("unit"))
    await scene.quiet()
    assert (await scene.stands())["trouble"] is False
    scene.forge.new_name = "team/renamed"
    scene.forge.change()
    await scene.later(300)
    stands = await scene.stands()
    assert stands["trouble"] is True
    assert "is called team/renamed now" in stands["text"]
    assert "git remote set-url" in stands["text"]


async def test_one_wait_that_cannot_be_asked_after_leaves_the_others_alone(scene: Scene) -> None:
    scene.forge.by_sha[sha("2")] = (check("unit"),)
    scene.forge.open(8, head=sha("2"), branch="agent/b")
    scene.watch()
    scene.watch(key="agent-b", branch="agent/b", sha=sha("2"), number=8)
    await scene.quiet()
    assert scene.told == ["pr_checks_passed"]
    assert "no longer knows pull request 7" in (await scene.stands())["text"]


async def test_a_log_that_cannot_be_read_holds_nothing_up(scene: Scene) -> None:
    scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)

    async def explain(sha: str, check: object) -> object:
        raise MissingError(f"no log of {check} at {sha[:3]}")

    scene.forge.explain = explain  # type: ignore[method-assign,assignment]  # one answer differs
    scene.watch(number=None)
    await scene.quiet()
    assert "no log" in scene.events[0].details[0].text


# --- hints ------------------------------------------------------------------------------------


async def test_a_hint_has_it_looked_at_at_once_and_names_whose_wait_it_is(scene: Scene) -> None:
    scene.wait_for_pull()
    await scene.later(400)
    scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("m"))
    assert await scene.provider.take(Hint(numbers=(7,))) == ("agent-a",)
    await scene.quiet()
    assert scene.told == ["pr_merged"]
    assert await scene.provider.take(Hint(numbers=(8,), sha=sha("5"))) == ()


async def test_a_hint_is_no_news_by_itself(scene: Scene) -> None:
    scene.wait_for_pull()
    await scene.quiet()
    for _ in range(100):
        await scene.provider.take(Hint(numbers=(7,), event="pull_request.closed"))
    await scene.quiet()
    assert scene.told == []


async def test_a_hint_that_finds_nobody_to_ask_is_not_taken(scene: Scene) -> None:
    scene.wait_for_pull()
    await scene.quiet()
    scene.forge.failing = UNREACHABLE
    with pytest.raises(ProviderError, match="does not answer"):
        await scene.provider.take(Hint(numbers=(7,)))


async def test_a_wait_that_is_over_is_forgotten(scene: Scene) -> None:
    scene.forge.open()
    over = scene.watch()
    await scene.quiet()
    over()
    over()
    before = scene.forge.asked.total()
    await scene.later(3000)
    assert scene.forge.asked.total() == before
    assert await scene.provider.take(Hint(numbers=(7,))) == ()
    assert await scene.documents.all("ci.waits") == {}


async def test_a_reply_that_cannot_be_posted_yet_costs_nothing_at_other_looks(
    scene: Scene,
) -> None:
    asked: list[str] = []

    async def find_pull(branch: str) -> None:
        asked.append(branch)
        raise LimitedError("no requests left", retry_at=scene.clock.now() + 500)

    scene.wait_for_pull(check("unit", "pending"))
    await scene.provider.pushed("agent/a", sha("1"))
    scene.forge.find_pull = find_pull  # type: ignore[method-assign]  # it has a limit of its own
    with pytest.raises(LimitedError):
        await scene.provider.reply("agent-a", "agent/a", sha("1"), {"r1": "Done."})
    await scene.later(400)
    assert len(asked) <= 2


async def test_a_reply_that_is_owed_makes_no_outage_look_over(scene: Scene) -> None:
    scene.forge.failing = UnreachableError("it is down", retry_at=scene.clock.now() + 500)
    scene.wait_for_pull(check("unit", "pending"))
    await scene.provider.reply("agent-a", "agent/a", sha("1"), {"r1": "Done."})
    await scene.later(900)
    assert [event for event, _ in scene.reported] == ["forge_unusable"]
