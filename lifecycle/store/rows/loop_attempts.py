"""A loop's attempt, read as an instance: which state, health and details its rows mean. Pure."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from lifecycle.machine.rules.endings import TREATMENTS
from lifecycle.store.instances import (
    LOCAL_USER,
    LOOP_DEFINITION,
    InstanceFilter,
    InstanceRow,
    attempt_instance_id,
)
from lifecycle.store.rows.records import from_json
from runtime.agents.outcome import Ending

LIVE_KINDS = {
    "Preparing": "initializing",
    "Spawning": "initializing",
    "Working": "processing",
    "Stopping": "terminating",
    "Capturing": "terminating",
}
"""Work states in which the attempt under way is active, and as what."""
FROZEN = "suspended"
"""A working attempt whose process is frozen."""
BAD_ENDS = ("", *(str(each) for each in TREATMENTS if each is not Ending.INTERRUPTED))
"""Outcomes of attempts whose agent failed; an empty one was never written down."""
LIFECYCLE_COLUMNS = ("cursor", "agent_id", "task_id", "birth", "work_kind", "updated_at", "tags")
LEDGER_COLUMNS = (
    "attempt", "spawn_id", "pid", "started_at", "ended_at", "outcome", "error", "exit_code",
    "signal", "program",
)  # fmt: skip


class Attempt(NamedTuple):
    """What is read of a lifecycle and of one of its attempts, in the order of the columns."""

    cursor: int
    agent_id: str
    task_id: str
    birth: str
    work_kind: str
    updated_at: float
    tags: str
    current: int
    """Number of the attempt under way, or of the next one."""
    running: bool
    frozen: bool
    """Its process is frozen."""
    containment: str
    """Its sandbox and limits, in words."""
    attempt: int | None
    """None, with all that follows, while the ledger has no row of it yet."""
    spawn_id: str | None
    pid: int | None
    started_at: float | None
    ended_at: float | None
    outcome: str | None
    error: str | None
    exit_code: int | None
    signal: int | None
    program: str | None

    @property
    def is_live(self) -> bool:
        """Whether it is the one under way."""
        ours = self.attempt in (None, self.current)
        return ours and self.running and self.work_kind in LIVE_KINDS

    @property
    def live_state(self) -> str:
        """The state of one that is under way."""
        return FROZEN if self.frozen else LIVE_KINDS[self.work_kind]


def wanted(which: InstanceFilter) -> bool:
    """Tell whether any attempt may fit a filter."""
    return which.definition_id in (None, LOOP_DEFINITION) and which.owner_id in (None, LOCAL_USER)


def health_of(state: str) -> str:
    """Return the health of an attempt in a state: attended while it works, else not known."""
    return "healthy" if state == "processing" else "unknown"


def as_instance(found: Attempt) -> InstanceRow:
    """Return an attempt as an instance."""
    number = found.current if found.attempt is None else found.attempt
    began = found.updated_at if found.started_at is None else found.started_at
    ended = None
    if found.is_live:
        state = found.live_state
        if state == "initializing":
            began = found.updated_at
    else:
        state = "failed" if found.outcome in BAD_ENDS else "terminated"
        ended = found.ended_at or began
    return InstanceRow(
        id=attempt_instance_id(found.cursor, found.birth, number),
        definition_id=LOOP_DEFINITION,
        state=state,
        health_state=health_of(state),
        created_at=began,
        updated_at=ended or max(began, found.updated_at),
        name=found.agent_id,
        owner_id=LOCAL_USER,
        error_message=(found.error or None) if ended else None,
        terminated_at=ended,
        details_json=json.dumps(_details(found, number)),
        tags=tuple(from_json(found.tags)),
    )


def _details(found: Attempt, number: int) -> dict[str, Any]:
    shown = {
        "agent_id": found.agent_id,
        "task_id": found.task_id,
        "attempt": number,
        "program": found.program or None,
        "spawn_id": found.spawn_id or None,
        "pid": found.pid or None,
        "containment": (found.containment or None) if found.is_live else None,
        "outcome": found.outcome or None,
        "exit_code": found.exit_code,
        "signal": found.signal,
    }
    return {name: value for name, value in shown.items() if value is not None}
