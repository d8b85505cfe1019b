"""What a lifecycle is, and the loop that drives it.

Nouns: a `Task` is to be done by an `Agent` (`plan`); their `AgentLifecycle` is the canonical record
(`record`, `store`); an attempt is one fresh process (`perform`, `attempt`); between two attempts
stands a `ContextSnapshot`, rendered into a summary (`context`).

Flow: `loop.AgentLifecycleLoop` joins the parts and opens an `engine.LocalEngine`, which gives each
lifecycle an `owner.Owner`. The owner takes one fact, asks `machine.table.decide`, commits the step
to the store, and only then has the `performer` carry out its orders.

The names that callers need are imported from their modules when they are first used.
"""

from importlib import import_module

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from lifecycle.context import ContextBuilder, ContextSnapshot
    from lifecycle.fleet.api.options import SpawnRequest
    from lifecycle.fleet.manager import LifecycleManager
    from lifecycle.fleet.spawner import AgentSpawner
    from lifecycle.fleet.supervisor import Supervisor
    from lifecycle.loop import AgentLifecycleLoop, LoopResult, LoopResultType
    from lifecycle.plan import Agent, Plan, Task
    from lifecycle.record import AgentLifecycle, AgentState

__all__ = [
    "Agent",
    "AgentLifecycle",
    "AgentLifecycleLoop",
    "AgentSpawner",
    "AgentState",
    "ContextBuilder",
    "ContextSnapshot",
    "LifecycleManager",
    "LoopResult",
    "LoopResultType",
    "Plan",
    "SpawnRequest",
    "Supervisor",
    "Task",
]

_HOMES = {
    "lifecycle.context": ("ContextBuilder", "ContextSnapshot"),
    "lifecycle.fleet.api.options": ("SpawnRequest",),
    "lifecycle.fleet.manager": ("LifecycleManager",),
    "lifecycle.fleet.spawner": ("AgentSpawner",),
    "lifecycle.fleet.supervisor": ("Supervisor",),
    "lifecycle.loop": ("AgentLifecycleLoop", "LoopResult", "LoopResultType"),
    "lifecycle.plan": ("Agent", "Plan", "Task"),
    "lifecycle.record": ("AgentLifecycle", "AgentState"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            found: object = getattr(import_module(home), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
