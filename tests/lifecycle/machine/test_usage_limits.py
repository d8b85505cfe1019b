"""Transcripts of usage limits: nobody pays, and it goes on when they end."""

from __future__ import annotations

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.rules.endings import settle
from lifecycle.machine.states import (
    AttemptOutcome,
    BackingOff,
    Capturing,
    Reason,
    Rejected,
    Spawning,
    Suspended,
    Tally,
    UnavailableProgram,
    Wanted,
)
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.attempting import (
    CRASHES,
    LIMITED,
    due,
    limited_until,
    started,
    until,
    whole,
)
from tests.lifecycle.machine.playbook import PROCESS, backing_off, ended, play

TAKEN = on.SnapshotTaken(at=10, attempt=1, head="h1", tree="t1")
HOUR, DAY = 3600.0, 86_400.0
LIMIT = "rate_limit: no more for now"


@pytest.mark.parametrize("kind", [Ending.RATE_LIMIT, Ending.QUOTA])
def test_a_limit_is_waited_out_until_the_instant_it_ends_and_a_margin(kind: Ending) -> None:
    transcript = play(ended(kind, "used up", reset_at=500.0), limit_margin=30).on(TAKEN)
    transcript.to(BackingOff, fixed=True, why=f"{kind}: used up")
    transcript.counts(attempt=2, retry_count=0, limits=1, limited_since=10, stuck=0)
    instant = until(transcript)
    assert 530 <= instant <= 560
    transcript.counts(
        resting=(UnavailableProgram(program="", why=f"{kind}: used up", until=instant),)
    )
    transcript.changes_nothing(on.Admitted(at=instant - 0.01)).on(on.Admitted(at=instant))
    transcript.to(Spawning).orders(do.SpawnAgent(attempt=2)).counts(resting=())


def test_those_that_wait_for_the_same_limit_do_not_all_come_back_at_once() -> None:
    instants = {
        until(play(ended(Ending.QUOTA, reset_at=500.0), limit_margin=30, seed=seed).on(TAKEN))
        for seed in range(50)
    }
    assert len(instants) > 40
    assert all(530 <= instant <= 560 for instant in instants)


def test_without_an_end_spans_grow_to_their_cap() -> None:
    transcript, begin = due(limit_interval=300, limit_interval_cap=HOUR), 0.0
    spans = []
    for nth in range(1, 9):
        whole(transcript, LIMITED).to(BackingOff, fixed=True).counts(limits=nth, retry_count=0)
        spans.append(until(transcript) - begin)
        begin = until(transcript)
    assert spans[0] == 300
    assert 450 <= spans[1] <= 750
    assert all(0.6 * HOUR <= span <= HOUR for span in spans[4:])


def test_an_end_that_is_past_is_believed_once() -> None:
    transcript = whole(due(limit_margin=30, limit_interval=300), limited_until(-100))
    assert 30 <= until(transcript) <= 60
    then = until(transcript)
    whole(transcript, limited_until(then - 1))
    assert until(transcript) - then >= 225


def test_an_end_that_is_now_is_waited_for_a_margin_beyond() -> None:
    assert 40 <= until(play(ended(Ending.QUOTA, reset_at=10.0)).on(TAKEN)) <= 70


def test_a_limit_that_lasts_longer_than_anybody_waits_stops_it_at_once() -> None:
    (
        play(ended(Ending.QUOTA, "of the month", reset_at=20 * DAY), limit_patience=8 * DAY)
        .on(TAKEN)
        .to(Rejected, reason=Reason.USAGE_LIMIT)
        .says("quota: of the month; that is longer than limit_patience (8 days) allows")
        .on(on.ResumeRequested(at=20.0, by="ada"))
        .to(BackingOff, until=20)
        .counts(limits=0, limited_since=None, resting=(), retry_count=0)
    )


def test_patience_is_measured_from_the_first_limit_in_a_row() -> None:
    transcript = due(limit_patience=3 * HOUR, limit_interval=HOUR, limit_interval_cap=HOUR)
    count = 0
    while isinstance(transcript.state, BackingOff):
        whole(transcript, LIMITED)
        count += 1
    transcript.to(Rejected, reason=Reason.USAGE_LIMIT)
    assert 4 <= count <= 6


def test_a_limit_within_the_patience_is_waited_for_however_long() -> None:
    transcript = whole(due(limit_patience=8 * DAY), limited_until(7 * DAY)).to(BackingOff)
    assert until(transcript) >= 7 * DAY


def test_no_limit_is_met_too_often_as_long_as_other_endings_lie_between() -> None:
    transcript = due(limit_patience=HOUR)
    for nth in range(5):
        whole(transcript, limited_until(until(transcript) + HOUR / 2)).to(BackingOff)
        whole(transcript, CRASHES, tree=f"tree {nth}").to(BackingOff).counts(limits=0)


