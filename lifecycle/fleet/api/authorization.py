"""Who may do what with instances: three roles by default, or an authorizer of your own.

Also the interface of the audit log. Must not keep an audit itself.
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
    """What an actor may do; each role includes the one before."""

    VIEWER = "viewer"
    """See their own instances."""
    OPERATOR = "operator"
    """Also spawn, use, suspend, resume and terminate their own instances."""
    ADMIN = "admin"
    """Also do this with the instances of others."""


class Action(StrEnum):
    """The operations of a spawner."""

    VIEW = "view"
    SPAWN = "spawn"
    PROCESS = "process"
    SUSPEND = "suspend"
    RESUME = "resume"
    TERMINATE = "terminate"


@dataclass(frozen=True, slots=True)
class Actor:
    """The user or program that asks."""

    name: str = "local"
    role: Role = Role.ADMIN
    user_id: UUID = LOCAL_USER
    workspace_id: UUID | None = None


LOCAL = Actor()
"""The user who runs the program on their own machine."""


class Authorizer(Protocol):
    """Decides whether an actor may do something."""

    async def refusal(self, actor: Actor, action: Action, owner: UUID | None) -> str:
        """Return an empty string if they may, else why not. The owner None stands for everybody."""
        ...


class RoleAuthorizer:
    """Decides by the actor's role."""

    async def refusal(self, actor: Actor, action: Action, owner: UUID | None) -> str:
        """Return an empty string if they may, else why not."""
        if actor.role is Role.ADMIN:
            return ""
        if owner != actor.user_id:
            return (
                f"{actor.name} has the role {actor.role}; "
                "only an admin may act on the agents of others"
            )
        if action is not Action.VIEW and actor.role is Role.VIEWER:
            return f"{actor.name} has the role viewer; only an operator may {action} agents"
        return ""


class AuditLog(Protocol):
    """Records operations, as `lifecycle.audit.Audit` does."""

    async def record(  # noqa: PLR0913, PLR0917  # the fields of an entry, in their order
        self,
        action: str,
        actor: str,
        subject: str,
        outcome: str,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> object:
        """Record an operation; it is durable when this returns."""
        ...


class NoAudit:
    """An audit log that keeps nothing, for spawners that need none."""

    async def record(  # noqa: PLR0913, PLR0917  # as above
        self,
        action: str,
        actor: str,
        subject: str,
        outcome: str,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Do nothing."""
        del action, actor, subject, outcome, reason, details
