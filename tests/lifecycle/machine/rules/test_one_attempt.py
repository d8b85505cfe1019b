"""Transcripts of one attempt: from its place in the queue to the end of its process."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AttemptOutcome,
    AwaitingHuman,
    BackingOff,
    Capturing,
    Preparing,
    Queued,
    Reason,
    Rejected,
    Spawning,
    Stopping,
    Suspended,
    Wanted,
    Working,
)
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.playbook import (
    BLOCKED,
    DONE,
    LOOK_INTO_BLOCK,
    PROCESS,
    backing_off,
    capturing,
    play,
    preparing,
    queued,
    spawning,
    stopping,
    working,
)

READY = on.WorkspaceReady(at=2, attempt=1, branch="agent/a", base_commit="b0")
SPAWNED = on.AgentSpawned(at=3, attempt=1, process=PROCESS)
STOP = do.StopAgent(attempt=1, process=PROCESS)
SNAPSHOT = do.TakeSnapshot(spawn_id="a1", attempt=1)


def test_the_first_attempt_gets_a_workspace_then_a_process() -> None:
    (
        play(queued())
        .on(on.Admitted(at=1))
        .to(Preparing)
        .orders(do.PrepareWorkspace(attempt=1))
        .on(READY)
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=1))
        .counts(attempt=1, spawn_count=0)
        .on(SPAWNED)
        .to(Working, process=PROCESS, since=3)
        .counts(attempt=1, spawn_count=1)
    )


def test_a_place_does_not_settle_dependencies() -> None:
    play(queued("T000")).changes_nothing(on.Admitted(at=1)).still(Queued, waiting_on=("T000",))


def test_a_workspace_that_only_the_user_can_fix_ends_it() -> None:
    (
        play(preparing())
        .on(on.WorkspaceFailed(at=2, attempt=1, text="branch exists", fault=on.Fault.USER))
        .to(Rejected, reason=Reason.ERROR, text="branch exists")
    )


def test_a_failing_disk_is_waited_out_and_the_workspace_made_again() -> None:
    (
        play(preparing(), retry_interval=30)
        .on(on.WorkspaceFailed(at=2, attempt=1, text="disk full", fault=on.Fault.ENVIRONMENT))
        .to(BackingOff, until=32, prepare=True, why="disk full")
        .counts(attempt=1, retry_count=0, faults=1)
        .on(on.Admitted(at=32))
        .to(Preparing)
        .orders(do.PrepareWorkspace(attempt=1))
        .on(on.WorkspaceReady(at=33, attempt=1, branch="agent/a", base_commit="b0"))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=1))
        .counts(faults=0)
    )


def test_the_surroundings_have_their_own_limit() -> None:
    full = on.SpawnFailed(at=2, attempt=1, text="no memory", fault=on.Fault.ENVIRONMENT)
    (
        play(spawning(), max_faults=1, retry_interval=0)
        .on(full)
        .to(BackingOff, until=2)
        .on(on.Admitted(at=2))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=1))
        .on(full)
        .to(Rejected, reason=Reason.ENVIRONMENT)
        .says("2 times in a row the environment failed: no memory")
        .counts(retry_count=0)
    )


def test_a_workspace_that_never_comes_ends_it_too() -> None:
    (
        play(preparing(), max_faults=0)
        .on(on.WorkspaceFailed(at=2, attempt=1, text="disk full", fault=on.Fault.ENVIRONMENT))
        .to(Rejected, reason=Reason.ENVIRONMENT)
    )


def test_a_process_that_lives_proves_that_the_surroundings_are_well_again() -> None:
    play(spawning(faults=3)).on(SPAWNED).to(Working).counts(faults=0)


def test_a_command_that_does_not_exist_ends_it() -> None:
    (
        play(spawning())
        .on(on.SpawnFailed(at=2, attempt=1, text="no such file: claud", fault=on.Fault.USER))
        .to(Rejected, reason=Reason.ERROR, text="no such file: claud")
    )


def test_the_next_attempt_waits_for_its_instant_and_a_place() -> None:
    (
        play(backing_off(until=10))
        .changes_nothing(on.Admitted(at=9))
        .on(on.Admitted(at=10))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2))
    )


def test_no_attempt_beyond_the_limit_of_attempts() -> None:
    (
        play(backing_off(attempt=3, spawn_count=2), max_attempts=3)
        .on(on.Admitted(at=10))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=3))
    )
    (
        play(backing_off(attempt=4, spawn_count=3), max_attempts=3)
        .on(on.Admitted(at=10))
        .to(Rejected, reason=Reason.MAX_RETRIES)
        .says("3 attempts were started")
    )
    (
        play(preparing(attempt=4, spawn_count=3), max_attempts=3)
        .on(on.WorkspaceReady(at=2, attempt=4, branch="agent/a", base_commit="b0"))
        .to(Rejected, reason=Reason.MAX_RETRIES)
    )


def test_each_attempt_waits_for_its_summary_to_be_approved() -> None:
    (
        play(preparing(), review_summaries=True)
        .on(READY)
        .to(AwaitingHuman, about=About.REVIEW)
        .on(on.SummaryApproved(at=5, by="ada"))
        .to(BackingOff, until=5, approved=True)
        .on(on.Admitted(at=5))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=1))
    )
    play(backing_off(), review_summaries=True).on(on.Admitted(at=10)).to(
        AwaitingHuman, about=About.REVIEW
    ).says("attempt 2")


def test_an_approved_summary_stays_approved_while_the_machine_is_full() -> None:
    (
        play(spawning(), review_summaries=True, retry_interval=0)
        .on(on.SpawnFailed(at=2, attempt=1, text="no memory", fault=on.Fault.ENVIRONMENT))
        .to(BackingOff, approved=True)
        .on(on.Admitted(at=2))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=1))
    )


def test_an_attempt_cut_short_is_approved_already_but_the_next_one_is_not() -> None:
    (
        play(capturing(Ending.INTERRUPTED), review_summaries=True)
        .on(on.SnapshotTaken(at=5, attempt=1))
        .to(BackingOff, approved=True)
    )
    play(capturing(Ending.CRASH), review_summaries=True).on(on.SnapshotTaken(at=5, attempt=1)).to(
        BackingOff, approved=False
    )


def test_a_breakpoint_ends_the_process_that_signalled_it() -> None:
    (
        play(working())
        .on(on.BreakpointReached(at=9, attempt=1, word=BLOCKED))
        .to(Stopping, outcome=AttemptOutcome(ended=Ending.BREAKPOINT, word=BLOCKED))
        .orders(STOP)
        .on(on.AgentStopped(at=10, attempt=1, signal=15))
        .to(Capturing, outcome=AttemptOutcome(ended=Ending.BREAKPOINT, word=BLOCKED, signal=15))
        .orders(LOOK_INTO_BLOCK)
    )


@pytest.mark.parametrize(("idle", "ended"), [(True, Ending.HANG), (False, Ending.TIMEOUT)])
def test_a_limit_ends_the_process(idle: bool, ended: Ending) -> None:  # noqa: FBT001  # a parameter
    (
        play(working())
        .on(on.LimitReached(at=9, attempt=1, idle=idle, text="1800 s"))
        .to(Stopping, outcome=AttemptOutcome(ended=ended, text="1800 s"))
        .orders(STOP)
    )


def test_an_agent_that_met_a_limit_of_the_machine_pays_for_it_and_the_limit_is_named() -> None:
    (
        play(working())
        .on(on.AgentExited(at=9, attempt=1, signal=9, limit="memory limit 256 MB"))
        .to(
            Capturing,
            outcome=AttemptOutcome(ended=Ending.LIMIT, text="memory limit 256 MB", signal=9),
        )
        .orders(SNAPSHOT)
        .on(on.SnapshotTaken(at=9, attempt=1))
        .to(BackingOff)
        .says("limit: memory limit 256 MB")
    )


@pytest.mark.parametrize(
    ("event", "ended", "text"),
    [
        (on.AgentExited(at=9, attempt=1, exit_code=0), Ending.NO_BREAKPOINT,
         "without a breakpoint"),
        (on.AgentExited(at=9, attempt=1, exit_code=3), Ending.ERROR, "exit code 3"),
        (on.AgentExited(at=9, attempt=1, signal=11), Ending.CRASH, "ended by signal 11"),
        (on.AgentExited(at=9, attempt=1, exit_code=0, problem="NaN"), Ending.INVALID_BREAKPOINT,
         "NaN"),
        (on.AgentExited(at=9, attempt=1, exit_code=1, word=DONE), Ending.BREAKPOINT, ""),
    ],
)  # fmt: skip
def test_its_word_counts_and_its_exit_code_proves_nothing(
    event: on.AgentExited, ended: Ending, text: str
) -> None:
    transcript = play(working()).on(event).to(Capturing).orders(SNAPSHOT)
    assert isinstance(transcript.state, Capturing)
    assert transcript.state.outcome.ended is ended
    assert text in transcript.state.outcome.text
    assert transcript.state.outcome.word == event.word
    assert transcript.state.outcome.exit_code == event.exit_code
    assert transcript.state.outcome.signal == event.signal


def test_an_unreadable_mailbox_ends_nothing() -> None:
    problem = on.MailboxInvalid(at=9, attempt=1, problem="torn")
    play(working()).on(problem).to(Working).changes_nothing(on.AgentExited(at=9, attempt=2)).counts(
        spawn_count=1
    )
    play(stopping()).changes_nothing(problem)


# --- late facts -------------------------------------------------------------------------------


def test_an_exit_after_the_end_was_ordered_leaves_the_proof_to_the_one_who_ends_it() -> None:
    play(stopping()).changes_nothing(on.AgentExited(at=9, attempt=1, exit_code=0)).still(Stopping)
    play(capturing()).changes_nothing(on.AgentExited(at=9, attempt=1, exit_code=0))
    play(backing_off()).changes_nothing(on.AgentStopped(at=9, attempt=2))


# --- a runner that ended under it -------------------------------------------------------------


def test_a_spawn_of_which_the_runner_lost_sight_is_admitted_again_under_its_number() -> None:
    (
        play(spawning(attempt=2, spawn_count=1), review_summaries=True)
        .on(on.RunnerRestarted(at=9, attempt=2))
        .to(BackingOff, until=9, approved=True)
        .on(on.Admitted(at=9))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2))
        .counts(attempt=2, spawn_count=1)
    )


def test_a_lost_spawn_is_held_where_a_pause_was_asked_for() -> None:
    (
        play(spawning(wanted=Wanted.PAUSE))
        .on(on.RunnerRestarted(at=9, attempt=1))
        .to(Suspended)
        .counts(attempt=1, spawn_count=0)
    )


def test_a_breakpoint_of_a_lost_spawn_proves_that_it_lived() -> None:
    (
        play(spawning())
        .on(on.RunnerRestarted(at=9, attempt=1, word=DONE))
        .to(Capturing, outcome=AttemptOutcome(ended=Ending.BREAKPOINT, word=DONE))
        .orders(SNAPSHOT)
        .counts(spawn_count=1)
    )


@pytest.mark.parametrize("seen", [{"began": True}, {"swept": 1}])
def test_a_lost_spawn_that_lived_counts_as_an_attempt(seen: dict[str, Any]) -> None:
    (
        play(spawning())
        .on(on.RunnerRestarted(at=9, attempt=1, **seen))
        .to(BackingOff, until=9)
        .counts(attempt=1, spawn_count=1, begun=1, interruptions=1)
    )


def test_an_attempt_that_the_runner_itself_cut_short_keeps_its_number_and_costs_nothing() -> None:
    (
        play(working(retry_count=1))
        .on(on.RunnerRestarted(at=9, attempt=1))
        .to(Capturing)
        .orders(SNAPSHOT)
        .on(on.SnapshotTaken(at=10, attempt=1, tree="t1"))
        .to(BackingOff, until=10)
        .says("interrupted: the runner ended")
        .counts(attempt=1, spawn_count=1, retry_count=1, interruptions=1)
        .on(on.Admitted(at=10))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=1))
        .on(on.AgentSpawned(at=11, attempt=1, process=PROCESS))
        .to(Working)
        .counts(attempt=1, spawn_count=2, begun=1)
    )


def test_an_ordered_end_goes_on_where_it_left_off() -> None:
    (
        play(stopping(Ending.TIMEOUT))
        .on(on.RunnerRestarted(at=9, attempt=1))
        .to(Capturing, outcome=AttemptOutcome(ended=Ending.TIMEOUT, text="timeout"))
        .orders(SNAPSHOT)
    )


def test_a_restart_during_the_capture_is_no_news() -> None:
    play(capturing()).changes_nothing(on.RunnerRestarted(at=9, attempt=1))
