"""Makes supervised agents: a new one each time, with the current settings."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.fleet.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from lifecycle.fleet.supervisor.scope import AgentScope


class SupervisorError(FleetError):
    """A supervisor cannot do what was asked."""


class SupervisedAgent(Protocol):
    """An agent as its supervisor sees it."""

    async def run(self, scope: AgentScope) -> None:
        """Work until done, or until the scope is cancelled.

        Reports `done` or `error` through the scope; returning means done, raising means error.
        """
        ...


class TaskQueue(Protocol):
    """The queue that agents take tasks from, as far as the supervisor uses it."""

    async def requeue(self, agent_id: str, reason: str) -> bool | None:
        """Put the agent's current task back; harmless if it has none.

        Return False if it cannot be put back; then the agent is not restarted.
        """
        ...


class AgentMaker(Protocol):
    """Makes agents of one type."""

    def __call__(self, agent_id: str, config: Any, dispatcher: Any) -> SupervisedAgent:
        """Return a new agent, without the state of an earlier one."""
        ...


class Factory(Protocol):
    """The source of a supervisor's agents."""

    @property
    def dispatcher(self) -> TaskQueue:
        """The queue that they take tasks from."""
        ...

    def knows(self, agent_type: str) -> bool:
        """Tell whether agents of this type can be made."""
        ...

    def new_agent(self, agent_id: str, agent_type: str) -> SupervisedAgent:
        """Return a new agent, without the state of an earlier one."""
        ...

    async def set_up(self, agent_id: str) -> None:
        """Prepare the agent's workspace for a new start."""
        ...


async def _leave_as_it_is(agent_id: str) -> None:
    del agent_id


class AgentFactory:
    """Makes agents from a maker per type.

    `config` is called for each new agent. `clean` resets the workspace of an agent; it is called at
    each set-up, so nothing has to be cleaned up when an agent ends.
    """

    def __init__(
        self,
        makers: Mapping[str, AgentMaker],
        *,
        dispatcher: TaskQueue,
        config: Callable[[], Any],
        clean: Callable[[str], Awaitable[None]] = _leave_as_it_is,
    ) -> None:
        self._makers = dict(makers)
        self.dispatcher = dispatcher
        self._config = config
        self._clean = clean

    def knows(self, agent_type: str) -> bool:
        """Tell whether agents of this type can be made."""
        return agent_type in self._makers

    def new_agent(self, agent_id: str, agent_type: str) -> SupervisedAgent:
        """Return a new agent, made with the current settings."""
        maker = self._makers.get(agent_type)
        if maker is None:
            raise SupervisorError(
                f"there is no agent type {agent_type!r}; known: {', '.join(sorted(self._makers))}"
            )
        return maker(agent_id, self._config(), self.dispatcher)

    async def set_up(self, agent_id: str) -> None:
        """Reset the agent's workspace."""
        await self._clean(agent_id)


def fresh_folders(root: Path) -> Callable[[str], Awaitable[None]]:
    """Return a `clean` that gives each agent an empty folder of its own under `root`."""

    async def clean(agent_id: str) -> None:
        if agent_id in ("", ".", "..") or "/" in agent_id or "\0" in agent_id:
            raise SupervisorError(f"{agent_id!r} is not a valid folder name")
        await asyncio.to_thread(_make_fresh, root / agent_id)

    return clean


def _make_fresh(folder: Path) -> None:
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o755, parents=True)
