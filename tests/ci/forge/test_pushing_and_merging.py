"""What a provider on a forge pushes and merges, and what it never merges by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.errors import (
    ForbiddenError,
    ProviderError,
    UnreachableError,
)
from ci.forge.merge_rules import Rules
from ci.forge.protocol import Reviews
from ci.interface import PullRequestState
from ci.verdict import Verdict, judge
from ci.webhook_delivery import Hint
from tests.ci.forge.scripted_forge import check, remark, sha

if TYPE_CHECKING:
    from tests.ci.forge.scripted_forge import Scene

UNREACHABLE = UnreachableError("forge.test does not answer", retry_at=None)

# --- pushing ----------------------------------------------------------------------------------


async def test_what_could_not_be_pushed_is_said_and_tried_again(scene: Scene) -> None:
    scene.remote.refusing = "the host is down"
    with pytest.raises(ProviderError, match="the host is down"):
        await scene.provider.pushed("agent/a", sha("1"))
    scene.wait_for_checks(check("unit"))
    await scene.quiet()
    stands = await scene.stands()
    assert stands["trouble"] is True
    assert "the host is down" in stands["text"]
    scene.remote.refusing = ""
    await scene.later(60)
    assert scene.remote.heads == {"agent/a": sha("1")}
    assert scene.told == ["build_success"]


async def test_work_that_somebody_else_pushed_is_never_overwritten(scene: Scene) -> None:
    await scene.provider.pushed("agent/a", sha("1"))
    scene.remote.heads["agent/a"] = sha("9")
    with pytest.raises(ProviderError, match="9999"):
        await scene.provider.pushed("agent/a", sha("2"))
    assert scene.remote.heads["agent/a"] == sha("9")
    scene.remote.ancestors.add((sha("3"), sha("9")))
    await scene.provider.pushed("agent/a", sha("3"))
    assert scene.remote.heads["agent/a"] == sha("3")


async def test_what_somebody_else_pushed_on_top_is_told_once(scene: Scene) -> None:
    await scene.provider.pushed("agent/a", sha("1"))
    scene.remote.heads["agent/a"] = sha("9")
    scene.forge.by_sha[sha("9")] = (check("unit", "pending"),)
    scene.forge.open(head=sha("9"))
    scene.watch()
    await scene.later(800)
    (event,) = scene.events
    assert event.type == "pr_changes_requested"
    assert "has commits of somebody else: 999999999999" in event.summary
    assert "refs/loopwright/remote/agent/a" in event.summary
    assert "somebody else pushed 999999999999" in (await scene.stands())["text"]


async def test_a_push_whose_end_was_not_heard_is_no_foreign_work(scene: Scene) -> None:
    await scene.provider.pushed("agent/a", sha("1"))
    work = scene.provider._work
    assert work is not None
    await work.memory.want("agent/a", sha("2"))
    scene.remote.heads["agent/a"] = sha("2")
    await scene.provider.pushed("agent/a", sha("3"))
    assert scene.remote.heads["agent/a"] == sha("3")


# --- merging ----------------------------------------------------------------------------------


async def test_auto_merge_waits_for_the_grace_and_for_the_reviews(scene: Scene) -> None:
    scene.rules = Rules(auto_merge=True, required_reviews=1)
    scene.wait_for_pull(check("unit"))
    await scene.later(200)
    assert "lacks 1 of 1 required approvals" in (await scene.stands())["text"]
    scene.forge.said[7] = Reviews(approved_by=("ada",))
    scene.forge.change()
    await scene.later(200)
    assert scene.forge.merged_with == [(7, sha("1"), "merge")]
    assert scene.told == ["pr_checks_passed", "pr_merged"]


async def test_what_is_green_is_merged_unasked_as_soon_as_its_grace_ends(scene: Scene) -> None:
    scene.rules = Rules(auto_merge=True, checks_grace=45.0)
    scene.wait_for_pull(check("unit"))
    await scene.later(44)
    assert scene.forge.merged_with == []
    await scene.later(2)
    assert scene.forge.merged_with == [(7, sha("1"), "merge")]


async def test_what_changes_the_hold_of_agents_is_merged_by_a_person_alone(scene: Scene) -> None:
    scene.rules = Rules(auto_merge=True)
    scene.against = "it changes what holds agents (isolation in loopwright.toml)"
    scene.wait_for_pull(check("unit"))
    await scene.later(400)
    assert "isolation in loopwright.toml" in (await scene.stands())["text"]
    assert scene.forge.merged_with == []
    assert (await scene.provider.merge(7)).merged
    assert scene.forge.merged_with == [(7, sha("1"), "merge")]


async def test_auto_merge_is_off_unless_asked_for(scene: Scene) -> None:
    scene.wait_for_pull(check("unit"))
    await scene.later(1500)
    assert scene.forge.merged_with == []


async def test_a_merge_asked_for_is_refused_for_a_head_nobody_looked_at(scene: Scene) -> None:
    scene.forge.by_sha[sha("1")] = (check("unit"),)
    scene.forge.open()
    refused = await scene.provider.merge(7, expected_sha=sha("2"))
    merged = await scene.provider.merge(7, expected_sha=sha("1"))
    assert not refused.merged
    assert merged.merged


# --- others who judge -------------------------------------------------------------------------


class Judge:
    """Somebody beside the forge who has a say."""

    def __init__(self) -> None:
        self.said = judge(sha("1"), pending=("jenkins/unit",))

    async def verdict(self, commit: str) -> Verdict:
        assert commit == sha("1")
        return self.said


async def test_nothing_is_merged_unasked_before_all_who_judge_are_content(scene: Scene) -> None:
    scene.rules = Rules(auto_merge=True)
    other = Judge()
    scene.provider.judges = (other,)  # type: ignore[assignment]  # a verdict is all it is asked
    scene.wait_for_pull(check("unit"))
    await scene.later(400)
    assert scene.forge.merged_with == []
    assert not (await scene.provider.merge(7)).merged
    other.said = judge(sha("1"), passed=("jenkins/unit",))
    await scene.later(400)
    assert scene.forge.merged_with == [(7, sha("1"), "merge")]


# --- what a merge unasked must not overlook ---------------------------------------------------


async def test_a_check_that_turns_red_during_the_grace_stops_a_merge_unasked(
    scene: Scene,
) -> None:
    scene.rules = Rules(auto_merge=True)
    scene.wait_for_pull(check("unit"))
    await scene.later(115)
    scene.forge.by_sha[sha("1")] = (check("unit"), check("deploy", "failed"))
    await scene.later(700)
    assert scene.forge.merged_with == []
    assert "pr_checks_failed" in scene.told


async def test_what_was_green_is_asked_again_right_before_a_merge_unasked(scene: Scene) -> None:
    scene.wait_for_pull(check("unit"))
    await scene.later(300)
    scene.forge.by_sha[sha("1")] = (check("unit", "failed", ref="unit-2"),)
    scene.rules = Rules(auto_merge=True)
    await scene.later(200)
    assert scene.forge.merged_with == []


async def test_changes_wanted_in_the_same_second_stop_a_merge_and_wake(scene: Scene) -> None:
    scene.rules = Rules(auto_merge=True)
    scene.wait_for_pull(check("unit"))
    await scene.later(60)
    wanted = remark("1", "no", wants_changes=True)
    scene.forge.said[7] = Reviews(changes_wanted_by=("ada",), remarks=(wanted,))
    await scene.provider.take(Hint(numbers=(7,)))
    await scene.later(700)
    assert scene.forge.merged_with == []
    assert "pr_changes_requested" in scene.told


async def test_somebody_elses_head_is_never_merged_unasked(scene: Scene) -> None:
    scene.rules = Rules(auto_merge=True)
    scene.forge.by_sha[sha("9")] = (check("unit"),)
    scene.wait_for_pull(head=sha("9"))
    await scene.later(700)
    assert "not a commit of this agent" in (await scene.stands())["text"]
    assert scene.forge.merged_with == []


async def test_a_forge_that_forbids_one_merge_is_in_no_trouble(scene: Scene) -> None:

    scene.rules = Rules(auto_merge=True)

    async def merge(pull: object, **how: object) -> object:
        raise ForbiddenError(f"no scope to merge workflows {pull!r:.1} {how!r:.1}", status=403)

    scene.forge.merge = merge  # type: ignore[method-assign,assignment]  # one answer differs
    scene.wait_for_pull(check("unit"))
    await scene.later(400)
    assert scene.provider.troubles() == ()
    assert "no scope to merge workflows" in (await scene.stands())["text"]


# --- what must not be lost or told in circles -------------------------------------------------


async def test_a_later_wait_on_the_same_red_head_is_told_again(scene: Scene) -> None:
    scene.forge.by_sha[sha("1")] = (check("unit", "failed"),)
    scene.forge.open()
    over = scene.watch(since=100.0)
    await scene.later(100)
    over()
    scene.watch(since=200.0)
    await scene.later(100)
    assert scene.told.count("pr_checks_failed") == 2


async def test_a_request_for_changes_without_words_wakes_once(scene: Scene) -> None:
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


async def test_nobody_is_woken_by_its_own_words(scene: Scene) -> None:
    scene.rules = Rules(wake_on_comments=True)
    scene.forge.open()
    scene.forge.said[7] = Reviews(remarks=(remark("1", "Done.", own=True),))
    scene.watch()
    await scene.later(500)
    assert scene.told == []


async def test_a_push_that_is_owed_does_not_hide_the_merge(scene: Scene) -> None:
    scene.remote.refusing = "the host is down"
    with pytest.raises(ProviderError):
        await scene.provider.pushed("agent/a", sha("1"))
    scene.forge.open()
    scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("m"))
    scene.watch()
    await scene.later(60)
    assert scene.told == ["pr_merged"]


async def test_a_branch_that_was_removed_there_after_a_merge_is_pushed_anew(scene: Scene) -> None:
    await scene.provider.pushed("agent/a", sha("1"))
    del scene.remote.heads["agent/a"]
    await scene.provider.pushed("agent/a", sha("2"))
    assert scene.remote.heads == {"agent/a": sha("2")}


async def test_an_agent_is_told_once_of_what_somebody_else_pushed(scene: Scene) -> None:
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


async def test_red_checks_of_somebody_elses_head_say_whose_they_are(scene: Scene) -> None:
    await scene.provider.pushed("agent/a", sha("1"))
    scene.remote.heads["agent/a"] = sha("9")
    scene.forge.open(head=sha("9"))
    scene.forge.by_sha[sha("9")] = (check("unit", "failed"),)
    scene.watch()
    await scene.later(100)
    (event,) = scene.events
    assert event.of_others
    assert "Somebody else pushed 999999999999" in event.summary


async def test_a_branch_set_back_to_an_older_head_of_ours_is_pushed_again(scene: Scene) -> None:
    await scene.provider.pushed("agent/a", sha("1"))
    await scene.provider.pushed("agent/a", sha("2"))
    scene.remote.heads["agent/a"] = sha("1")
    scene.forge.open(head=sha("1"))
    scene.watch(sha=sha("2"))
    await scene.later(300)
    assert scene.remote.heads == {"agent/a": sha("2")}


async def test_a_push_owed_since_the_task_was_complete_is_made_before_the_merge(
    scene: Scene,
) -> None:
    scene.remote.refusing = "the host is down"
    with pytest.raises(ProviderError):
        await scene.provider.pushed("agent/a", sha("1"))
    scene.remote.refusing = ""
    scene.rules = Rules(delete_head_branch=False)
    scene.forge.by_sha[sha("1")] = (check("unit"),)
    scene.forge.open()
    assert (await scene.provider.merge(7, expected_sha=sha("1"))).merged
    assert scene.remote.heads["agent/a"] == sha("1")


async def test_a_pull_request_of_a_fork_is_not_ours(scene: Scene) -> None:
    scene.forge.open(9, ours=False)
    assert await scene.provider.pull_request(9) is None


async def test_accepting_what_was_merged_there_lets_the_base_follow(scene: Scene) -> None:
    scene.remote.heads["main"] = sha("9")
    scene.forge.open()
    scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("9"))
    assert (await scene.provider.merge(7, expected_sha=sha("1"))).merged
    assert scene.remote.followed == [("main", sha("9"))]


async def test_a_merge_is_told_after_all_when_git_could_not_be_asked_at_first(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.forge.open()
    scene.forge.change(state=PullRequestState.MERGED, merge_commit=sha("9"))

    async def fetch(branch: str, **_: object) -> str:
        raise UnreachableError(f"{branch} cannot be fetched now", retry_at=None)

    with monkeypatch.context() as down:
        down.setattr(scene.remote, "fetch", fetch)
        scene.watch()
        await scene.later(30)
        assert scene.told == []
    await scene.later(300)
    assert scene.told == ["pr_merged"]


async def test_changes_that_a_named_reviewer_asks_for_stop_every_merge(scene: Scene) -> None:
    scene.rules = Rules(auto_merge=True, checks_grace=0, review_authors=("coderabbit",))
    scene.against = "not now"
    scene.wait_for_pull(check("unit"))
    scene.remote.heads["agent/a"] = sha("1")
    await scene.later(400)
    # Not every forge shows by the pull request that there is a review.
    scene.forge.said[7] = Reviews(changes_wanted_by_others=("coderabbitai[bot]",))
    scene.against = ""
    await scene.later(130)
    assert scene.forge.merged_with == []
    result = await scene.provider.merge(7)
    assert "coderabbitai[bot] asked for changes" in result.reason


async def test_a_branch_is_known_as_ours_for_long_after_its_last_push(scene: Scene) -> None:
    days = 86_400.0
    await scene.provider.pushed("agent/a", sha("1"))
    scene.clock.advance(29 * days)
    await scene.provider.pushed("agent/a", sha("2"))
    scene.clock.advance(29 * days)
    await scene.restart()
    await scene.provider.pushed("agent/a", sha("3"))
    assert scene.remote.heads == {"agent/a": sha("3")}
