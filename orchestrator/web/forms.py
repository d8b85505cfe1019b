"""Lifecycles, instances and deliveries as JSON values: the same for the API and for `--json`.

Adding a key is allowed, changing or removing one is not. Imports nothing heavy.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lifecycle.machine.states import TERMINAL
from lifecycle.state_words import NEEDS_YOU, spelled, word_on
from lifecycle.store.codec import encode
from orchestrator.cli.text import span
from orchestrator.forms import attempt_form, pending_form, record_form
from orchestrator.waiting import UNREADABLE, since, waiting_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ci.inbox import Delivery
    from lifecycle.fleet.instances import AgentInstance
    from lifecycle.paths import Paths
    from lifecycle.record import AgentLifecycle, AttemptRow, PendingEffect
    from lifecycle.store.damage import Damaged
    from orchestrator.fleet import Use
    from orchestrator.summaries import Shown


def row_form(record: AgentLifecycle, present: float) -> dict[str, Any]:
    """Return a lifecycle as lists show it, while a runner is alive."""
    work = record.work
    plain: dict[str, Any] | None = None
    if work is not None and not isinstance(work, TERMINAL):
        # What is over waits for nothing, and most of a long list is over.
        plain = json.loads(encode(work))
    kind = type(work).__name__ if work is not None else ""
    tally = work.tally if work is not None else None
    return {
        "agent_id": record.agent_id,
        "task_id": record.task_id,
        "task": record.task,
        "attempt": tally.attempt if tally else 0,
        "retry_count": tally.retry_count if tally else 0,
        "spawn_count": tally.spawn_count if tally else 0,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "tags": list(record.tags),
        "error": record.error,
        "cursor": record.cursor,
        "state": spelled(word_on(record)),
        "record_state": record.state.value,
        "work_state": kind,
        "since": since(plain, record.updated_at),
        "waiting_for": waiting_for(kind, plain, present, span),
        "damaged": "",
    }


def damaged_form(damaged: Damaged) -> dict[str, Any]:
    """Return a lifecycle whose record cannot be read, as lists show it."""
    known = ("agent_id", "task_id", "created_at", "updated_at", "cursor")
    return {
        **{name: getattr(damaged, name) for name in known},
        **dict.fromkeys(("attempt", "retry_count", "spawn_count"), 0),
        "task": "",
        "tags": [],
        "error": None,
        "state": spelled(NEEDS_YOU),
        "record_state": damaged.state,
        "work_state": "",
        "since": damaged.updated_at,
        "waiting_for": UNREADABLE,
        "damaged": damaged.problem,
    }


def whole_form(  # noqa: PLR0913  # all but the record by name
    record: AgentLifecycle,
    *,
    why: str,
    attempts: Sequence[AttemptRow],
    pending: Sequence[PendingEffect],
    runner: dict[str, Any] | None,
    paths: Paths,
) -> dict[str, Any]:
    """Return all about one lifecycle."""
    return {
        "lifecycle": record_form(record, runs=runner is not None),
        "why": why,
        "attempts": [attempt_form(row) for row in attempts],
        "pending": [pending_form(order) for order in pending],
        "runner": runner,
        "files": {path.parent.name: str(path) for path in _files(paths, record.agent_id)},
    }


def summary_form(agent_id: str, shown: Shown) -> dict[str, Any]:
    """Return a summary."""
    return {
        "agent_id": agent_id,
        "attempt": shown.attempt,
        "path": str(shown.path) if shown.path is not None else None,
        "edited": shown.edited,
        "text": shown.text,
    }


def instance_form(instance: AgentInstance, use: Use | None) -> dict[str, Any]:
    """Return an instance and what it uses at this moment."""
    return {**instance.model_dump(mode="json"), "use": use._asdict() if use else None}


def delivery_form(cursor: int, delivery: Delivery) -> dict[str, Any]:
    """Return a delivery without its body."""
    return {"cursor": cursor, **delivery.model_dump(mode="json", exclude={"body"})}


def _files(paths: Paths, agent_id: str) -> list[Path]:
    return [path for path in paths.all_of(agent_id) if path.exists()]
