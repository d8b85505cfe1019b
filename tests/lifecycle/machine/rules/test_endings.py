"""Transcripts of each way an attempt can end: who pays, what is waited for, what stops it."""

from __future__ import annotations

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.rules.endings import TREATMENTS, FollowUp
from lifecycle.machine.states import BackingOff, Reason, Rejected, Spawning, Wanted
from lifecycle.machine.table import IllegalTransition, decide
from lifecycle.machine.tally import Tally
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.attempting import (
    BROKEN,
    CRASHES,
    LIMITED,
    TROUBLED,
    UNFIT,
    due,
    until,
    whole,
)
from tests.lifecycle.machine.playbook import DONE, ended, play, stopping

TAKEN = on.SnapshotTaken(at=10, attempt=1, head="h1", tree="t1")
RESUME = on.ResumeRequested(at=20, by="ada")


def those(*thens: FollowUp) -> list[Ending]:
    return [kind for kind, treatment in TREATMENTS.items() if treatment.then in thens]


# --- one taxonomy -----------------------------------------------------------------------------


def test_every_ending_but_the_breakpoint_has_its_treatment() -> None:
    assert set(TREATMENTS) == set(Ending) - {Ending.BREAKPOINT, Ending.COMPLETED}


def test_each_class_is_treated_as_documented() -> None:
    assert those(FollowUp.LIMIT) == [Ending.RATE_LIMIT, Ending.QUOTA]
    assert those(FollowUp.TROUBLE) == [Ending.OVERLOADED, Ending.NETWORK]
    assert those(FollowUp.NEEDS_USER) == [Ending.AUTH, Ending.BILLING, Ending.MODEL]
    assert those(FollowUp.ENVIRONMENT) == [Ending.ENVIRONMENT]
    assert those(FollowUp.STOP) == [Ending.BUDGET]
    assert those(FollowUp.REPEAT) == [Ending.INTERRUPTED]


# --- the agent pays ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", those(FollowUp.RETRY))
def test_what_the_agent_did_costs_it_a_retry_and_waits_the_interval(kind: Ending) -> None:
    (
        play(ended(kind, "as it says"), retry_interval=30)
        .on(TAKEN)
        .to(BackingOff, until=40, fixed=False, why=f"{kind}: as it says")
        .counts(attempt=2, spawn_count=1, retry_count=1, limits=0, troubles=0, unfit=0)
        .counts(resting=(), stuck=1, tree="t1")
    )
    play(ended(kind), max_retries=0).on(TAKEN).to(Rejected, reason=Reason.MAX_RETRIES)


@pytest.mark.parametrize(
    "kind",
    those(
        FollowUp.LIMIT, FollowUp.TROUBLE, FollowUp.NEEDS_USER, FollowUp.ENVIRONMENT, FollowUp.STOP
    ),
)
def test_what_the_agent_did_not_do_costs_it_no_retry(kind: Ending) -> None:
    play(ended(kind), max_retries=0).on(TAKEN).still(type(_after(kind))).counts(
        attempt=2, retry_count=0, stuck=0
    )


def _after(kind: Ending) -> BackingOff | Rejected:
    if TREATMENTS[kind].then in (FollowUp.NEEDS_USER, FollowUp.STOP):
        return Rejected(reason=Reason.ERROR, text="")
    return BackingOff(until=0, why="")


# --- trouble of the provider or the network ---------------------------------------------------


@pytest.mark.parametrize("kind", those(FollowUp.TROUBLE))
def test_trouble_is_tried_again_after_growing_spans(kind: Ending) -> None:
    report = on.AgentReport(ended=kind, detail="no answer")
    transcript = due(trouble_interval=30, trouble_interval_cap=100, max_troubles=99)
    spans: list[float] = []
    for nth in range(1, 9):
        whole(transcript, report).to(BackingOff, fixed=True).counts(troubles=nth, retry_count=0)
        start = until(transcript)
        spans.append(start - sum(spans))
    assert spans[0] == 30
    assert 45 <= spans[1] <= 75
    assert all(60 <= span <= 100 for span in spans[2:])


def test_trouble_without_end_stops_it() -> None:
    transcript = due(max_troubles=2)
    whole(transcript, TROUBLED).to(BackingOff)
    whole(transcript, TROUBLED).to(BackingOff)
    whole(transcript, TROUBLED).to(Rejected, reason=Reason.ENVIRONMENT).says(
        "3 times in a row: overloaded: 529"
    )
    transcript.on(on.ResumeRequested(at=9999, by="ada")).to(BackingOff, until=9999).counts(
        troubles=0, resting=()
    )


def test_trouble_may_be_cut_short_by_a_person() -> None:
    transcript = whole(due(), TROUBLED).to(BackingOff, until=30)
    transcript.on(on.ResumeRequested(at=7, by="ada")).to(BackingOff, until=7, fixed=False)
    transcript.counts(troubles=0, resting=()).on(on.Admitted(at=7)).to(Spawning)
    transcript.orders(do.SpawnAgent(attempt=3))


# --- what only a person can fix ---------------------------------------------------------------


