"""What a pull request brings beside its fate: reviews, red checks again and again, older heads."""

from __future__ import annotations

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    PrPending,
    State,
    Suspended,
)
from tests.lifecycle.machine.playbook import (
    awaiting,
    backing_off,
    blocked,
    capturing,
    completed,
    play,
    pr_pending,
    preparing,
    spawning,
    stopping,
    suspended,
    verifying,
    working,
)

REVIEW = on.Reviewed(at=20, number=1, text="changes asked for by ada")
BOT = on.Reviewed(at=20, number=1, text="changes asked for by coderabbitai[bot]", by_bots=True)
RED = on.PullRequestMoved(at=20, fate=on.PrFate.CHECKS_FAILED, number=1, text="unit is red")


def red(sha: str, *, asked: bool = False) -> on.PullRequestMoved:
    return on.PullRequestMoved(
        at=20, fate=on.PrFate.CHECKS_FAILED, number=1, sha=sha, text="unit", asked=asked
    )


def test_a_review_wakes_a_fresh_attempt_and_costs_nothing() -> None:
    play(pr_pending()).on(REVIEW).to(BackingOff).says("changes asked for by ada").counts(
        retry_count=0
    )


def test_a_review_of_another_pull_request_changes_nothing() -> None:
    play(pr_pending(number=2)).changes_nothing(REVIEW)


@pytest.mark.parametrize(
    "state",
    [
        preparing(), spawning(), working(), stopping(), capturing(), verifying(), blocked(),
        backing_off(), completed(), awaiting(About.QUESTION),
    ],
)  # fmt: skip
def test_a_review_that_comes_while_nobody_waits_for_it_is_kept_for_the_next_summary(
    state: State,
) -> None:
    play(state).on(REVIEW).to(type(state))


def test_a_review_is_heard_while_the_wait_is_held() -> None:
    play(suspended(pr_pending())).on(REVIEW).to(Suspended)


def test_checks_that_stay_red_wake_so_many_attempts_and_then_wait_for_a_person() -> None:
    (
        play(pr_pending(ci_fixes=1), ci_fix_limit=2)
        .on(RED)
        .to(BackingOff)
        .counts(ci_fixes=2, retry_count=1)
    )
    (
        play(pr_pending(ci_fixes=2), ci_fix_limit=2, blocked_timeout=500)
        .on(RED)
        .to(AwaitingHuman, about=About.CI_LIMIT, url="local://pr/1", number=1, until=520)
        .says("red after 2 attempts to fix what checks or bots found: unit is red")
        .counts(retry_count=0)
    )


def test_attempts_that_bots_wake_count_with_those_for_red_checks_until_a_person_is_needed() -> None:
    woken = play(pr_pending(ci_fixes=1), ci_fix_limit=2).on(BOT).to(BackingOff)
    woken.says("changes asked for by coderabbitai[bot]").counts(ci_fixes=2, retry_count=0)
    (
        play(pr_pending(ci_fixes=2), ci_fix_limit=2, blocked_timeout=500)
        .on(BOT)
        .to(AwaitingHuman, about=About.CI_LIMIT, url="local://pr/1", number=1, until=520)
        .says("after 2 attempts to fix what checks or bots found, changes asked for by coderabbit")
        .counts(ci_fixes=2, retry_count=0)
    )
    play(pr_pending(), ci_fix_limit=0).on(BOT).to(AwaitingHuman, about=About.CI_LIMIT)


def test_a_persons_review_starts_the_count_anew() -> None:
    waits = pr_pending(ci_fixes=2, conflicts=1)
    play(waits, ci_fix_limit=2).on(REVIEW).to(BackingOff).counts(ci_fixes=0, conflicts=0)


@pytest.mark.parametrize("about", [About.CI_LIMIT, About.CONFLICT])
def test_what_a_limit_ended_is_moved_on_by_a_person_and_by_no_bot(about: About) -> None:
    ended = awaiting(about, url="local://pr/1", number=1, tally={"ci_fixes": 2, "conflicts": 2})
    play(ended, ci_fix_limit=3).on(BOT).to(AwaitingHuman, about=about).counts(ci_fixes=2)
    play(ended, ci_fix_limit=3).on(REVIEW).to(BackingOff).counts(ci_fixes=0, conflicts=0)


def test_a_pull_request_nobody_looked_at_in_time_is_moved_on_by_a_bot_below_its_limit() -> None:
    late = awaiting(
        About.PR_TIMEOUT, url="local://pr/1", number=1, tally={"ci_fixes": 2, "conflicts": 2}
    )
    play(late, ci_fix_limit=3).on(BOT).to(BackingOff).counts(ci_fixes=3, conflicts=2)
    play(late, ci_fix_limit=2).on(BOT).to(AwaitingHuman, about=About.PR_TIMEOUT)


def test_what_waits_at_the_limit_still_hears_of_a_merge_and_of_a_review() -> None:
    limit = awaiting(About.CI_LIMIT, url="local://pr/1", number=1)
    merged = on.PullRequestMoved(at=20, fate=on.PrFate.MERGED, number=1, url="local://pr/1")
    play(limit).on(merged).to(BackingOff)
    play(limit).on(REVIEW).to(BackingOff).counts(ci_fixes=0)
    play(limit).changes_nothing(RED)


def test_at_the_limit_a_person_lets_it_try_again() -> None:
    limit = awaiting(About.CI_LIMIT, url="local://pr/1", number=1)
    play(limit).on(on.Unblocked(at=20)).to(BackingOff).counts(ci_fixes=0)
    play(limit).on(on.Answered(at=20, text="use the other lock")).to(BackingOff)
    play(limit).on(on.ResumeRequested(at=20)).to(PrPending, url="local://pr/1").orders(
        do.OpenPullRequest(url="local://pr/1", summary="")
    )


def test_the_limit_nobody_looks_at_still_lets_a_later_merge_count() -> None:
    limit = awaiting(About.CI_LIMIT, url="local://pr/1", number=1, until=50)
    play(limit).on(on.DeadlinePassed(at=50)).to(
        AwaitingHuman, about=About.PR_TIMEOUT, url="local://pr/1", until=None
    )


def test_a_verdict_on_an_older_head_never_counts_before_the_provider_was_asked() -> None:
    play(pr_pending(head="h2")).on(red("h1")).to(PrPending).orders(do.LookAtPullRequest(number=1))
    play(pr_pending(head="h2")).on(red("h2")).to(BackingOff)


def test_a_head_that_somebody_else_pushed_counts_once_the_provider_says_so() -> None:
    play(pr_pending(head="h2")).on(red("h9", asked=True)).to(BackingOff)


def test_a_merge_counts_whatever_head_was_merged() -> None:
    merged = on.PullRequestMoved(at=20, fate=on.PrFate.MERGED, number=1, sha="h9")
    play(pr_pending(head="h2")).on(merged).to(BackingOff)
