"""Transcripts of gates that fail alike, whatever is committed in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Completed,
    Gate,
    Reason,
    Rejected,
    Signal,
    Verifying,
)
from tests.lifecycle.machine.attempting import CRASHES, due, until, whole

if TYPE_CHECKING:
    from tests.lifecycle.machine.playbook import Play

DONE = Signal(type="task_complete", summary="done")
RED = (Gate(command="make test", ok=False, code=2),)
GREEN = (Gate(command="make test", ok=True, code=0),)
DAY = 86_400.0


def committed(transcript: Play, *, digest: str = "d1", gates: tuple[Gate, ...] = RED) -> Play:
    """Let an attempt change the tree, say that it is done, and be judged."""
    attempt, began = transcript.state.tally.attempt, until(transcript)
    whole(transcript, DONE, tree=f"t{attempt}").to(Verifying)
    transcript.orders(do.RunGates(attempt=attempt, head="h1"))
    lines = "test_a failed: 1 != 2"
    return transcript.on(
        on.GatesFinished(at=began, attempt=attempt, gates=gates, digest=digest, lines=lines)
    )


def test_the_same_failure_with_commits_in_between_asks_a_person_with_the_evidence() -> None:
    transcript = due(same_gate_limit=3, has_gates=True, retry_interval=0)
    for nth in (1, 2):
        committed(transcript).to(BackingOff).counts(same_gates=nth, stuck=0)
    committed(transcript).to(AwaitingHuman, about=About.NO_PROGRESS).counts(same_gates=3, trips=1)
    transcript.says("failed in the same way 3 times in a row, whatever was committed")
    transcript.says("`make test` ended with code 2: test_a failed: 1 != 2")


def test_another_failure_restarts_the_count() -> None:
    transcript = due(same_gate_limit=3, has_gates=True, retry_interval=0)
    for digest in ("d1", "d1", "d2", "d2"):
        committed(transcript, digest=digest).to(BackingOff)
    committed(transcript, digest="d2").to(AwaitingHuman, about=About.NO_PROGRESS)


def test_a_crash_in_between_does_not_hide_that_the_gates_fail_alike() -> None:
    transcript = due(same_gate_limit=2, has_gates=True, retry_interval=0)
    committed(transcript).to(BackingOff)
    whole(transcript, CRASHES, tree="other").to(BackingOff).counts(same_gates=1)
    committed(transcript).to(AwaitingHuman, about=About.NO_PROGRESS)


def test_green_gates_end_the_row() -> None:
    transcript = due(same_gate_limit=2, has_gates=True, retry_interval=0)
    committed(transcript).to(BackingOff)
    committed(transcript, gates=GREEN, digest="").to(Completed).counts(same_gates=0)
    transcript.orders(do.PublishBranch(head="h1"))
    transcript.on(on.Guided(at=50, by="ada", text="more")).to(BackingOff)
    committed(transcript).to(BackingOff).counts(same_gates=1)


def test_without_the_limit_only_the_retries_end_it() -> None:
    transcript = due(same_gate_limit=0, max_retries=4, has_gates=True, retry_interval=0)
    for nth in range(1, 5):
        committed(transcript).to(BackingOff).counts(retry_count=nth)
    committed(transcript).to(Rejected, reason=Reason.MAX_RETRIES).counts(retry_count=4)
    transcript.says("4 of 4 retries used")


def test_a_failure_as_before_any_work_is_told_as_such() -> None:
    transcript = due(same_gate_limit=1, has_gates=True, retry_interval=0)
    whole(transcript, DONE, tree="t9").to(Verifying).orders(do.RunGates(attempt=2, head="h1"))
    red = on.GatesFinished(at=5, attempt=2, gates=RED, digest="d1", as_before=True)
    transcript.on(red).to(AwaitingHuman).says("ended with code 2, as before any work")


def test_guidance_has_it_try_once_and_the_same_failure_asks_again() -> None:
    transcript = due(same_gate_limit=2, has_gates=True, retry_interval=0)
    committed(committed(transcript)).to(AwaitingHuman)
    transcript.on(on.Guided(at=9, by="ada", text="look at b")).to(BackingOff)
    committed(transcript).to(AwaitingHuman, about=About.NO_PROGRESS).counts(same_gates=2)
    transcript.on(on.Guided(at=19, by="ada", text="look at c")).to(BackingOff)
    committed(transcript, digest="d2").to(BackingOff).counts(same_gates=1, trips=0)


@pytest.mark.parametrize("commits", [True, False])
def test_tries_without_a_person_end_with_blocked_timeout_however_the_pauses_grow(
    *, commits: bool
) -> None:
    transcript = due(
        same_gate_limit=2, stuck_limit=2, has_gates=True, retry_interval=0, max_retries=1000,
        blocked_timeout=DAY, breaker_cooldown=3600,
    )  # fmt: skip

    def fails() -> Play:
        return committed(transcript) if commits else whole(transcript, CRASHES)

    fails()
    fails()
    opened = transcript.state
    assert isinstance(opened, AwaitingHuman)
    tries = 0
    while isinstance(transcript.state, AwaitingHuman):
        wait = transcript.state
        assert wait.until is not None
        assert wait.until <= opened.since + DAY
        transcript.on(on.DeadlinePassed(at=wait.until))
        if isinstance(transcript.state, BackingOff):
            tries += 1
            fails().to(AwaitingHuman, about=About.NO_PROGRESS)
        else:
            break
    transcript.to(AwaitingHuman, about=About.NO_PROGRESS, until=None)
    assert 3 <= tries <= 5, "1 h, 2 h, 4 h, 8 h and what is left of a day"
    transcript.on(on.Guided(at=200_000, by="ada", text="look")).to(BackingOff)
    fails().to(AwaitingHuman, about=About.NO_PROGRESS).counts(open_since=200_000)
