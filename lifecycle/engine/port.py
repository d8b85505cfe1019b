"""What every engine offers to those who run lifecycles, steer them and show them.

`lifecycle.engine.engine` is the one for a single machine; one over many machines decides the same
on the same store. `tests/lifecycle/engine/contract.py` says what any of them must hold. Must not
name a machine's folders or processes: of these only who is on that machine may speak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci.events import CIEvent
    from lifecycle.machine.events import Event
    from lifecycle.plan import Agent, Task
    from lifecycle.record import AgentLifecycle
    from lifecycle.result import LoopResult
    from lifecycle.services import SharedServices
    from lifecycle.working_copy import LocalCopy


class Engine(Protocol):
    """Runs lifecycles: each has one owner at a time, which takes one fact after the other.

    What it decided is in the store before anything is done about it. An engine that dies at any
    point is followed by another that continues from the store, and ends in the same record.
    """

    @property
    def shared(self) -> SharedServices:
        """What all machines share, the store above all."""
        ...

    async def start(self) -> None:
        """Bring to safety what an earlier engine left in the middle, then listen; at most once."""
        ...

    async def run(
        self,
        agent: Agent,
        task: Task,
        *,
        resume: bool = True,
        after_reject: bool = False,
        ending: Callable[[Callable[[], None]], None] | None = None,
    ) -> LoopResult:
        """Run the lifecycle of an agent on a task until it ends or rests; continue where it was.

        With `resume`, one that was held or given up continues at once. With `after_reject` what a
        person rejected begins again, with a record of its own. `ending` is handed what ends this
        loop alone. LifecycleError when it runs.
        """
        ...

    async def ask(
        self, agent_id: str, event: Event, *, request: int | None = None
    ) -> AgentLifecycle:
        """Let a lifecycle take a fact, whether it runs or not, and return its record; starts none.

        `request` is the id under which the fact is in the store already; without one it is put
        there first. Under one id a fact takes effect once, however often it is asked for and
        also if a runner dies meanwhile. LifecycleError says why it was refused, or was in vain.
        """
        ...

    def hear(self, event: CIEvent) -> None:
        """Take what CI says about a branch or an agent; kept until its lifecycle waits for it."""
        ...

    async def settle(self, task_id: str) -> None:
        """Tell those that wait for a task what became of it."""
        ...

    def running(self) -> Mapping[str, LocalCopy]:
        """Return the lifecycles that run, by agent id; only to be read."""
        ...

    def drain(self, agent_id: str) -> None:
        """End one soon, with its work saved and its record resumable; `run` returns then."""
        ...

    async def shutdown(self) -> None:
        """Drain all, and begin nothing any more; returns when none runs."""
        ...

    async def kill(self) -> None:
        """End every agent's processes at once; what was being saved is finished all the same."""
        ...

    async def aclose(self) -> None:
        """Shut down and release everything; nothing is left running."""
        ...
