"""Checks each operation with the authorizer, and records it in the audit, done or refused."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lifecycle.audit import RUNNER
from lifecycle.fleet.errors import AgentInitializationError, AuthorizationError, FleetError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from lifecycle.fleet.api.authorization import Action, Actor, AuditLog, Authorizer
    from lifecycle.reporting import Report


@dataclass(slots=True)
class Outcome:
    """What the audit is told of an operation."""

    subject: str
    outcome: str = "done"
    reason: str = ""
    details: dict[str, Any] = field(default_factory=dict)


class AuthorizationGate:
    """Asks the authorizer and writes to the audit."""

    def __init__(self, authorizer: Authorizer, audit: AuditLog, report: Report) -> None:
        self._authorizer = authorizer
        self._audit = audit
        self._report = report

    async def authorize(self, actor: Actor, action: Action, owner: UUID | None) -> None:
        """Raise AuthorizationError unless the actor may do this with an instance of this owner."""
        refusal = await self._authorizer.refusal(actor, action, owner)
        if refusal:
            self._report("authorization_refused", actor=actor.name, action=action, reason=refusal)
            raise AuthorizationError(f"{refusal}; ask an actor with that role, or obtain it")

    @asynccontextmanager
    async def audited(self, action: Action, actor: Actor, subject: str) -> AsyncIterator[Outcome]:
        """Record what becomes of the operation in the block: done, refused or failed.

        The block may say more about what is done.
        """
        entry = Outcome(subject)
        try:
            yield entry
        except AgentInitializationError as problem:
            entry = Outcome(str(problem.instance_id or subject), "failed", str(problem))
            await self._record(action, actor, entry)
            raise
        except FleetError as problem:
            entry = Outcome(subject, "refused", str(problem), {"error": type(problem).__name__})
            await self._record(action, actor, entry)
            raise
        await self._record(action, actor, entry)

    async def note(
        self, action: str, subject: str, outcome: str, reason: str, details: dict[str, Any]
    ) -> None:
        """Record in the audit what no actor asked for."""
        await self._audit.record(action, RUNNER, subject, outcome, reason, details)

    async def _record(self, action: Action, actor: Actor, entry: Outcome) -> None:
        await self._audit.record(
            str(action), actor.name, entry.subject, entry.outcome, entry.reason, entry.details
        )
