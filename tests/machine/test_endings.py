"""Transcripts of each way an attempt can end: who pays, what is waited for, what stops it."""

from __future__ import annotations

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.endings import TREATMENTS, Then
from lifecycle.machine.states import BackingOff, Ended, Reason, Rejected, Spawning, Wanted
from runtime.agents.outcome import Ending
from tests.machine.attempting import BROKEN, CRASHES, LIMITED, TROUBLED, UNFIT, due, until, whole
from tests.machine.playbook import DONE, ended, play, stopping

TAKEN = on.SnapshotTaken(at=10, attempt=1, head="h1", tree="t1")
RESUME = on.ResumeRequested(at=20, by="ada")


def those(*thens: Then) -> list[Ended]:
    return [kind for kind, treatment in TREATMENTS.items() if treatment.then in thens]


# --- one taxonomy -----------------------------------------------------------------------------


def test_whatever_an_agent_program_can_report_is_an_ending_of_the_machine() -> None:
    reported = {str(each) for each in Ending} - {str(Ending.COMPLETED)}
    ours = {str(Ended.INVALID_BREAKPOINT), str(Ended.INTERRUPTED)}
    assert reported == {str(each) for each in Ended} - ours


def test_every_ending_but_the_breakpoint_has_its_treatment() -> None:
    assert set(TREATMENTS) == set(Ended) - {Ended.BREAKPOINT}


def test_each_class_is_treated_as_documented() -> None:
    assert those(Then.LIMIT) == [Ended.RATE_LIMIT, Ended.QUOTA]
    assert those(Then.TROUBLE) == [Ended.OVERLOADED, Ended.NETWORK]
    assert those(Then.MEND) == [Ended.AUTH, Ended.BILLING, Ended.MODEL]
    assert those(Then.SURROUNDINGS) == [Ended.ENVIRONMENT]
    assert those(Then.STOP) == [Ended.BUDGET]
    assert those(Then.AGAIN) == [Ended.INTERRUPTED]


# --- the agent pays ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", those(Then.RETRY))
def test_what_the_agent_did_costs_it_a_retry_and_waits_the_interval(kind: Ended) -> None:
    (
        play(ended(kind, "as it says"), retry_interval=30)
        .on(TAKEN)
        .to(BackingOff, until=40, fixed=False, why=f"{kind}: as it says")
        .counts(attempt=2, retry_count=1, limits=0, troubles=0, unfit=0, resting=())
    )
    play(ended(kind), max_retries=0).on(TAKEN).to(Rejected, reason=Reason.MAX_RETRIES)


@pytest.mark.parametrize(
    "kind", those(Then.LIMIT, Then.TROUBLE, Then.MEND, Then.SURROUNDINGS, Then.STOP)
)
def test_what_the_agent_did_not_do_costs_it_no_retry(kind: Ended) -> None:
    play(ended(kind), max_retries=0).on(TAKEN).still(type(_after(kind))).counts(
        attempt=2, retry_count=0, stuck=0
    )


def _after(kind: Ended) -> BackingOff | Rejected:
    if TREATMENTS[kind].then in (Then.MEND, Then.STOP):
        return Rejected(reason=Reason.ERROR, text="")
    return BackingOff(until=0, why="")


def test_an_interrupted_attempt_costs_nothing_and_keeps_its_number() -> None:
    play(ended(Ended.INTERRUPTED)).on(TAKEN).to(BackingOff, until=10).counts(
        attempt=1, retry_count=0, interruptions=1
    )


# --- trouble of the provider or the network ---------------------------------------------------


@pytest.mark.parametrize("kind", those(Then.TROUBLE))
def test_trouble_is_tried_again_after_growing_spans(kind: Ended) -> None:
    report = on.Report(ended=kind, detail="no answer")
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


# --- what only a person can mend --------------------------------------------------------------


@pytest.mark.parametrize("kind", those(Then.MEND))
def test_what_only_a_person_can_mend_stops_it_at_once_and_says_what_to_do(kind: Ended) -> None:
    (
        play(ended(kind, "the provider says no", advice="Mend it, then `loopwright resume`."))
        .on(TAKEN)
        .to(Rejected, reason=Reason.ERROR)
        .says(f"{kind}: the provider says no. Mend it, then `loopwright resume`.")
        .on(RESUME)
        .to(BackingOff, until=20)
        .counts(resting=(), retry_count=0)
        .on(on.Admitted(at=20))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2))
    )


def test_advice_stands_also_where_the_program_said_nothing() -> None:
    play(ended(Ended.AUTH, advice="Log in.")).on(TAKEN).to(Rejected, text="auth. Log in.")


# --- the surroundings -------------------------------------------------------------------------


def test_a_program_or_machine_unfit_to_run_it_is_waited_for_so_many_times_in_a_row() -> None:
    transcript = due(max_faults=2, retry_interval=30)
    whole(transcript, UNFIT).to(BackingOff, until=30, fixed=False).counts(unfit=1, faults=0)
    # That the process lived proves nothing: it could not do its work.
    whole(transcript, UNFIT).to(BackingOff).counts(unfit=2, retry_count=0)
    whole(transcript, UNFIT).to(Rejected, reason=Reason.ENVIRONMENT).says(
        "3 times in a row the surroundings failed: environment: no space left"
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
def test_a_streak_is_over_with_any_other_ending(first: on.Report, streak: str) -> None:
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
    play(ended(Ended.INTERRUPTED, tally={streak: 2, "limited_since": 5.0})).on(TAKEN).to(
        BackingOff
    ).counts(**{streak: 2}, limited_since=5.0)


def test_the_span_of_limits_ends_with_their_streak() -> None:
    transcript = whole(due(at=5), LIMITED, at=5).counts(limited_since=5)
    whole(transcript, CRASHES).counts(limited_since=None)


# --- what people wish meanwhile ---------------------------------------------------------------


@pytest.mark.parametrize("kind", [*TREATMENTS])
def test_a_rejection_counts_whatever_the_end(kind: Ended) -> None:
    asked = {"wanted": Wanted.REJECT, "wanted_by": "ada"}
    (
        play(ended(kind, tally=asked), max_troubles=0, max_faults=0, limit_patience=0)
        .on(TAKEN)
        .to(Rejected, reason=Reason.PERSON, text="rejected by ada")
        .orders(do.RemoveWorkspace())
    )


def test_a_person_who_stops_what_is_broken_anyway_interrupts_it_only() -> None:
    (
        play(stopping(Ended.INTERRUPTED))
        .on(on.AgentStopped(at=9, attempt=1, report=BROKEN))
        .orders(do.TakeSnapshot(attempt=1))
        .on(TAKEN)
        .to(BackingOff, until=10)
        .counts(attempt=1)
    )
