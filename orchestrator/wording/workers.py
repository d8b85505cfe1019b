"""The workers of a repository in words: which of them has a lifecycle, and who is silent.

Works on plain values and imports nothing heavy, so that lists stay fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from lifecycle.state_words import is_under_way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from lifecycle.store.rows.workers import WorkerRow


class WorkerForm(TypedDict):
    """A worker, as the API and the board show it."""

    name: str
    machine: str
    version: str
    labels: list[str]
    slots: int
    used: int
    """lifecycles of which an attempt is under way there"""
    programs: list[str]
    lacks: list[str]
    """what was found missing there"""
    clock_offset: float
    """seconds that its clock is ahead"""
    lease: float
    draining: bool
    """it takes no new work"""
    seen_at: float
    silent: bool
    """it was not heard of for its lease"""


UNPLACED = "worker.missing"
"""Collection of documents: what is missing that a worker takes a lifecycle, as the coordinator
found it last."""
WORKER = "worker"
"""The fact of a record that names its worker (`lifecycle.record`, which is heavy)."""


def worker_in(facts: Mapping[str, Any] | None) -> str:
    """Return the worker that the facts of a record name; empty where none does."""
    return str((facts or {}).get(WORKER) or "")


def with_silence(
    waits: str,
    worker: str,
    kind: str,
    silent: Mapping[str, float],
    ago: Callable[[float], str],
) -> str:
    """Return what a lifecycle waits for; if its worker is silent, that it waits for this.

    `silent` holds the workers that are, with when they were heard of last; `ago` says how long
    that is.
    """
    if worker not in silent or not is_under_way(kind):
        return waits
    told = f"on {worker}, not heard of for {ago(silent[worker])}"
    return f"{told}; {waits}" if waits else told


def unplaced_in(noted: Mapping[str, Mapping[str, Any]], agent_id: str) -> str:
    """Return what is missing for this agent, of the documents `UNPLACED`; empty if nothing is."""
    return str(noted.get(agent_id, {}).get("text", ""))


def where(worker: str, kind: str, silent: Mapping[str, float], ago: Callable[[float], str]) -> str:
    """Say on which worker an attempt is under way; nothing where none is, or no worker has it."""
    if not worker or not is_under_way(kind):
        return ""
    if worker not in silent:
        return f"on worker {worker}"
    return (
        f"on worker {worker}, not heard of for {ago(silent[worker])}, which is longer than its "
        "lease: another worker continues it from its last push, as soon as one has a slot"
    )


def used_by(places: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Count the attempts under way by worker, of these (worker, work state)."""
    counts: dict[str, int] = {}
    for worker, kind in places:
        if worker and is_under_way(kind):
            counts[worker] = counts.get(worker, 0) + 1
    return counts


def worker_form(worker: WorkerRow, used: Mapping[str, int], present: float) -> WorkerForm:
    """Return a worker as it is now."""
    return {
        "name": worker.name,
        "machine": worker.machine,
        "version": worker.version,
        "labels": list(worker.labels),
        "slots": worker.slots,
        "used": used.get(worker.name, 0),
        "programs": list(worker.programs),
        "lacks": list(worker.lacks),
        "clock_offset": worker.clock_offset,
        "lease": worker.lease,
        "draining": worker.draining,
        "seen_at": worker.seen_at,
        "silent": worker.is_silent(present),
    }
