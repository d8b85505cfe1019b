"""Agents as instances, of the caller's program or of loops; and populations of agents.

What a spawn needs can be imported from here; each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lifecycle.fleet.api.authorization import Actor, NoAudit, Role
    from lifecycle.fleet.api.events import (
        AgentErrorEvent,
        AgentEvent,
        AgentEventsDroppedEvent,
        AgentHealthChangedEvent,
        AgentMetricsUpdatedEvent,
        AgentRestartingEvent,
        AgentSpawnedEvent,
        AgentStateChangedEvent,
        AgentTerminatedEvent,
    )
    from lifecycle.fleet.api.instances import (
        AgentHealthStatus,
        AgentInstance,
        AgentMetrics,
        HealthState,
        InstanceState,
    )
    from lifecycle.fleet.api.options import (
        AgentPriority,
        AgentSpawnOptions,
        HealthCheckConfig,
        IsolationLevel,
        ResourceLimits,
        RestartPolicy,
        RestartPolicyType,
        SpawnRequest,
    )
    from lifecycle.fleet.api.queries import (
        GetInstancesFilter,
        LifecycleStatistics,
        ObservationOptions,
        TerminationOptions,
        TerminationResult,
    )
    from lifecycle.fleet.api.quota import Tier
    from lifecycle.fleet.api.registry import (
        AgentContext,
        AgentDefinition,
        AgentManifest,
        AgentRegistry,
        AgentRequirements,
        CleanupHook,
        CommandAgent,
        InProcessAgent,
    )
    from lifecycle.fleet.errors import (
        AgentInitializationError,
        AgentNotFoundError,
        AuthorizationError,
        ConcurrentLimitError,
        FleetError,
        InvalidArgumentError,
        InvalidOperationError,
        IsolationUnavailableError,
        LicenseError,
        SpawnTimeoutError,
        SpawnValidationError,
        WorkError,
        WorkTimeoutError,
    )
    from lifecycle.fleet.spawner.restart_policy import CrashLoop
    from lifecycle.fleet.spawner.spawner import AgentSpawner
    from lifecycle.fleet.validation import ValidationResult

__all__ = [
    "Actor",
    "AgentContext",
    "AgentDefinition",
    "AgentErrorEvent",
    "AgentEvent",
    "AgentEventsDroppedEvent",
    "AgentHealthChangedEvent",
    "AgentHealthStatus",
    "AgentInitializationError",
    "AgentInstance",
    "AgentManifest",
    "AgentMetrics",
    "AgentMetricsUpdatedEvent",
    "AgentNotFoundError",
    "AgentPriority",
    "AgentRegistry",
    "AgentRequirements",
    "AgentRestartingEvent",
    "AgentSpawnOptions",
    "AgentSpawnedEvent",
    "AgentSpawner",
    "AgentStateChangedEvent",
    "AgentTerminatedEvent",
    "AuthorizationError",
    "CleanupHook",
    "CommandAgent",
    "ConcurrentLimitError",
    "CrashLoop",
    "FleetError",
    "GetInstancesFilter",
    "HealthCheckConfig",
    "HealthState",
    "InProcessAgent",
    "InstanceState",
    "InvalidArgumentError",
    "InvalidOperationError",
    "IsolationLevel",
    "IsolationUnavailableError",
    "LicenseError",
    "LifecycleStatistics",
    "NoAudit",
    "ObservationOptions",
    "ResourceLimits",
    "RestartPolicy",
    "RestartPolicyType",
    "Role",
    "SpawnRequest",
    "SpawnTimeoutError",
    "SpawnValidationError",
    "TerminationOptions",
    "TerminationResult",
    "Tier",
    "ValidationResult",
    "WorkError",
    "WorkTimeoutError",
]

_MODULES = {
    "api.authorization": ("Actor", "NoAudit", "Role"),
    "api.events": (
        "AgentErrorEvent",
        "AgentEvent",
        "AgentEventsDroppedEvent",
        "AgentHealthChangedEvent",
        "AgentMetricsUpdatedEvent",
        "AgentRestartingEvent",
        "AgentSpawnedEvent",
        "AgentStateChangedEvent",
        "AgentTerminatedEvent",
    ),
    "api.instances": (
        "AgentHealthStatus",
        "AgentInstance",
        "AgentMetrics",
        "HealthState",
        "InstanceState",
    ),
    "api.options": (
        "AgentPriority",
        "AgentSpawnOptions",
        "HealthCheckConfig",
        "IsolationLevel",
        "ResourceLimits",
        "RestartPolicy",
        "RestartPolicyType",
        "SpawnRequest",
    ),
    "api.queries": (
        "GetInstancesFilter",
        "LifecycleStatistics",
        "ObservationOptions",
        "TerminationOptions",
        "TerminationResult",
    ),
    "api.quota": ("Tier",),
    "api.registry": (
        "AgentContext",
        "AgentDefinition",
        "AgentManifest",
        "AgentRegistry",
        "AgentRequirements",
        "CleanupHook",
        "CommandAgent",
        "InProcessAgent",
    ),
    "errors": (
        "AgentInitializationError",
        "AgentNotFoundError",
        "AuthorizationError",
        "ConcurrentLimitError",
        "FleetError",
        "InvalidArgumentError",
        "InvalidOperationError",
        "IsolationUnavailableError",
        "LicenseError",
        "SpawnTimeoutError",
        "SpawnValidationError",
        "WorkError",
        "WorkTimeoutError",
    ),
    "spawner.restart_policy": ("CrashLoop",),
    "spawner.spawner": ("AgentSpawner",),
    "validation": ("ValidationResult",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Name what can be imported."""
    return sorted({*globals(), *__all__})
