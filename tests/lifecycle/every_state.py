"""Each work state as it may be, with the word for it: while a runner lives, and without one."""

from __future__ import annotations

from lifecycle.machine import states as st
from runtime.agents.outcome import Ending

PROCESS = st.Process(pid=1, start_time=1, boot_id="b", spawn_id="s")
BLOCKED = st.Signal(type="blocked", reason="no key", blocked_on=("a key",))
DONE = st.Signal(type="task_complete", summary="all done")
OUTCOME = st.AttemptOutcome(ended=Ending.BREAKPOINT, word=DONE)
WAITS = st.Blocked(since=1.0, until=9e9, word=BLOCKED)

EVERY: tuple[tuple[st.State, str, str], ...] = (
    (st.Queued(), "queued", "queued"),
    (st.Queued(waiting_on=("T9",)), "queued", "queued"),
    (st.Preparing(), "starting", "stopped"),
    (st.Spawning(), "starting", "stopped"),
    (st.Working(process=PROCESS, since=1.0), "working", "stopped"),
    (st.Working(process=PROCESS, since=1.0, frozen=True), "paused", "paused"),
    (st.Stopping(process=PROCESS, outcome=OUTCOME), "stopping", "stopped"),
    (st.Capturing(outcome=OUTCOME), "stopping", "stopped"),
    (st.Verifying(word=DONE, head="c0ffee"), "verifying", "stopped"),
    (WAITS, "waiting", "stopped"),
    (st.PrPending(since=1.0, until=9e9, word=DONE, url="http://x/1"), "waiting", "stopped"),
    (st.BackingOff(until=1.0, why="error: exit code 3"), "waiting", "stopped"),
    (
        st.AwaitingHuman(about=st.About.QUESTION, text="Blue or green?", since=1.0),
        *("needs you", "needs you"),
    ),
    (st.Suspended(inner=WAITS, since=1.0), "paused", "paused"),
    (st.Suspended(inner=WAITS, since=1.0, stopped=True), "stopped", "stopped"),
    (st.Completed(summary="all done"), "done", "done"),
    (st.Accepted(commit="c0ffee00"), "accepted", "accepted"),
    (st.Rejected(reason=st.Reason.PERSON, text="rejected by ada"), "rejected", "rejected"),
    (st.Rejected(reason=st.Reason.MAX_RETRIES, text="3 of 3 used"), "given up", "given up"),
    (st.Rejected(reason=st.Reason.BUDGET, text="all is spent"), "given up", "given up"),
)
"""State, word with a runner, word without one."""
