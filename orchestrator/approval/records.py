"""The approvals in the store: what a person approved, and what agents proposed.

Owns the form of the documents. What of a value is a secret is not kept: only a digest, by which it
is known again.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from lifecycle.errors import StoreDamagedError
from lifecycle.mask_values import masked
from lifecycle.store.plain_queries import read_documents
from orchestrator.approval.restricting_values import Cells, ProposedChange, same

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.masking.masker import Masker

APPROVED = "settings.approved"
"""Collection with the one document of the values that a person approved, with who and when."""
PROPOSED = "settings.proposed"
"""Collection of what commits of agents did to settings that hold them; kept for good."""

Document = dict[str, Any]


def read_approved(database: Path) -> Document | None:
    """Return what was approved; None where nothing was recorded yet."""
    try:
        return read_documents(database, APPROVED).get(APPROVED)
    except StoreDamagedError:
        return None  # the next loop sets these records aside and begins new ones


def read_proposed(database: Path, present: Mapping[str, Any]) -> list[ProposedChange]:
    """Return what agents proposed, as far as it is about these cells."""
    try:
        entries = read_documents(database, PROPOSED).values()
    except StoreDamagedError:
        return []
    return [
        ProposedChange(
            entry["cell"],
            _opened(entry["before"], None),
            _opened(entry["after"], present.get(entry["cell"])),
            entry["agent_id"],
            settled=bool(entry.get("settled")),
        )
        for entry in entries
    ]


def approved_cells(document: Document, present: Mapping[str, Any]) -> Cells:
    """Return the approved values; a secret is there only while it still is what it was."""
    cells = document.get("cells", {})
    return {cell: _opened(entry, present.get(cell)) for cell, entry in cells.items()}


def cells_in(document: Document | None) -> tuple[str, ...]:
    """Name the cells of which something was approved."""
    return tuple((document or {}).get("cells", {}))


def with_approved(
    document: Document | None, approved: Mapping[str, Any], by: str, at: float, masker: Masker
) -> Document:
    """Return the document with these values; None as a value takes its cell out."""
    cells = dict((document or {}).get("cells", {}))
    for cell, value in approved.items():
        if value is None:
            cells.pop(cell, None)
        elif cell not in cells or not same(_opened(cells[cell], value), value):
            cells[cell] = {**_closed(value, masker), "by": by, "at": at}
    return {"cells": cells}


async def keep_proposals(
    store: SqliteStore, proposals: Iterable[ProposedChange], masker: Masker
) -> list[ProposedChange]:
    """Keep what an agent proposed; returns what was not known yet."""
    known = await store.all(PROPOSED)
    fresh = []
    for each in proposals:
        body = {
            "agent_id": each.agent_id,
            "cell": each.cell,
            "before": _closed(each.before, masker),
            "after": _closed(each.after, masker),
        }
        key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]
        if key not in known:
            await store.put(PROPOSED, key, body)
            fresh.append(each)
    return fresh


def _closed(value: Any, masker: Masker) -> Document:
    if masked(value, masker) != value:
        return {"digest": _digest(value)}
    return {"value": value}


def _opened(entry: Mapping[str, Any], present: Any) -> Any:
    if "digest" in entry:
        return present if _digest(present) == entry["digest"] else None
    return entry.get("value")


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
