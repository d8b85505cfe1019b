"""The name of each state, as people and programs read and type it.

From the name and the fields of a work state to its word: one spelling wherever people and programs
read one. Works on plain values and imports nothing, so that lists stay fast. Must not decide
anything, and must not say what a state waits for.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle

QUEUED = "queued"
STARTING = "starting"
WORKING = "working"
STOPPING = "stopping"
VERIFYING = "verifying"
WAITING = "waiting"
PAUSED = "paused"
STOPPED = "stopped"
NEEDS_YOU = "needs you"
DONE = "done"
"""Verified, and waits for a person's decision."""
ACCEPTED = "accepted"
REJECTED = "rejected"
"""By a person."""
GIVEN_UP = "given up"
"""By the runner; it can be resumed."""

RECORD_STATES: dict[str, tuple[str, ...]] = {
    QUEUED: ("queued",),
    STARTING: ("running",),
    WORKING: ("running",),
    STOPPING: ("running",),
    VERIFYING: ("running",),
    WAITING: ("running",),
    PAUSED: ("running",),
    STOPPED: ("running",),
    # A record that cannot be read needs a person, whatever state it was in.
    NEEDS_YOU: ("running", "queued", "completed", "rejected"),
    DONE: ("completed",),
    ACCEPTED: ("accepted",),
    REJECTED: ("rejected",),
    GIVEN_UP: ("rejected",),
}
"""Every word, and which of the five states of a record it may stand for."""
_OF_WORK = {
    "Queued": QUEUED,
    "Preparing": STARTING,
    "Spawning": STARTING,
    "Working": WORKING,
    "Stopping": STOPPING,
    "Capturing": STOPPING,
    "Verifying": VERIFYING,
    "Blocked": WAITING,
    "PrPending": WAITING,
    "BackingOff": WAITING,
    "AwaitingHuman": NEEDS_YOU,
    "Suspended": PAUSED,
    "Completed": DONE,
    "Accepted": ACCEPTED,
    "Rejected": GIVEN_UP,
}
_OF_RECORD = {
    "queued": QUEUED,
    "running": WORKING,
    "completed": DONE,
    "accepted": ACCEPTED,
    "rejected": REJECTED,
}
"""Of records that no loop drives, which have no work state."""
_UNDER_WAY = frozenset((STARTING, WORKING, STOPPING, VERIFYING))
_GOES_ON = _UNDER_WAY | {WAITING}
"""What a runner moves on; without one it is stopped."""
_COMMANDS = {
    "question": ("answer {} TEXT",),
    "review": ("summary approve {}",),
    "no_progress": ("guide {} TEXT", "resume {}"),
    "ci_limit": ("unblock {}", "resume {}"),
    "pr_timeout": ("resume {}", "unblock {}"),
    "conflict": ("resume {}", "unblock {} TEXT"),
    "dependency": ("unblock {}", "reject {}"),
    "setup": ("unblock {}", "guide {} TEXT"),
    "second_opinion": ("unblock {}", "guide {} TEXT", "resume {}"),
    "blocked_timeout": ("unblock {}", "answer {} TEXT"),
}
"""By what a person is waited for."""


NOT_TOGETHER = ("both changed", "is red")
"""Words of a refused merge that an agent can resolve; any other is for a person."""
ANSWER, APPROVE, UNBLOCK = "answer", "approve", "unblock"
REVIEW, CONFLICT, GIVEN_UP_NEED = "review", "conflict", "given_up"
NEEDS = (ANSWER, APPROVE, UNBLOCK, REVIEW, CONFLICT, GIVEN_UP_NEED)
"""What a lifecycle may need of a person."""
_WAYS = {
    REVIEW: ("accept {}", "guide {} TEXT", "reject {}"),
    CONFLICT: ("accept {}", "guide {} TEXT", "reject {}"),
}
"""By what is needed, where that says it all."""
TRY_AGAIN = ("resume {}", "reject {}")
"""What decides about work that was given up."""
LIMIT_FIRST = ("show {} --why", "reject {}")
"""The same where a limit has to be raised first: the reason names it."""
_DECISIONS = {"question": ANSWER, "review": APPROVE}


def needs_of(kind: str, work: Mapping[str, Any] | None) -> str:
    """Return what a work state needs of a person: one of `NEEDS`, or nothing.

    Whether what is blocked waits for a person alone hangs on others too: see
    `orchestrator.review.queue.need_of`.
    """
    fields = work or {}
    if kind == "AwaitingHuman":
        return _DECISIONS.get(str(fields.get("about")), UNBLOCK)
    if kind == "Completed" and not fields.get("merging"):
        problem = str(fields.get("problem") or "")
        return CONFLICT if any(words in problem for words in NOT_TOGETHER) else REVIEW
    return GIVEN_UP_NEED if kind == "Rejected" and fields.get("reason") != "person" else ""


def ways_of(kind: str, work: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the commands that decide what a work state needs; {} stands for the agent."""
    if kind == "AwaitingHuman":
        return commands_for(str((work or {}).get("about")))
    if kind == "Blocked":
        return commands_for("blocked_timeout")
    need = needs_of(kind, work)
    if need == GIVEN_UP_NEED:
        return LIMIT_FIRST if (work or {}).get("reason") == "max_retries" else TRY_AGAIN
    return _WAYS.get(need, ())


def word_of(
    kind: str, work: Mapping[str, Any] | None, record_state: str = "", *, runs: bool = True
) -> str:
    """Return the word for a work state, given by its name and its fields.

    Without a runner (`runs`) what had begun and is not at rest is stopped.
    """
    fields = work or {}
    if kind == "Working" and fields.get("frozen"):
        return PAUSED
    if kind == "Suspended" and fields.get("stopped"):
        return STOPPED
    if kind == "Rejected" and fields.get("reason") == "person":
        return REJECTED
    word = _OF_WORK[kind] if kind else _OF_RECORD[record_state]
    return STOPPED if word in _GOES_ON and kind and not runs else word


def word_for(state: State, *, runs: bool = True) -> str:
    """Return the word for a work state."""
    return word_of(type(state).__name__, vars(state), runs=runs)


def word_on(record: AgentLifecycle, *, runs: bool = True) -> str:
    """Return the word for the state of a record."""
    if record.work is None:
        return _OF_RECORD[record.state]
    return word_for(record.work, runs=runs)


def is_under_way(kind: str) -> bool:
    """Tell whether an attempt is under way in a work state, given by its name."""
    return _OF_WORK.get(kind) in _UNDER_WAY


def commands_for(about: str) -> tuple[str, ...]:
    """Return the commands that move on what waits for a person; {} stands for the agent."""
    return _COMMANDS[about]


def spelled(word: str) -> str:
    """Return a word as programs read and write it."""
    return word.replace(" ", "-")


def meant(text: str) -> str:
    """Return the word that somebody means, in any case, with `-`, `_` or a blank; else nothing."""
    word = " ".join(text.lower().replace("-", " ").replace("_", " ").split())
    return word if word in RECORD_STATES else ""
