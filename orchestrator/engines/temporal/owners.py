"""The owners of an engine whose lifecycles are decided by workflows and worked on by workers.

Owns what a worker is told beside the working copy. What a crash of the coordinator left is gone on
with by whoever runs the lifecycles again: their workflows never ended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ci.forge_registry import FORGES
from lifecycle.json_form import plain
from lifecycle.owner.remote_owner import RemoteOwner
from lifecycle.worker.hand_over import assignment_for
from orchestrator.engines.temporal.placement import Placement, watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from lifecycle.owner.decider import Decider
    from lifecycle.perform.performer import Performer
    from lifecycle.services import MachineServices, SharedServices
    from lifecycle.worker.branch_travel import BranchTravel
    from lifecycle.working_copy import LocalCopy
    from orchestrator.engines.temporal.placement import Pollers

    MakeTravel = Callable[[MachineServices], BranchTravel]


class RemoteOwners:
    """Every lifecycle is decided elsewhere."""

    def __init__(
        self, decider: Decider, travel: MakeTravel | None = None, pollers: Pollers | None = None
    ) -> None:
        """Without `travel` workers have the coordinator's own clone.

        Without `pollers` nobody is told what no worker can take.
        """
        self._pollers = pollers
        self._watching: asyncio.Task[None] | None = None
        self._decider, self._make_travel = decider, travel
        self._locals: dict[str, LocalCopy] = {}

    def __call__(self, machine: MachineServices, performer: Performer) -> RemoteOwners:
        """Serve an engine with these services."""
        self._machine, self._performer = machine, performer
        self._travel = None if self._make_travel is None else self._make_travel(machine)
        machine.shared.one_machine = False
        return self

    def of(self, local: LocalCopy) -> RemoteOwner:
        """Return a new owner of this lifecycle."""
        shared = self._machine.shared
        self._locals[local.agent_id] = local
        return RemoteOwner(
            local, shared, self._performer, self._decider, self._equipment, drop=self._drop
        )

    async def start(self) -> None:
        """End nothing: every agent is its worker's. What no worker takes is told from now on."""
        if self._pollers is not None and self._watching is None:
            at, asking = self._pollers.of_worker, self._pollers.with_label
            placement = Placement(self.shared, self.live, asking, at)
            watching = watch(placement, self.shared.report)
            self._watching = asyncio.create_task(watching, name="what no worker takes")

    async def aclose(self) -> None:
        """Look no more who takes what."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def recover(
        self, claim: Callable[[str], AbstractContextManager[bool]]
    ) -> tuple[str, ...]:
        """Bring nothing to safety: workflows go on with what was under way."""
        del claim
        return ()

    @property
    def shared(self) -> SharedServices:
        """What all machines share, of the engine that is served."""
        return self._machine.shared

    def live(self) -> Mapping[str, LocalCopy]:
        """Return the lifecycles that run, by agent."""
        self._locals = {
            agent: local for agent, local in self._locals.items() if agent in self.shared.running
        }
        return self._locals

    async def _drop(self, agent_id: str) -> None:
        """Remove at the remote what workers needed of an agent; a forge keeps its branches."""
        if self._travel is not None:
            providers = self._machine.shared.settings().providers
            await self._travel.drop(agent_id, branch=not any(name in FORGES for name in providers))

    async def _equipment(self, local: LocalCopy) -> dict[str, Any]:
        """Return an assignment without what the workflow adds when it gives it to a worker."""
        told = plain(await assignment_for(self._machine, self._travel, local, ""))
        return {name: told[name] for name in told if name not in ("copy", "assignment_id")}
