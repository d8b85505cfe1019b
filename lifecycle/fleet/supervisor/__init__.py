"""Supervises agents by type, with a policy for their ends."""

from lifecycle.fleet.supervisor.factory import AgentFactory, SupervisorError
from lifecycle.fleet.supervisor.supervisor import Supervisor

__all__ = ["AgentFactory", "Supervisor", "SupervisorError"]
