"""All that the store holds of one lifecycle, as one value that may go to another store.

Owns what belongs to it, and when it may take the place of what is there. Must not know any
database or file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from lifecycle.errors import ConflictingUpdateError
from lifecycle.json_form import encode
from lifecycle.machine.frozen import frozen
from lifecycle.record import (
    MACHINE,
    WORKER,
    AgentLifecycle,
    AttemptRow,
    JournalEntry,
    OperatorRequest,
    PendingEffect,
    Spending,
)

Standing = Literal["new", "next", "newer", "same"]
"""What a lifecycle is to a store: unknown; of an agent whose present one is over; ahead; known."""

OF_MACHINE = (MACHINE, WORKER, "workspace")
"""Facts of a record that tell where it ran, and change when it goes elsewhere."""


@frozen
class LifecycleDocument:
    """What another part of the program keeps of a lifecycle."""

    collection: str
    key: str
    body: dict[str, Any]


@frozen
class StoredLifecycle:
    """A record and all around it."""

    record: AgentLifecycle
    journal: tuple[JournalEntry, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    pending: tuple[PendingEffect, ...] = ()
    requests: tuple[OperatorRequest, ...] = ()
    """Those that nobody answered."""
    spendings: tuple[Spending, ...] = ()
    documents: tuple[LifecycleDocument, ...] = ()


def standing(given: StoredLifecycle, here: StoredLifecycle | None) -> Standing:
    """Tell how a lifecycle stands to the one here; ConflictingUpdateError if it cannot replace it.

    It can if it is the same one, and went on from where that stands.
    """
    if here is None:
        return "new"
    agent_id, theirs, ours = given.record.agent_id, given.record.version, here.record.version
    if given.record.birth != here.record.birth:
        if here.record.is_over:
            return "next"
        raise ConflictingUpdateError(
            f"there is another lifecycle of {agent_id} here, which is not over: end it with "
            f"`loopwright accept {agent_id}` or `loopwright reject {agent_id}`, then import again"
        )
    if theirs < ours:
        raise ConflictingUpdateError(
            f"{agent_id} is older in the file (version {theirs}) than here (version {ours}); "
            "export it again where it went on"
        )
    if given.journal[: len(here.journal)] != here.journal:
        raise _apart(agent_id)
    if theirs > ours:
        return "newer"
    if _compared(given.record) != _compared(here.record):
        raise _apart(agent_id)
    return "same"


def _apart(agent_id: str) -> ConflictingUpdateError:
    return ConflictingUpdateError(
        f"{agent_id} went on both here and where the file comes from; keep the one that is to "
        "stay, and reject the other there"
    )


def _compared(record: AgentLifecycle) -> str:
    """Return a record without what each store and machine says for itself."""
    facts = {name: value for name, value in record.facts.items() if name not in OF_MACHINE}
    return encode(replace(record, facts=facts, cursor=0))
