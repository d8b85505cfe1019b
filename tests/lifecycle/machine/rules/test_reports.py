"""Transcripts of what decides how an attempt ended: breakpoint, limits, report, exit code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.rules.endings import TREATMENTS, FollowUp
from lifecycle.machine.states import AttemptOutcome, Capturing, Stopping
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.playbook import DONE, PROCESS, play, stopping, working

SNAPSHOT = do.TakeSnapshot(spawn_id="a1", attempt=1)
STOP = do.StopAgent(attempt=1, process=PROCESS)
OWN = [kind for kind, each in TREATMENTS.items() if each.then is FollowUp.RETRY]
OTHERS = [
    kind for kind in TREATMENTS if TREATMENTS[kind].then not in (FollowUp.RETRY, FollowUp.REPEAT)
]


def report(kind: Ending) -> on.AgentReport:
    return on.AgentReport(ended=kind, detail="as it says", advice="do that", reset_at=500.0)


def told(kind: Ending, **more: Any) -> AttemptOutcome:
    return AttemptOutcome(ended=kind, text="as it says", advice="do that", reset_at=500.0, **more)


def outcome(event: on.AgentExited) -> AttemptOutcome:
    transcript = play(working()).on(event).to(Capturing).orders(SNAPSHOT)
    assert isinstance(transcript.state, Capturing)
    return transcript.state.outcome


# --- an agent that ended by itself ------------------------------------------------------------


@pytest.mark.parametrize("kind", [*OWN, *OTHERS])
def test_what_the_program_reports_comes_before_its_exit_code(kind: Ending) -> None:
    event = on.AgentExited(at=9, attempt=1, signal=15, report=report(kind))
    assert outcome(event) == told(kind, signal=15)
    event = on.AgentExited(at=9, attempt=1, exit_code=3, report=report(kind))
    assert outcome(event).ended is kind


def test_a_failure_that_nothing_explains_names_its_exit_code() -> None:
    event = on.AgentExited(at=9, attempt=1, exit_code=3, report=report(Ending.ERROR))
    assert outcome(event).text == "exit code 3: as it says"
    named = on.AgentReport(ended=Ending.ERROR, detail="it ended with exit code 3")
    assert outcome(replace(event, report=named)).text == "it ended with exit code 3"
    assert outcome(replace(event, report=on.AgentReport(ended=Ending.ERROR))).text == "exit code 3"
    crash = on.AgentExited(at=9, attempt=1, exit_code=3, report=report(Ending.CRASH))
    assert outcome(crash).text == "as it says"


@pytest.mark.parametrize("kind", [*OWN, *OTHERS])
def test_a_breakpoint_comes_before_every_report(kind: Ending) -> None:
    event = on.AgentExited(
        at=9, attempt=1, exit_code=1, word=DONE, limit="memory limit", report=report(kind)
    )
    assert outcome(event) == AttemptOutcome(ended=Ending.BREAKPOINT, word=DONE, exit_code=1)


@pytest.mark.parametrize("kind", [*OWN, *OTHERS])
def test_a_limit_of_the_machine_comes_before_every_report(kind: Ending) -> None:
    event = on.AgentExited(at=9, attempt=1, signal=9, limit="memory limit", report=report(kind))
    assert outcome(event) == AttemptOutcome(ended=Ending.LIMIT, text="memory limit", signal=9)


@pytest.mark.parametrize("kind", OWN)
def test_an_unreadable_signal_is_the_agents_own_fault_whatever_else_was(kind: Ending) -> None:
    event = on.AgentExited(at=9, attempt=1, exit_code=0, problem="torn", report=report(kind))
    assert outcome(event) == AttemptOutcome(
        ended=Ending.INVALID_BREAKPOINT, text="torn", exit_code=0
    )


@pytest.mark.parametrize("kind", OTHERS)
def test_who_was_cut_off_by_others_pays_not_for_a_signal_half_written(kind: Ending) -> None:
    event = on.AgentExited(at=9, attempt=1, exit_code=1, problem="torn", report=report(kind))
    assert outcome(event) == told(kind, exit_code=1)


def test_a_good_end_without_a_signal_is_said_in_words() -> None:
    quiet = on.AgentReport(ended=Ending.NO_BREAKPOINT)
    event = on.AgentExited(at=9, attempt=1, exit_code=0, report=quiet)
    assert outcome(event).text == "ended without a breakpoint"


# --- one that was ended -----------------------------------------------------------------------


@pytest.mark.parametrize("time", [Ending.HANG, Ending.TIMEOUT])
@pytest.mark.parametrize("kind", [*OTHERS, Ending.DENIED, Ending.CONTEXT_OVERFLOW, Ending.WAITING])
def test_a_hang_gives_way_to_what_the_program_named(time: Ending, kind: Ending) -> None:
    (
        play(stopping(time))
        .on(on.AgentStopped(at=10, attempt=1, signal=15, report=report(kind)))
        .to(Capturing, outcome=told(kind, signal=15))
        .orders(SNAPSHOT)
    )


def test_what_is_named_without_a_word_keeps_the_words_of_the_limit() -> None:
    quiet = on.AgentReport(ended=Ending.NETWORK)
    (
        play(working())
        .on(on.LimitReached(at=9, attempt=1, idle=True, text="no output for 1800 s"))
        .orders(STOP)
        .on(on.AgentStopped(at=10, attempt=1, report=quiet))
        .to(Capturing, outcome=AttemptOutcome(ended=Ending.NETWORK, text="no output for 1800 s"))
        .orders(SNAPSHOT)
    )


@pytest.mark.parametrize("time", [Ending.HANG, Ending.TIMEOUT])
@pytest.mark.parametrize(
    "kind", [Ending.KILLED, Ending.CRASH, Ending.ERROR, Ending.HANG, Ending.TIMEOUT]
)
def test_that_it_was_ended_by_us_says_no_more_than_why(time: Ending, kind: Ending) -> None:
    (
        play(stopping(time))
        .on(on.AgentStopped(at=10, attempt=1, signal=15, report=report(kind)))
        .to(Capturing, outcome=AttemptOutcome(ended=time, text=str(time), signal=15))
        .orders(SNAPSHOT)
    )


@pytest.mark.parametrize(
    "ours", [Ending.INTERRUPTED, Ending.BUDGET, Ending.LOOP, Ending.RATE_LIMIT]
)
def test_any_other_reason_of_ours_stands(ours: Ending) -> None:
    (
        play(stopping(ours))
        .on(on.AgentStopped(at=10, attempt=1, report=report(Ending.NETWORK)))
        .to(Capturing, outcome=AttemptOutcome(ended=ours, text=str(ours)))
        .orders(SNAPSHOT)
    )


def test_a_breakpoint_comes_before_the_hang_and_before_what_was_named() -> None:
    named = on.AgentStopped(at=10, attempt=1, word=DONE, report=report(Ending.NETWORK))
    transcript = play(stopping(Ending.HANG)).on(named).to(Capturing).orders(SNAPSHOT)
    assert isinstance(transcript.state, Capturing)
    assert transcript.state.outcome.ended is Ending.BREAKPOINT
    assert transcript.state.outcome.word == DONE


@pytest.mark.parametrize("kind", [Ending.LOOP, Ending.RATE_LIMIT, Ending.AUTH, Ending.BUDGET])
def test_an_attempt_that_leads_nowhere_is_ended_at_once(kind: Ending) -> None:
    (
        play(working())
        .on(
            on.AttemptDoomed(
                at=9, attempt=1, ended=kind, text="as it says", reset_at=500.0, advice="do that"
            )
        )
        .to(Stopping, outcome=told(kind))
        .orders(STOP)
        .on(on.AgentStopped(at=10, attempt=1, exit_code=143))
        .to(Capturing, outcome=told(kind, exit_code=143))
        .orders(SNAPSHOT)
    )


def test_a_doom_that_comes_late_changes_nothing() -> None:
    late = on.AttemptDoomed(at=9, attempt=1, ended=Ending.LOOP, text="too much")
    play(stopping()).changes_nothing(late)
    play(working(attempt=2)).changes_nothing(late)


@pytest.mark.parametrize("kind", [Ending.RATE_LIMIT, Ending.CRASH])
def test_a_runner_that_lost_sight_interrupted_it_whatever_the_program_reports(
    kind: Ending,
) -> None:
    lost = on.RunnerRestarted(at=9, attempt=1, report=report(kind))
    transcript = play(working()).on(lost).to(Capturing).orders(SNAPSHOT)
    assert isinstance(transcript.state, Capturing)
    assert transcript.state.outcome.ended is Ending.INTERRUPTED
