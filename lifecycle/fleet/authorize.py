"""Who may do what with instances. The default knows three roles; one's own rules fit in its place.

Also the audit's shape: this room tells what was done and refused, and keeps no audit of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.store.instances import LOCAL_USER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID


class Role(StrEnum):
    """What somebody may do; each holds the one before."""

    VIEWER = "viewer"
    """See one's own instances."""
    OPERATOR = "operator"
    """And spawn, use, suspend, resume and terminate one's own."""
    ADMIN = "admin"
    """And do so with those of others."""


class Action(StrEnum):
    """What can be asked of a spawner."""

    VIEW = "view"
    SPAWN = "spawn"
    PROCESS = "process"
    SUSPEND = "suspend"
    RESUME = "resume"
    TERMINATE = "terminate"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks."""

    name: str = "local"
    role: Role = Role.ADMIN
    user_id: UUID = LOCAL_USER
    workspace_id: UUID | None = None


LOCAL = Actor()
"""Whoever runs the program on their own machine."""


class Authorizer(Protocol):
    """Decides whether an actor may do something."""

    async def refusal(self, actor: Actor, action: Action, owner: UUID | None) -> str:
        """Return '' if they may, else why not. `owner` is whose instance; None is everybody's."""
        ...


class RoleAuthorizer:
    """Goes by the actor's role."""

    async def refusal(self, actor: Actor, action: Action, owner: UUID | None) -> str:
        """Return '' if they may, else why not."""
        if actor.role is Role.ADMIN:
            return ""
        if owner != actor.user_id:
            return f"{actor.name} is {actor.role}, and only an admin acts on agents of others"
        if action is not Action.VIEW and actor.role is Role.VIEWER:
            return f"{actor.name} is viewer, and to {action} agents takes an operator"
        return ""


class AuditLog(Protocol):
    """Takes what was done, as `lifecycle.audit.Audit` does."""

    async def record(  # noqa: PLR0913, PLR0917  # the fields of an entry, in their order
        self,
        action: str,
        actor: str,
        subject: str,
        outcome: str,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> object:
        """Hold an act; when it returns, the act is held."""
        ...


class NoAudit:
    """Holds nothing."""

    async def record(  # noqa: PLR0913, PLR0917  # as asked for
        self,
        action: str,
        actor: str,
        subject: str,
        outcome: str,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> object:
        """Pass it by."""
        del action, actor, subject, outcome, reason, details
        return None
