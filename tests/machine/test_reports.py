"""Transcripts of what decides how an attempt ended: breakpoint, limits, report, exit code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.endings import TREATMENTS, Then
from lifecycle.machine.states import Capturing, Ended, Outcome, Stopping
from tests.machine.playbook import DONE, PROCESS, play, stopping, working

SNAPSHOT = do.TakeSnapshot(attempt=1)
STOP = do.StopAgent(attempt=1, process=PROCESS)
OWN = [kind for kind, each in TREATMENTS.items() if each.then is Then.RETRY]
OTHERS = [kind for kind in TREATMENTS if TREATMENTS[kind].then not in (Then.RETRY, Then.AGAIN)]


def report(kind: Ended) -> on.Report:
    return on.Report(ended=kind, detail="as it says", advice="do that", reset_at=500.0)


def told(kind: Ended, **more: Any) -> Outcome:
    return Outcome(ended=kind, text="as it says", advice="do that", reset_at=500.0, **more)


def outcome(event: on.AgentExited) -> Outcome:
    transcript = play(working()).on(event).to(Capturing).orders(SNAPSHOT)
    assert isinstance(transcript.state, Capturing)
    return transcript.state.outcome


# --- an agent that ended by itself ------------------------------------------------------------


@pytest.mark.parametrize("kind", [*OWN, *OTHERS])
def test_what_the_program_reports_comes_before_its_exit_code(kind: Ended) -> None:
    event = on.AgentExited(at=9, attempt=1, signal=15, report=report(kind))
    assert outcome(event) == told(kind, signal=15)
    event = on.AgentExited(at=9, attempt=1, exit_code=3, report=report(kind))
    assert outcome(event).ended is kind


def test_a_failure_that_nothing_explains_names_its_exit_code() -> None:
    event = on.AgentExited(at=9, attempt=1, exit_code=3, report=report(Ended.ERROR))
    assert outcome(event).text == "exit code 3: as it says"
    named = on.Report(ended=Ended.ERROR, detail="it ended with exit code 3")
    assert outcome(replace(event, report=named)).text == "it ended with exit code 3"
    assert outcome(replace(event, report=on.Report(ended=Ended.ERROR))).text == "exit code 3"
    crash = on.AgentExited(at=9, attempt=1, exit_code=3, report=report(Ended.CRASH))
    assert outcome(crash).text == "as it says"


@pytest.mark.parametrize("kind", [*OWN, *OTHERS])
def test_a_breakpoint_comes_before_every_report(kind: Ended) -> None:
    event = on.AgentExited(
        at=9, attempt=1, exit_code=1, word=DONE, limit="memory limit", report=report(kind)
    )
    assert outcome(event) == Outcome(ended=Ended.BREAKPOINT, word=DONE, exit_code=1)


@pytest.mark.parametrize("kind", [*OWN, *OTHERS])
def test_a_limit_of_the_machine_comes_before_every_report(kind: Ended) -> None:
    event = on.AgentExited(at=9, attempt=1, signal=9, limit="memory limit", report=report(kind))
    assert outcome(event) == Outcome(ended=Ended.LIMIT, text="memory limit", signal=9)


@pytest.mark.parametrize("kind", OWN)
def test_an_unreadable_signal_is_the_agents_own_fault_whatever_else_was(kind: Ended) -> None:
    event = on.AgentExited(at=9, attempt=1, exit_code=0, problem="torn", report=report(kind))
    assert outcome(event) == Outcome(ended=Ended.INVALID_BREAKPOINT, text="torn", exit_code=0)


@pytest.mark.parametrize("kind", OTHERS)
def test_who_was_cut_off_by_others_pays_not_for_a_signal_half_written(kind: Ended) -> None:
    event = on.AgentExited(at=9, attempt=1, exit_code=1, problem="torn", report=report(kind))
    assert outcome(event) == told(kind, exit_code=1)


def test_without_a_report_signal_and_exit_code_decide() -> None:
    assert outcome(on.AgentExited(at=9, attempt=1, signal=11)).ended is Ended.CRASH
    assert outcome(on.AgentExited(at=9, attempt=1, exit_code=1)).ended is Ended.ERROR
    assert outcome(on.AgentExited(at=9, attempt=1, exit_code=0)).ended is Ended.NO_BREAKPOINT
    assert outcome(on.AgentExited(at=9, attempt=1)).ended is Ended.NO_BREAKPOINT


def test_a_good_end_without_a_signal_is_said_in_words() -> None:
    quiet = on.Report(ended=Ended.NO_BREAKPOINT)
    event = on.AgentExited(at=9, attempt=1, exit_code=0, report=quiet)
    assert outcome(event).text == "ended without a breakpoint"


# --- one that was ended -----------------------------------------------------------------------


@pytest.mark.parametrize("time", [Ended.HANG, Ended.TIMEOUT])
@pytest.mark.parametrize("kind", [*OTHERS, Ended.DENIED, Ended.CONTEXT_OVERFLOW, Ended.WAITING])
def test_a_hang_gives_way_to_what_the_program_named(time: Ended, kind: Ended) -> None:
    (
        play(stopping(time))
        .on(on.AgentStopped(at=10, attempt=1, signal=15, report=report(kind)))
        .to(Capturing, outcome=told(kind, signal=15))
        .orders(SNAPSHOT)
    )


def test_what_is_named_without_a_word_keeps_the_words_of_the_limit() -> None:
    quiet = on.Report(ended=Ended.NETWORK)
    (
        play(working())
        .on(on.LimitReached(at=9, attempt=1, idle=True, text="no output for 1800 s"))
        .orders(STOP)
        .on(on.AgentStopped(at=10, attempt=1, report=quiet))
        .to(Capturing, outcome=Outcome(ended=Ended.NETWORK, text="no output for 1800 s"))
        .orders(SNAPSHOT)
    )


@pytest.mark.parametrize("time", [Ended.HANG, Ended.TIMEOUT])
@pytest.mark.parametrize(
    "kind", [Ended.KILLED, Ended.CRASH, Ended.ERROR, Ended.HANG, Ended.TIMEOUT]
)
def test_that_it_was_ended_by_us_says_no_more_than_why(time: Ended, kind: Ended) -> None:
    (
        play(stopping(time))
        .on(on.AgentStopped(at=10, attempt=1, signal=15, report=report(kind)))
        .to(Capturing, outcome=Outcome(ended=time, text=str(time), signal=15))
        .orders(SNAPSHOT)
    )


@pytest.mark.parametrize("ours", [Ended.INTERRUPTED, Ended.BUDGET, Ended.LOOP, Ended.RATE_LIMIT])
def test_any_other_reason_of_ours_stands(ours: Ended) -> None:
    (
        play(stopping(ours))
        .on(on.AgentStopped(at=10, attempt=1, report=report(Ended.NETWORK)))
        .to(Capturing, outcome=Outcome(ended=ours, text=str(ours)))
        .orders(SNAPSHOT)
    )


def test_a_breakpoint_comes_before_the_hang_and_before_what_was_named() -> None:
    (
        play(stopping(Ended.HANG))
        .on(on.AgentStopped(at=10, attempt=1, word=DONE, report=report(Ended.NETWORK)))
        .orders(SNAPSHOT)
    )
    transcript = play(stopping(Ended.HANG)).on(
        on.AgentStopped(at=10, attempt=1, word=DONE, report=report(Ended.NETWORK))
    )
    transcript.orders(SNAPSHOT)
    assert isinstance(transcript.state, Capturing)
    assert transcript.state.outcome.ended is Ended.BREAKPOINT
    assert transcript.state.outcome.word == DONE


@pytest.mark.parametrize("kind", [Ended.LOOP, Ended.RATE_LIMIT, Ended.AUTH, Ended.BUDGET])
def test_an_attempt_that_leads_nowhere_is_ended_at_once(kind: Ended) -> None:
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
    late = on.AttemptDoomed(at=9, attempt=1, ended=Ended.LOOP, text="too much")
    play(stopping()).changes_nothing(late)
    play(working(attempt=2)).changes_nothing(late)


@pytest.mark.parametrize("kind", [Ended.RATE_LIMIT, Ended.CRASH])
def test_a_runner_that_lost_sight_interrupted_it_whatever_the_program_reports(kind: Ended) -> None:
    lost = on.RunnerRestarted(at=9, attempt=1, report=report(kind))
    transcript = play(working()).on(lost).to(Capturing).orders(SNAPSHOT)
    assert isinstance(transcript.state, Capturing)
    assert transcript.state.outcome.ended is Ended.INTERRUPTED
