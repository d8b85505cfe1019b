"""The errors of agents and their instances; each text says what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError

if TYPE_CHECKING:
    from uuid import UUID


class FleetError(LifecycleError):
    """Base of all errors that the fleet raises on purpose."""


class AgentNotFoundError(FleetError):
    """No agent definition or no instance has this id."""


class InvalidArgumentError(FleetError, TypeError, ValueError):
    """An argument has the wrong type or an impossible value."""


class LicenseError(FleetError):
    """The quota tier does not allow it."""


class ConcurrentLimitError(LicenseError):
    """As many agents are active as the quota tier allows."""

    def __init__(self, text: str, current: int, at_most: int) -> None:
        super().__init__(text)
        self.current = current
        self.at_most = at_most


class AuthorizationError(FleetError):
    """The actor may not do that."""


class SpawnValidationError(FleetError, ValueError):
    """A request has invalid values, or asks for what its agent does not support."""


class AgentInitializationError(FleetError):
    """The agent did not become ready; nothing of it is left but its record."""

    def __init__(self, text: str, instance_id: UUID | None = None) -> None:
        super().__init__(text)
        self.instance_id = instance_id


class SpawnTimeoutError(AgentInitializationError, TimeoutError):
    """The agent did not become ready in time; nothing of it is left but its record."""


class IsolationUnavailableError(AgentInitializationError):
    """This machine cannot provide the isolation or the limit that was asked for."""


class InvalidOperationError(FleetError):
    """The state of the instance does not allow that."""


class WorkTimeoutError(FleetError, TimeoutError):
    """A piece of work exceeded the execution timeout and was cancelled."""


class WorkError(FleetError):
    """An agent raises this to say that a piece of work failed, but not the agent itself."""