@pytest.mark.parametrize("kind", those(FollowUp.NEEDS_USER))
def test_what_only_a_person_can_fix_stops_it_at_once_and_says_what_to_do(kind: Ending) -> None:
    (
        play(ended(kind, "the provider says no", advice="Fix it, then `loopwright resume`."))
        .on(TAKEN)
        .to(Rejected, reason=Reason.ERROR)
        .says(f"{kind}: the provider says no. Fix it, then `loopwright resume`.")
        .on(RESUME)
        .to(BackingOff, until=20)
        .counts(resting=(), retry_count=0)
        .on(on.Admitted(at=20))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2))
    )


def test_advice_stands_also_where_the_program_said_nothing() -> None:
    play(ended(Ending.AUTH, advice="Log in.")).on(TAKEN).to(Rejected, text="auth. Log in.")


# --- the surroundings -------------------------------------------------------------------------


def test_a_program_or_machine_unfit_to_run_it_is_waited_for_so_many_times_in_a_row() -> None:
    transcript = due(max_faults=2, retry_interval=30)
    whole(transcript, UNFIT).to(BackingOff, until=30, fixed=False).counts(unfit=1, faults=0)
    # That the process lived proves nothing: it could not do its work.
    whole(transcript, UNFIT).to(BackingOff).counts(unfit=2, retry_count=0)
    whole(transcript, UNFIT).to(Rejected, reason=Reason.ENVIRONMENT).says(
        "3 times in a row the environment failed: environment: no space left"
    )
    transcript.on(on.ResumeRequested(at=9999)).to(BackingOff).counts(unfit=0)


def test_unfit_surroundings_are_waited_for_longer_each_time() -> None:
    transcript = due(retry_interval=10)
    whole(transcript, UNFIT)
    first = until(transcript)
    whole(transcript, UNFIT)
    assert first == 10
    assert 15 <= until(transcript) - first <= 25


# --- streaks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "streak"),
    [(LIMITED, "limits"), (TROUBLED, "troubles"), (UNFIT, "unfit")],
)
def test_a_streak_is_over_with_any_other_ending(first: on.AgentReport, streak: str) -> None:
    others = [each for each in (LIMITED, TROUBLED, UNFIT, CRASHES) if each is not first]
    for other in others:
        transcript = due()
        whole(whole(transcript, first), first).counts(**{streak: 2})
        whole(transcript, other).counts(**{streak: 0})
    transcript = due()
    whole(whole(transcript, first), DONE).orders(do.PublishBranch(head="h1"))
    transcript.counts(**{streak: 0})


@pytest.mark.parametrize("streak", ["limits", "troubles", "unfit"])
def test_an_interrupted_attempt_continues_every_streak(streak: str) -> None:
    play(ended(Ending.INTERRUPTED, tally={streak: 2, "limited_since": 5.0})).on(TAKEN).to(
        BackingOff
    ).counts(**{streak: 2}, limited_since=5.0)


def test_the_span_of_limits_ends_with_their_streak() -> None:
    transcript = whole(due(at=5), LIMITED, at=5).counts(limited_since=5)
    whole(transcript, CRASHES).counts(limited_since=None)


# --- what people wish meanwhile ---------------------------------------------------------------


@pytest.mark.parametrize("kind", [*TREATMENTS])
def test_a_rejection_counts_whatever_the_end(kind: Ending) -> None:
    asked = {"wanted": Wanted.REJECT, "wanted_by": "ada"}
    (
        play(ended(kind, tally=asked), max_troubles=0, max_faults=0, limit_patience=0)
        .on(TAKEN)
        .to(Rejected, reason=Reason.PERSON, text="rejected by ada")
        .orders(do.RemoveWorkspace())
    )


def test_a_person_who_stops_what_is_broken_anyway_interrupts_it_only() -> None:
    (
        play(stopping(Ending.INTERRUPTED))
        .on(on.AgentStopped(at=9, attempt=1, report=BROKEN))
        .orders(do.TakeSnapshot(spawn_id="a1", attempt=1))
        .on(TAKEN)
        .to(BackingOff, until=10)
        .counts(attempt=1)
    )


# --- back into the queue ----------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, 5])
def test_what_goes_back_into_the_queue_has_all_its_retries_again(most: int) -> None:
    again = on.ResumeRequested(at=30, by="policy of coder", anew=True)
    tally = Tally(retry_count=most, attempt=most + 2, spawn_count=most + 1)
    given_up = Rejected(tally=tally, reason=Reason.MAX_RETRIES, text="no retry left")
    (
        play(given_up, max_retries=most)
        .on(again)
        .to(BackingOff, until=30)
        .says("taken up again by policy of coder")
        .counts(retry_count=0, requeues=1, attempt=most + 2)
    )


@pytest.mark.parametrize("reason", [Reason.PERSON, Reason.BUDGET])
def test_what_a_person_rejected_or_a_budget_ended_does_not_go_back_into_the_queue(
    reason: Reason,
) -> None:
    again = on.ResumeRequested(at=30, by="policy of coder", anew=True)
    with pytest.raises(IllegalTransition):
        decide(Rejected(reason=reason, text="over"), again, Policy())
