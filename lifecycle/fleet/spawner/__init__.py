"""Creates, restarts, suspends and terminates instances, and accounts for each."""

from lifecycle.fleet.api.instances import InstanceState as AgentState
from lifecycle.fleet.spawner.spawner import AgentSpawner

__all__ = ["AgentSpawner", "AgentState"]
