"""Transcripts of the wait for a merge."""

from __future__ import annotations

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    PrPending,
    Reason,
    Rejected,
)
from tests.lifecycle.machine.playbook import awaiting, play, pr_pending


def met(fate: on.PrFate, number: int = 1, url: str = "", text: str = "") -> on.PullRequestMoved:
    return on.PullRequestMoved(at=20, fate=fate, number=number, url=url, text=text)


def test_a_known_pull_request_is_asked_about_at_once() -> None:
    (
        play(pr_pending(number=None, url=""))
        .on(on.PullRequestOpened(at=20, number=7, url="local://pr/7"))
        .to(PrPending, number=7, url="local://pr/7")
        .orders(do.LookAtPullRequest(number=7))
    )


def test_a_pull_request_that_is_known_is_not_noted_twice() -> None:
    known = on.PullRequestOpened(at=20, number=7, url="local://pr/7")
    play(pr_pending(number=7, url="local://pr/7")).changes_nothing(known)


def test_a_merge_wakes_it_and_costs_nothing() -> None:
    (
        play(pr_pending())
        .on(met(on.PrFate.MERGED))
        .to(BackingOff, until=20)
        .says("pull request 1 was merged")
        .counts(retry_count=0)
    )


@pytest.mark.parametrize("fate", [on.PrFate.CLOSED, on.PrFate.CHECKS_FAILED])
def test_every_other_fate_wakes_it_and_costs_a_retry(fate: on.PrFate) -> None:
    (
        play(pr_pending(), retry_interval=30)
        .on(met(fate))
        .to(BackingOff, until=50)
        .says(f"pr_{fate}: pull request 1: {fate}")
        .counts(retry_count=1)
    )
    play(pr_pending()).on(met(fate, text="2 red checks")).to(BackingOff).says("2 red checks")


def test_the_fate_of_a_pull_request_may_use_up_the_last_retry() -> None:
    (
        play(pr_pending(retry_count=3), max_retries=3)
        .on(met(on.PrFate.CLOSED))
        .to(Rejected, reason=Reason.MAX_RETRIES)
    )


def test_the_fate_of_another_pull_request_changes_nothing() -> None:
    play(pr_pending(number=2)).changes_nothing(met(on.PrFate.MERGED, number=1))
    unopened = pr_pending(number=None, url="local://pr/2")
    play(unopened).changes_nothing(met(on.PrFate.MERGED, number=1, url="local://pr/1"))


def test_a_fate_told_before_the_number_is_known_counts() -> None:
    play(pr_pending(number=None)).on(met(on.PrFate.MERGED, url="local://pr/1")).to(BackingOff)
    play(pr_pending(number=None, url="")).on(met(on.PrFate.MERGED, url="local://pr/1")).to(
        BackingOff
    )


def test_a_pull_request_that_does_not_exist_costs_a_retry() -> None:
    nowhere = on.PullRequestUnknown(at=20, text="no pull request 9", fault=on.Fault.USER)
    play(pr_pending()).on(nowhere).to(BackingOff).says("pr_unknown: no pull request 9").counts(
        retry_count=1
    )
    play(pr_pending(), max_retries=0).on(nowhere).to(Rejected, reason=Reason.MAX_RETRIES)


def test_a_provider_that_does_not_answer_is_waited_for_and_its_answer_kept() -> None:
    silent = on.PullRequestUnknown(at=20, text="no route", fault=on.Fault.ENVIRONMENT)
    opened = on.PullRequestOpened(at=30, number=1, url="local://pr/1")
    (
        play(pr_pending(number=None))
        .on(silent)
        .to(PrPending, problem="no route")
        .counts(retry_count=0, faults=0)
        .on(silent)
        .to(PrPending, problem="no route")
        .on(opened)
        .to(PrPending, problem="", number=1)
        .orders(do.LookAtPullRequest(number=1))
    )


def test_a_problem_that_only_counts_down_changes_nothing() -> None:
    def refused(seconds: int) -> on.PullRequestUnknown:
        text = f"forge.test is not asked for another {seconds} s"
        return on.PullRequestUnknown(at=20, text=text, fault=on.Fault.ENVIRONMENT)

    first = "forge.test is not asked for another 30 s"
    (
        play(pr_pending(number=None))
        .on(refused(30))
        .to(PrPending, problem=first)
        .on(refused(12))
        .to(PrPending, problem=first)
    )


def test_a_person_is_reminded_of_a_pull_request_again_and_again_if_that_is_wanted() -> None:
    (
        play(pr_pending(), pr_reminder=50)
        .changes_nothing(on.DeadlinePassed(at=99))
        .on(on.DeadlinePassed(at=100))
        .to(PrPending, until=150, reminded=1)
        .on(on.DeadlinePassed(at=160))
        .to(PrPending, until=210, reminded=2)
        .on(met(on.PrFate.MERGED))
        .to(BackingOff)
    )


def test_a_merge_that_does_not_come_is_given_up_to_a_person() -> None:
    (
        play(pr_pending())
        .changes_nothing(on.DeadlinePassed(at=99))
        .on(on.DeadlinePassed(at=100))
        .to(AwaitingHuman, about=About.PR_TIMEOUT, url="local://pr/1", until=None)
        .says("neither merged nor closed in time")
    )


def test_a_fate_that_comes_after_the_time_out_still_counts() -> None:
    timed_out = awaiting(About.PR_TIMEOUT, url="local://pr/1")
    play(timed_out).on(met(on.PrFate.MERGED, url="local://pr/1")).to(BackingOff)
    play(timed_out).on(met(on.PrFate.CLOSED)).to(BackingOff).counts(retry_count=1)
    play(timed_out, max_retries=0).on(met(on.PrFate.CLOSED)).to(Rejected)
    play(awaiting(About.PR_TIMEOUT)).on(met(on.PrFate.MERGED, url="local://pr/1")).to(BackingOff)


def test_after_the_time_out_only_its_own_pull_request_counts() -> None:
    timed_out = awaiting(About.PR_TIMEOUT, url="local://pr/2")
    play(timed_out).changes_nothing(met(on.PrFate.MERGED, url="local://pr/1"))
    play(awaiting(About.QUESTION)).changes_nothing(met(on.PrFate.MERGED))
