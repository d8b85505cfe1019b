"""Lets through who may, and has everything held in the audit: what was done and what refused."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.errors import AgentInitializationError, AuthorizationError, FleetError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from lifecycle.fleet.authorize import Action, Actor, AuditLog, Authorizer
    from lifecycle.parts import Report


class Gate:
    """Asks the authorizer, tells the audit."""

    def __init__(self, authorizer: Authorizer, audit: AuditLog, report: Report) -> None:
        self._authorizer = authorizer
        self._audit = audit
        self._report = report

    async def admit(self, actor: Actor, action: Action, owner: UUID | None) -> None:
        """AuthorizationError unless the actor may do this with what is this owner's."""
        refusal = await self._authorizer.refusal(actor, action, owner)
        if refusal:
            self._report("authorization_refused", actor=actor.name, action=action, reason=refusal)
            raise AuthorizationError(f"{refusal}; ask somebody who may, or get the role")

    async def hold(  # noqa: PLR0913  # the fields of an entry
        self,
        action: Action,
        actor: Actor,
        subject: str,
        outcome: str,
        *,
        reason: str = "",
        details: dict[str, Any] | None = None,
    ) -> None:
        """Have an act held."""
        await self._audit.record(str(action), actor.name, subject, outcome, reason, details or {})

    @asynccontextmanager
    async def audited(self, action: Action, actor: Actor, subject: str) -> AsyncIterator[None]:
        """Have it held if what is done in here is refused or fails."""
        try:
            yield
        except AgentInitializationError as problem:
            shown = str(problem.instance_id or subject)
            await self.hold(action, actor, shown, "failed", reason=str(problem))
            raise
        except FleetError as problem:
            kind = {"error": type(problem).__name__}
            await self.hold(action, actor, subject, "refused", reason=str(problem), details=kind)
            raise
