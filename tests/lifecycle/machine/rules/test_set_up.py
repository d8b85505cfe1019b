"""Transcripts of a set-up that needs more than its agent has: a person decides."""

from __future__ import annotations

from lifecycle.json_form import decode, encode
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Completed,
    Rejected,
    Spawning,
    State,
    Verifying,
)
from tests.lifecycle.machine.asking import GUIDE, REJECT, RESUME, UNBLOCK
from tests.lifecycle.machine.playbook import Play, play, verifying

ASKS = on.GatesFinished(at=12, attempt=1, gates=(), asks="no network for `npm ci`")
GATES = do.RunGates(attempt=1, head="h1")
ADMITTED = on.Admitted(at=40)


def asked() -> Play:
    transcript = play(verifying()).on(ASKS).to(AwaitingHuman, about=About.SETUP, head="h1")
    return transcript.orders().says("no network").counts(attempt=1, retry_count=0)


def test_a_set_up_that_a_person_lets_through_is_judged_without_a_new_attempt() -> None:
    (
        asked()
        .on(UNBLOCK)
        .to(BackingOff, until=20)
        .says("unblocked by ada")
        .on(ADMITTED)
        .to(Verifying, head="h1", setup_approved=True)
        .orders(GATES)
        .counts(attempt=1, spawn_count=1)
        .on(on.GatesFinished(at=50, attempt=1, gates=()))
        .to(Completed)
        .orders(do.PublishBranch(head="h1"))
    )


def test_what_was_asked_survives_a_restart() -> None:
    waiting = asked().state
    assert decode(State, encode(waiting)) == waiting
    let_through = play(waiting).on(UNBLOCK).to(BackingOff).state
    assert decode(State, encode(let_through)) == let_through


def test_resume_runs_the_set_up_again_with_what_the_settings_give_now() -> None:
    (
        asked()
        .on(RESUME)
        .to(BackingOff)
        .on(ADMITTED)
        .to(Verifying, setup_approved=False)
        .orders(GATES)
    )  # fmt: skip


def test_a_used_up_budget_does_not_keep_finished_work_from_its_gates() -> None:
    over = on.Admitted(at=40, over="budget of the day: 3 of 3 attempts used")
    asked().on(UNBLOCK).to(BackingOff).on(over).to(Verifying).orders(GATES)


def test_guidance_sends_the_work_back_to_a_fresh_attempt() -> None:
    (
        asked()
        .on(GUIDE)
        .to(BackingOff, verify=None)
        .on(ADMITTED)
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2))
    )


def test_a_person_may_reject_it() -> None:
    asked().on(REJECT).to(Rejected).orders(do.RemoveWorkspace())


def test_no_runner_stays_for_ever_for_an_answer_that_still_counts() -> None:
    deadline = on.DeadlinePassed(at=12 + 86_400)
    (
        asked()
        .changes_nothing(on.DeadlinePassed(at=20))
        .on(deadline)
        .to(AwaitingHuman, about=About.SETUP, until=None)
        .on(UNBLOCK)
        .to(BackingOff)
    )
