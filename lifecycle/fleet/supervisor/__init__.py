"""Supervises agents by type, with a policy for their ends."""

from lifecycle.fleet.supervisor.factory import AgentFactory, SupervisorError
from lifecycle.fleet.supervisor.scope import AgentScope
from lifecycle.fleet.supervisor.supervisor import OnEnd, Supervisor, SupervisorPolicy

RestartPolicy = SupervisorPolicy
"""The same, by the name that it has in the design of the supervisor."""

__all__ = [
    "AgentFactory",
    "AgentScope",
    "OnEnd",
    "RestartPolicy",
    "Supervisor",
    "SupervisorError",
    "SupervisorPolicy",
]
