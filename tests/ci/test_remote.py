"""What a provider on a forge tells, when it asks, and what it does when nobody answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.errors import (
    ForbiddenError,
    LimitedError,
    MissingError,
    ProviderError,
    UnauthorizedError,
    UnreachableError,
)
from ci.forge import Reviews
from ci.inbox import Hint
from ci.interface import PullRequestState
from ci.merging import Rules
from ci.verdict import Verdict, VerdictStatus, judge
from tests.ci.scripted_forge import BASE_SHA, check, remark, scene_of, sha

if TYPE_CHECKING:
    from pathlib import Path

UNREACHABLE = UnreachableError("forge.test does not answer", retry_at=None)


# --- verdicts ---------------------------------------------------------------------------------


async def test_a_commit_without_checks_is_pending_and_after_its_grace_none(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
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


async def test_red_checks_are_told_with_each_failed_step_and_its_log(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
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


async def test_the_same_red_is_told_once_and_a_fresh_red_again(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)
        scene.watch(number=None)
        await scene.later(2000)
        assert scene.told == ["build_failure"]
        scene.forge.by_sha[sha("1")] = (check("unit", "failed", ref="unit-2"),)
        await scene.later(2000)
        assert scene.told == ["build_failure", "build_failure"]


async def test_a_restart_tells_nothing_anew(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)
        scene.watch(number=None)
        await scene.quiet()
        await scene.restart()
        scene.watch(number=None)
        await scene.quiet()
        assert scene.told == ["build_failure"]


# --- triage -----------------------------------------------------------------------------------


async def test_a_check_that_is_red_on_the_base_too_is_said_to_be(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit", "failed"), check("lint", "failed"))
        scene.forge.by_sha[BASE_SHA] = (check("unit", "failed"),)
        scene.watch(number=None)
        await scene.quiet()
    assert "On main (bbbbbbbbbbbb) the same is red: unit" in scene.events[0].summary


async def test_nobody_is_woken_for_what_is_red_on_the_base_if_that_is_wanted(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path, wake_on_base_red=False) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)
        scene.forge.by_sha[BASE_SHA] = (check("unit", "failed"),)
        scene.watch(number=None)
        await scene.later(50)
        assert scene.told == []
        assert "Nobody is woken" in (await scene.stands())["text"]
        scene.forge.by_sha[BASE_SHA] = (check("unit"),)
        await scene.later(800)
        assert scene.told == ["build_failure"]


async def test_failed_checks_run_once_more_before_anybody_is_woken(tmp_path: Path) -> None:
    async with scene_of(tmp_path, rerun_red=True) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit", "failed"), check("lint"))
        scene.watch(number=None)
        await scene.later(60)
        assert scene.forge.reruns == [("unit",)]
        assert scene.told == []
        scene.forge.by_sha[sha("1")] = (check("unit", ref="unit-2"), check("lint"))
        await scene.later(800)
        assert scene.told == ["build_success"]
        assert "red first and passed" in scene.events[0].summary
        assert scene.forge.reruns == [("unit",)]


async def test_what_fails_twice_is_red(tmp_path: Path) -> None:
    async with scene_of(tmp_path, rerun_red=True) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)
        scene.watch(number=None)
        await scene.quiet()
        scene.forge.by_sha[sha("1")] = (check("unit", "failed", ref="unit-2"),)
        await scene.later(800)
    assert scene.told == ["build_failure"]
    assert "failed again" in scene.events[0].summary


async def test_a_forge_that_runs_nothing_again_is_believed_at_once(tmp_path: Path) -> None:
    async with scene_of(tmp_path, rerun_red=True) as scene:
        scene.forge.may_rerun = False
        scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)
        scene.watch(number=None)
        await scene.quiet()
    assert scene.told == ["build_failure"]


# --- pull requests ----------------------------------------------------------------------------


async def test_each_fate_of_a_pull_request_is_told_once(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.open(updated_at=5.0)
        scene.watch()
        await scene.quiet()
        scene.forge.change(mergeable=False)
        await scene.later(200)
        scene.forge.change(mergeable=True)
        await scene.later(200)
        scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("m"))
        await scene.later(2000)
    assert scene.told == ["pr_conflict", "pr_merged"]
    assert scene.remote.followed == []


async def test_after_a_merge_the_base_here_follows(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.remote.heads["main"] = sha("9")
        scene.forge.open()
        scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("9"))
        scene.watch()
        await scene.quiet()
    assert scene.told == ["pr_merged"]
    assert scene.remote.followed == [("main", sha("9"))]


async def test_a_pull_request_that_is_gone_from_the_list_is_asked_for_by_itself(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        scene.watch()
        await scene.later(400)
        asked = scene.forge.asked["pull"]
        scene.forge.change(state=PullRequestState.CLOSED)
        await scene.later(200)
    assert scene.told == ["pr_checks_passed", "pr_closed"]
    assert scene.forge.asked["pull"] == asked + 1


async def test_what_is_over_is_asked_after_no_more(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.open()
        scene.forge.change(state=PullRequestState.CLOSED)
        scene.watch()
        await scene.quiet()
        before = scene.forge.asked.total()
        await scene.later(3000)
    assert scene.forge.asked["pull"] + scene.forge.asked["checks"] == 1
    assert scene.forge.asked.total() - before <= 6


async def test_a_head_of_ours_that_the_forge_still_shows_never_counts(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        await scene.provider.pushed("agent/a", sha("1"))
        await scene.provider.pushed("agent/a", sha("2"))
        scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)
        scene.forge.by_sha[sha("2")] = (check("unit"),)
        scene.forge.open(head=sha("1"))
        scene.watch(sha=sha("2"))
        await scene.quiet()
        assert scene.told == []
        assert "not taken note of the push" in (await scene.stands())["text"]
        scene.forge.change(head_sha=sha("2"))
        await scene.later(30)
    assert scene.told == ["pr_checks_passed"]


async def test_a_conflict_names_what_to_merge(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.remote.heads["main"] = sha("9")
        scene.forge.open(mergeable=False)
        scene.watch()
        await scene.quiet()
    assert "conflicts with main" in scene.events[0].summary
    assert "refs/loopwright/remote/main" in scene.events[0].summary


async def test_a_review_that_wants_changes_is_told_once_with_every_remark(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.open()
        scene.forge.said[7] = Reviews(
            changes_wanted_by=("ada",),
            remarks=(
                remark("1", "please mend", wants_changes=True),
                remark("2", "off by one", path="app.py", line=12, wants_changes=True),
                remark("3", "buy now", author="stranger", trusted=False, wants_changes=True),
            ),
        )
        scene.watch()
        await scene.later(500)
        await scene.restart()
        scene.watch()
        await scene.later(500)
    (event,) = [each for each in scene.events if each.type == "pr_changes_requested"]
    assert [(each.title, each.text) for each in event.details] == [
        ("by ada", "please mend"),
        ("app.py:12 by ada", "off by one"),
    ]


async def test_plain_comments_ride_along_and_wake_only_if_wanted(tmp_path: Path) -> None:
    comment = remark("1", "nice")
    async with scene_of(tmp_path) as scene:
        scene.forge.open()
        scene.forge.said[7] = Reviews(remarks=(comment,))
        scene.watch()
        await scene.later(300)
        assert scene.told == []
        wanted = remark("2", "rename it", wants_changes=True)
        scene.forge.said[7] = Reviews(remarks=(comment, wanted))
        scene.forge.change()
        await scene.later(300)
        assert [each.text for each in scene.events[-1].details] == ["nice", "rename it"]
    async with scene_of(tmp_path, wake_on_comments=True) as scene:
        scene.forge.open()
        scene.forge.said[7] = Reviews(remarks=(comment,))
        scene.watch()
        await scene.quiet()
        assert scene.told == ["pr_changes_requested"]


async def test_only_authors_that_are_named_are_heard(tmp_path: Path) -> None:
    async with scene_of(tmp_path, review_authors=("bob",)) as scene:
        scene.forge.open()
        scene.forge.said[7] = Reviews(
            remarks=(
                remark("1", "from ada", wants_changes=True),
                remark("2", "from bob", author="bob", trusted=False, wants_changes=True),
            )
        )
        scene.watch()
        await scene.quiet()
    assert [each.text for each in scene.events[-1].details] == ["from bob"]


# --- pushing ----------------------------------------------------------------------------------


async def test_what_could_not_be_pushed_is_said_and_tried_again(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.remote.refusing = "the host is down"
        with pytest.raises(ProviderError, match="the host is down"):
            await scene.provider.pushed("agent/a", sha("1"))
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.watch(number=None)
        await scene.quiet()
        stands = await scene.stands()
        assert stands["trouble"] is True
        assert "the host is down" in stands["text"]
        scene.remote.refusing = ""
        await scene.later(60)
    assert scene.remote.heads == {"agent/a": sha("1")}
    assert scene.told == ["build_success"]


async def test_work_that_somebody_else_pushed_is_never_overwritten(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        await scene.provider.pushed("agent/a", sha("1"))
        scene.remote.heads["agent/a"] = sha("9")
        with pytest.raises(ProviderError, match="9999"):
            await scene.provider.pushed("agent/a", sha("2"))
        assert scene.remote.heads["agent/a"] == sha("9")
        scene.remote.ancestors.add((sha("3"), sha("9")))
        await scene.provider.pushed("agent/a", sha("3"))
    assert scene.remote.heads["agent/a"] == sha("3")


async def test_a_push_whose_end_was_not_heard_is_no_foreign_work(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        await scene.provider.pushed("agent/a", sha("1"))
        work = scene.provider._work
        assert work is not None
        await work.memory.want("agent/a", sha("2"))
        scene.remote.heads["agent/a"] = sha("2")
        await scene.provider.pushed("agent/a", sha("3"))
    assert scene.remote.heads["agent/a"] == sha("3")


# --- merging ----------------------------------------------------------------------------------


async def test_auto_merge_waits_for_the_grace_and_for_the_reviews(tmp_path: Path) -> None:
    async with scene_of(tmp_path, auto_merge=True, required_reviews=1) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        scene.watch()
        await scene.later(200)
        assert "lacks 1 of 1 required approvals" in (await scene.stands())["text"]
        scene.forge.said[7] = Reviews(approved_by=("ada",))
        scene.forge.change()
        await scene.later(200)
    assert scene.forge.merged_with == [(7, sha("1"), "merge")]
    assert scene.told == ["pr_checks_passed", "pr_merged"]


async def test_what_changes_the_hold_of_agents_is_merged_by_a_person_alone(tmp_path: Path) -> None:
    async with scene_of(tmp_path, auto_merge=True) as scene:
        scene.against = "it changes what holds agents (isolation in loopwright.toml)"
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        scene.watch()
        await scene.later(400)
        assert "isolation in loopwright.toml" in (await scene.stands())["text"]
        assert scene.forge.merged_with == []
        assert (await scene.provider.merge(7)).merged
    assert scene.forge.merged_with == [(7, sha("1"), "merge")]


async def test_auto_merge_is_off_unless_asked_for(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        scene.watch()
        await scene.later(1500)
    assert scene.forge.merged_with == []


async def test_a_merge_asked_for_is_refused_for_a_head_nobody_looked_at(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        refused = await scene.provider.merge(7, expected_sha=sha("2"))
        merged = await scene.provider.merge(7, expected_sha=sha("1"))
    assert not refused.merged
    assert merged.merged


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
    tmp_path: Path, error: UnreachableError
) -> None:
    async with scene_of(tmp_path) as scene:
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


async def test_one_wait_that_cannot_be_asked_after_leaves_the_others_alone(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.by_sha[sha("2")] = (check("unit"),)
        scene.forge.open(8, head=sha("2"), branch="agent/b")
        scene.watch()
        scene.watch(key="agent-b", branch="agent/b", sha=sha("2"), number=8)
        await scene.quiet()
        assert scene.told == ["pr_checks_passed"]
        assert "does not know pull request 7" in (await scene.stands())["text"]


async def test_a_log_that_cannot_be_read_holds_nothing_up(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)

        async def explain(sha: str, check: object) -> object:
            raise MissingError(f"no log of {check} at {sha[:3]}")

        scene.forge.explain = explain  # type: ignore[method-assign,assignment]  # one answer differs
        scene.watch(number=None)
        await scene.quiet()
    assert "no log" in scene.events[0].details[0].text


# --- hints ------------------------------------------------------------------------------------


async def test_a_hint_has_it_looked_at_at_once_and_names_whose_wait_it_is(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.open()
        scene.watch()
        await scene.later(400)
        scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("m"))
        assert await scene.provider.take(Hint(numbers=(7,))) == ("agent-a",)
        await scene.quiet()
        assert scene.told == ["pr_merged"]
        assert await scene.provider.take(Hint(numbers=(8,), sha=sha("5"))) == ()


async def test_a_hint_is_no_news_by_itself(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.open()
        scene.watch()
        await scene.quiet()
        for _ in range(100):
            await scene.provider.take(Hint(numbers=(7,), event="pull_request.closed"))
        await scene.quiet()
    assert scene.told == []


async def test_a_hint_that_finds_nobody_to_ask_is_not_taken(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.open()
        scene.watch()
        await scene.quiet()
        scene.forge.failing = UNREACHABLE
        with pytest.raises(ProviderError, match="does not answer"):
            await scene.provider.take(Hint(numbers=(7,)))


async def test_a_wait_that_is_over_is_forgotten(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
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


# --- others who judge -------------------------------------------------------------------------


class Judge:
    """Somebody beside the forge who has a say."""

    def __init__(self) -> None:
        self.said = judge(sha("1"), pending=("jenkins/unit",))

    async def verdict(self, commit: str) -> Verdict:
        assert commit == sha("1")
        return self.said


async def test_nothing_is_merged_unasked_before_all_who_judge_are_content(tmp_path: Path) -> None:
    async with scene_of(tmp_path, auto_merge=True) as scene:
        other = Judge()
        scene.provider.judges = (other,)  # type: ignore[assignment]  # a verdict is all it is asked
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        scene.watch()
        await scene.later(400)
        assert scene.forge.merged_with == []
        assert not (await scene.provider.merge(7)).merged
        other.said = judge(sha("1"), passed=("jenkins/unit",))
        await scene.later(400)
    assert scene.forge.merged_with == [(7, sha("1"), "merge")]


# --- what a merge unasked must not overlook ---------------------------------------------------


async def test_a_check_that_turns_red_during_the_grace_stops_a_merge_unasked(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path, auto_merge=True) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        scene.watch()
        await scene.later(115)
        scene.forge.by_sha[sha("1")] = (check("unit"), check("deploy", "failed"))
        await scene.later(700)
    assert scene.forge.merged_with == []
    assert "pr_checks_failed" in scene.told


async def test_what_was_green_is_asked_again_right_before_a_merge_unasked(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        scene.watch()
        await scene.later(300)
        scene.forge.by_sha[sha("1")] = (check("unit", "failed", ref="unit-2"),)
        scene.rules = Rules(auto_merge=True)
        await scene.later(200)
    assert scene.forge.merged_with == []


async def test_changes_wanted_in_the_same_second_stop_a_merge_and_wake(tmp_path: Path) -> None:
    async with scene_of(tmp_path, auto_merge=True) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        scene.watch()
        await scene.later(60)
        wanted = remark("1", "no", wants_changes=True)
        scene.forge.said[7] = Reviews(changes_wanted_by=("ada",), remarks=(wanted,))
        await scene.provider.take(Hint(numbers=(7,)))
        await scene.later(700)
    assert scene.forge.merged_with == []
    assert "pr_changes_requested" in scene.told


async def test_somebody_elses_head_is_never_merged_unasked(tmp_path: Path) -> None:
    async with scene_of(tmp_path, auto_merge=True) as scene:
        scene.forge.by_sha[sha("9")] = (check("unit"),)
        scene.forge.open(head=sha("9"))
        scene.watch()
        await scene.later(700)
        assert "no commit of this agent" in (await scene.stands())["text"]
    assert scene.forge.merged_with == []


async def test_a_forge_that_forbids_one_merge_is_in_no_trouble(tmp_path: Path) -> None:
    async with scene_of(tmp_path, auto_merge=True) as scene:

        async def merge(pull: object, **how: object) -> object:
            raise ForbiddenError(f"no scope to merge workflows {pull!r:.1} {how!r:.1}", status=403)

        scene.forge.merge = merge  # type: ignore[method-assign,assignment]  # one answer differs
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        scene.watch()
        await scene.later(400)
        assert scene.provider.troubles() == ()
        assert "no scope to merge workflows" in (await scene.stands())["text"]


# --- what must not be lost or told in circles -------------------------------------------------


async def test_a_later_wait_on_the_same_red_head_is_told_again(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)
        scene.forge.open()
        over = scene.watch(since=100.0)
        await scene.later(100)
        over()
        scene.watch(since=200.0)
        await scene.later(100)
    assert scene.told.count("pr_checks_failed") == 2


async def test_a_request_for_changes_without_words_wakes_once(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.open()
        scene.forge.said[7] = Reviews(changes_wanted_by=("ada",))
        scene.watch()
        await scene.later(2000)
        assert scene.told.count("pr_changes_requested") == 1
        scene.forge.said[7] = Reviews(approved_by=("ada",))
        scene.forge.change()
        await scene.later(300)
        scene.forge.said[7] = Reviews(changes_wanted_by=("ada",))
        scene.forge.change()
        await scene.later(300)
        assert scene.told.count("pr_changes_requested") == 2


async def test_nobody_is_woken_by_its_own_words(tmp_path: Path) -> None:
    async with scene_of(tmp_path, wake_on_comments=True) as scene:
        scene.forge.open()
        scene.forge.said[7] = Reviews(remarks=(remark("1", "Done.", own=True),))
        scene.watch()
        await scene.later(500)
    assert scene.told == []


async def test_a_push_that_is_owed_does_not_hide_the_merge(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.remote.refusing = "the host is down"
        with pytest.raises(ProviderError):
            await scene.provider.pushed("agent/a", sha("1"))
        scene.forge.open()
        scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("m"))
        scene.watch()
        await scene.later(60)
    assert scene.told == ["pr_merged"]


async def test_a_branch_that_was_removed_there_after_a_merge_is_pushed_anew(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        await scene.provider.pushed("agent/a", sha("1"))
        del scene.remote.heads["agent/a"]
        await scene.provider.pushed("agent/a", sha("2"))
    assert scene.remote.heads == {"agent/a": sha("2")}


async def test_an_agent_is_told_once_of_what_somebody_else_pushed(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        await scene.provider.pushed("agent/a", sha("1"))
        scene.remote.heads["agent/a"] = sha("9")
        with pytest.raises(ProviderError):
            await scene.provider.pushed("agent/a", sha("2"))
        scene.forge.open(head=sha("9"))
        scene.forge.by_sha[sha("9")] = (check("unit", "failed"),)
        scene.watch(sha=sha("2"))
        await scene.later(2000)
    assert scene.told == ["pr_changes_requested"]
    assert "refs/loopwright/remote/agent/a" in scene.events[0].summary


async def test_red_checks_of_somebody_elses_head_say_whose_they_are(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        await scene.provider.pushed("agent/a", sha("1"))
        scene.remote.heads["agent/a"] = sha("9")
        scene.forge.open(head=sha("9"))
        scene.forge.by_sha[sha("9")] = (check("unit", "failed"),)
        scene.watch()
        await scene.later(100)
    (event,) = scene.events
    assert event.of_others
    assert "Somebody else pushed 999999999999" in event.summary


async def test_a_branch_set_back_to_an_older_head_of_ours_is_pushed_again(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        await scene.provider.pushed("agent/a", sha("1"))
        await scene.provider.pushed("agent/a", sha("2"))
        scene.remote.heads["agent/a"] = sha("1")
        scene.forge.open(head=sha("1"))
        scene.watch(sha=sha("2"))
        await scene.later(300)
    assert scene.remote.heads == {"agent/a": sha("2")}


async def test_a_push_owed_since_the_task_was_complete_is_made_before_the_merge(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path) as scene:
        scene.remote.refusing = "the host is down"
        with pytest.raises(ProviderError):
            await scene.provider.pushed("agent/a", sha("1"))
        scene.remote.refusing = ""
        scene.forge.by_sha[sha("1")] = (check("unit"),)
        scene.forge.open()
        assert (await scene.provider.merge(7, expected_sha=sha("1"))).merged
    assert scene.remote.heads["agent/a"] == sha("1")


async def test_a_pull_request_of_a_fork_is_not_ours(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.forge.open(9, ours=False)
        assert await scene.provider.pull_request(9) is None


async def test_accepting_what_was_merged_there_lets_the_base_follow(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        scene.remote.heads["main"] = sha("9")
        scene.forge.open()
        scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("9"))
        assert (await scene.provider.merge(7, expected_sha=sha("1"))).merged
    assert scene.remote.followed == [("main", sha("9"))]
