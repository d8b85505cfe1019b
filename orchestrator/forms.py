"""Records, journals and attempts as JSON values: what `--json` and `export` print.

Adding a key is allowed, changing or removing one is not. Values of variables that a plan sets for
its agents are left out: they may be secrets.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lifecycle.state_words import spelled, word_on
from lifecycle.store.codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry, PendingEffect

FORM_VERSION = 2
HIDDEN = "(hidden)"


def record_form(record: AgentLifecycle, *, runs: bool) -> dict[str, Any]:
    """Return a lifecycle; `runs` tells whether a runner is alive."""
    work = record.work
    return {
        "agent_id": record.agent_id,
        "task_id": record.task_id,
        "task": record.task,
        "state": spelled(word_on(record, runs=runs)),
        "record_state": record.state.value,
        "work": json.loads(encode(work)) if work is not None else None,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "submission_summary": record.submission_summary,
        "generated_code": record.generated_code,
        "changed_files": record.changed_files,
        "error": record.error,
        "tags": list(record.tags),
        "facts": _without_secrets(record.facts),
        "version": record.version,
        "cursor": record.cursor,
    }


def entry_form(entry: JournalEntry) -> dict[str, Any]:
    """Return an entry of a journal."""
    return {
        "seq": entry.seq,
        "at": entry.at,
        "event": json.loads(encode(entry.event)),
        "rule": entry.rule,
        "before": entry.before,
        "after": entry.after,
        "late": entry.late,
    }


def attempt_form(row: AttemptRow) -> dict[str, Any]:
    """Return an attempt, with what all its processes used."""
    told = asdict(row)
    del told["before"]
    return told | {"used": asdict(row.used)}


def pending_form(order: PendingEffect) -> dict[str, Any]:
    """Return an order that is not known to be carried out."""
    return {"effect_id": order.effect_id, "effect": json.loads(encode(order.effect))}


def export_form(
    record: AgentLifecycle,
    journal: Sequence[JournalEntry],
    attempts: Sequence[AttemptRow],
    pending: Sequence[PendingEffect],
    *,
    runs: bool,
) -> dict[str, Any]:
    """Return everything the store holds about one lifecycle."""
    return {
        "record": record_form(record, runs=runs),
        "journal": [entry_form(entry) for entry in journal],
        "attempts": [attempt_form(row) for row in attempts],
        "pending": [pending_form(order) for order in pending],
    }


def _without_secrets(facts: dict[str, Any]) -> dict[str, Any]:
    agent = facts.get("agent")
    if not isinstance(agent, dict) or not isinstance(agent.get("env"), dict):
        return facts
    return {**facts, "agent": {**agent, "env": dict.fromkeys(agent["env"], HIDDEN)}}
