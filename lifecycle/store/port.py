"""What every lifecycle store promises. The contract suite runs on each implementation.

All methods are safe to call from many tasks of one event loop. Whatever a method acknowledged by
returning survives a crash of the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ci.inbox import Deliveries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.audit import Trail
    from lifecycle.machine.events import Event
    from lifecycle.machine.money import Spent
    from lifecycle.record import (
        AgentLifecycle,
        AgentState,
        AttemptRow,
        Commit,
        Filter,
        JournalEntry,
        Outline,
        PendingEffect,
        Request,
        Spending,
        SpendingSum,
    )
    from lifecycle.store.damage import Damaged, Listed


class Inbox(Deliveries, Protocol):
    """The deliveries of a store, which people look for by what they remember of a key."""

    async def keys(self, start: str, *, limit: int = 10) -> tuple[str, ...]:
        """Return keys that begin with a text, in their order."""
        ...


class Spendings(Protocol):
    """What attempts used. It outlives the lifecycles: `delete` takes none of it away."""

    async def spendings(
        self, since: float = 0.0, *, agent_id: str | None = None, plan: str | None = None
    ) -> list[Spending]:
        """Return what attempts used that ended since then, the oldest first."""
        ...

    async def spent(
        self, since: float = 0.0, *, agent_id: str | None = None, plan: str | None = None
    ) -> Spent:
        """Return what those attempts used together, as far as it is known."""
        ...

    async def spending_sums(self) -> list[SpendingSum]:
        """Return the sums of each lifecycle in each plan."""
        ...

    async def forget_spending(self, now: float, keep: float) -> int:
        """Remove what ended more than `keep` seconds before now, and before the newest there is.

        Returns how many attempts that were.
        """
        ...


class LifecycleStore(Spendings, Protocol):
    """The one canonical place of lifecycle records."""

    @property
    def trail(self) -> Trail:
        """Where the audit is kept; what a decision adds to it is written with the decision."""
        ...

    @property
    def deliveries(self) -> Inbox:
        """Where webhook requests are kept; one that was added survives a power failure, too."""
        ...

    async def create(self, lifecycle: AgentLifecycle) -> AgentLifecycle:
        """Add a new record; refuses with ConflictingUpdateError if the agent has one."""
        ...

    async def update(self, lifecycle: AgentLifecycle) -> AgentLifecycle:
        """Write a record read before; ConflictingUpdateError if somebody wrote it meanwhile."""
        ...

    async def get(self, agent_id: str) -> AgentLifecycle | None:
        """Return the agent's record, or None; RecordDamagedError when it cannot be read."""
        ...

    async def delete(self, agent_id: str) -> bool:
        """Remove the record and all rows around it; says whether there was one."""
        ...

    async def list(
        self, which: Filter | None = None, *, cursor: int | None = None, limit: int = 50
    ) -> Listed:
        """Return a page of records, newest created first, by keyset (limit 1 to 1000).

        Records that cannot be read are named in its `damaged`, and keep no other from being read.
        """
        ...

    async def outlines(self, states: Sequence[AgentState] = ()) -> tuple[Outline, ...]:
        """Return all records in outline, of these states or of any, the newest created first."""
        ...

    async def commit(self, commit: Commit) -> None:
        """Write one decision in one transaction.

        Creates the record if its version is 0 and none exists; raises ConflictingUpdateError if
        the stored version differs from the one in `commit.record`. On success the record's
        `version` and `updated_at` are counted up in place (`updated_at` is the caller's).
        """
        ...

    async def pending(self, agent_id: str) -> tuple[PendingEffect, ...]:
        """Return the orders not known to be carried out, oldest first."""
        ...

    async def effects_done(self, effect_ids: Sequence[str]) -> None:
        """Mark orders as carried out that bring no event of their own."""
        ...

    async def journal(
        self, agent_id: str, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> tuple[JournalEntry, ...]:
        """Return journal entries in order; with `newest`, the last `limit` of them."""
        ...

    async def attempts(self, agent_id: str, *, limit: int | None = None) -> tuple[AttemptRow, ...]:
        """Return the ledger in order; with a limit, the last ones."""
        ...

    async def ask(self, agent_id: str, event: Event) -> int:
        """Leave a request for the owner of a lifecycle; returns its id."""
        ...

    def stamp(self) -> object:
        """Return what changes with every write, by whichever process; costs next to nothing.

        Two writes in the same instant may leave the same stamp.
        """
        ...

    async def requests(self, *, after: int = 0) -> tuple[Request, ...]:
        """Return the requests nobody answered yet, oldest first."""
        ...

    async def answer_request(self, request_id: int, problem: str = "") -> None:
        """Close a request that led to no decision, with the reason."""
        ...

    async def request_outcome(self, request_id: int) -> str | None:
        """Return None while it waits, '' once it was answered, else why it was refused."""
        ...

    async def put(self, collection: str, key: str, body: dict[str, Any]) -> None:
        """Keep a document of another part of the program (local CI and the like)."""
        ...

    async def all(self, collection: str) -> dict[str, dict[str, Any]]:
        """Return all documents of a collection, in the order they were first put."""
        ...

    async def remove(self, collection: str, key: str) -> None:
        """Forget a document; harmless when there is none."""
        ...

    async def unfinished(self) -> tuple[AgentLifecycle, ...]:
        """Return all records that a loop drives and that have not ended, but for the damaged."""
        ...

    async def damaged(self) -> tuple[Damaged, ...]:
        """Return those unfinished ones that cannot be read; nothing ever changes them."""
        ...

    async def aclose(self) -> None:
        """Write what is queued, then close."""
        ...
