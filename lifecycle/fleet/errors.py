"""What can go wrong with agents and their instances; each text says what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError

if TYPE_CHECKING:
    from uuid import UUID


class FleetError(LifecycleError):
    """Anything that spawner, registry and their parts raise on purpose."""


class AgentNotFoundError(FleetError):
    """No agent definition or no instance has this id."""


class LicenseError(FleetError):
    """The quota tier does not allow it."""


class AuthorizationError(FleetError):
    """Whoever asked may not do that."""


class SpawnValidationError(FleetError, ValueError):
    """A request has impossible values, or asks for what its agent cannot be."""


class AgentInitializationError(FleetError):
    """The agent did not get ready; nothing of it is left but its record."""

    def __init__(self, text: str, instance_id: UUID | None = None) -> None:
        super().__init__(text)
        self.instance_id = instance_id


class SpawnTimeoutError(AgentInitializationError, TimeoutError):
    """The agent did not get ready in time; nothing of it is left but its record."""


class IsolationUnavailableError(AgentInitializationError):
    """This machine cannot give the isolation or the limit that was asked for."""


class InvalidOperationError(FleetError):
    """The instance is in a state in which that cannot be done."""


class WorkTimeoutError(FleetError, TimeoutError):
    """A piece of work took longer than the execution timeout and was cancelled."""


class WorkError(FleetError):
    """An agent raises this to say that a piece of work failed, but not the agent itself."""