# --- people -----------------------------------------------------------------------------------


def test_a_person_cuts_the_wait_short_and_the_limit_is_tried() -> None:
    (
        whole(due(), limited_until(5000.0))
        .on(on.ResumeRequested(at=50, by="ada"))
        .to(BackingOff, until=50, fixed=False)
        .counts(resting=(), limits=0, limited_since=None)
        .on(on.Admitted(at=50))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=3))
    )


def test_a_pause_does_not_move_the_instant_at_which_a_limit_ends() -> None:
    transcript = whole(due(), limited_until(5000.0))
    instant = until(transcript)
    (
        transcript.on(on.PauseRequested(at=100, by="ada"))
        .to(Suspended, since=100)
        .on(on.ResumeRequested(at=2100, by="ada"))
        .to(BackingOff, until=instant)
        .changes_nothing(on.Admitted(at=instant - 1))
    )
    transcript.counts(limits=1)
    assert transcript.state.tally.resting != ()


def test_a_pause_that_outlasts_the_limit_leaves_no_wait() -> None:
    transcript = whole(due(), limited_until(500.0))
    transcript.on(on.PauseRequested(at=100)).on(on.ResumeRequested(at=9000)).to(BackingOff)
    transcript.on(on.Admitted(at=9000)).to(Spawning).orders(do.SpawnAgent(attempt=3))


def test_any_other_wait_has_as_much_time_left_after_a_pause() -> None:
    (
        play(backing_off(until=100))
        .on(on.PauseRequested(at=40))
        .on(on.ResumeRequested(at=1040))
        .to(BackingOff, until=1100)
    )


@pytest.mark.parametrize("wanted", [Wanted.PAUSE, Wanted.HOLD])
def test_a_pause_asked_for_meanwhile_holds_the_wait_for_the_limit(wanted: Wanted) -> None:
    transcript = play(ended(Ending.QUOTA, reset_at=500.0, tally={"wanted": wanted})).on(TAKEN)
    transcript.to(Suspended, since=10).counts(wanted=Wanted.NOTHING, limits=1, retry_count=0)
    assert isinstance(transcript.state, Suspended)
    inner = transcript.state.inner
    assert isinstance(inner, BackingOff)
    assert inner.fixed
    transcript.on(on.ResumeRequested(at=2000)).to(BackingOff, until=inner.until)


def test_a_stop_asked_for_meanwhile_leaves_the_wait_for_the_limit() -> None:
    transcript = play(ended(Ending.QUOTA, reset_at=500.0, tally={"wanted": Wanted.STOP})).on(TAKEN)
    transcript.to(BackingOff, fixed=True).counts(wanted=Wanted.NOTHING)


def test_what_happens_outside_does_not_shorten_a_limit() -> None:
    transcript = whole(due(), limited_until(5000.0))
    instant = until(transcript)
    for event in (
        on.Guided(at=100, by="ada", text="mind the edges"),
        on.Reviewed(at=100, number=1, text="changes asked for"),
        on.CiReported(at=100, type="build_success", green=True),
    ):
        transcript.on(event).still(BackingOff, until=instant)


# --- while it works ---------------------------------------------------------------------------


def test_an_attempt_that_its_program_says_is_limited_is_ended_and_waits_for_the_end_of_it() -> None:
    doomed = on.AttemptDoomed(
        at=60, attempt=2, ended=Ending.RATE_LIMIT, text="no more for now", reset_at=500.0
    )
    transcript = started(due()).on(doomed)
    transcript.orders(do.StopAgent(attempt=2, process=PROCESS))
    transcript.on(on.AgentStopped(at=70, attempt=2)).orders(
        do.TakeSnapshot(spawn_id="a1", attempt=2)
    )
    transcript.on(on.SnapshotTaken(at=71, attempt=2, tree="t1")).to(BackingOff, why=LIMIT)
    assert 530 <= until(transcript) <= 560


def test_an_end_that_is_named_just_ahead_again_and_again_is_believed_once() -> None:
    waits = []
    for before in range(6):
        tally = Tally(attempt=2, limits=before, limited_since=0.0)
        outcome = AttemptOutcome(ended=Ending.RATE_LIMIT, text="soon", reset_at=1_002.0)
        step = settle(Capturing(tally=tally, outcome=outcome), 1_000.0, Policy(), outcome)
        assert isinstance(step.state, BackingOff)
        waits.append(step.state.until - 1_000.0)
    assert waits[0] < 70
    assert waits[1] >= 300
    assert waits[3] > waits[1]
    assert max(waits) <= 3600
