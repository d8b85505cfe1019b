"""Makes supervised agents: fresh ones each time, by the settings of that moment."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.fleet.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from lifecycle.fleet.scope import AgentScope


class SupervisorError(FleetError):
    """Something a supervisor cannot do."""


class SupervisedAgent(Protocol):
    """An agent as its supervisor sees it."""

    async def run(self, scope: AgentScope) -> None:
        """Work until done, or until the scope is cancelled.

        Tells `done` or `error` through the scope; to return means done, to raise means error.
        """
        ...


class Dispatcher(Protocol):
    """The queue that agents take tasks from; agents know more of it than the supervisor does."""

    async def requeue(self, agent_id: str, reason: str) -> None:
        """Put back what this agent was at; harmless when it was at nothing."""
        ...


class Maker(Protocol):
    """Makes an agent of one type."""

    def __call__(self, agent_id: str, config: Any, dispatcher: Any) -> SupervisedAgent:
        """Return a new agent that remembers nothing of an earlier one."""
        ...


async def _leave_as_it_is(agent_id: str) -> None:
    del agent_id


class AgentFactory:
    """Makes agents with no more than they need to run.

    `config` is asked anew for each agent. `clean` makes the workspace of an agent fresh; it is
    called at each set-up, so nothing has to be cleaned up when an agent ends.
    """

    def __init__(
        self,
        makers: Mapping[str, Maker],
        *,
        dispatcher: Dispatcher,
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
        """Return a fresh agent, made by the settings as they are now."""
        maker = self._makers.get(agent_type)
        if maker is None:
            raise SupervisorError(
                f"there is no agent type {agent_type!r}; known: {', '.join(sorted(self._makers))}"
            )
        return maker(agent_id, self._config(), self.dispatcher)

    async def set_up(self, agent_id: str) -> None:
        """Make the agent's workspace fresh."""
        await self._clean(agent_id)


def fresh_folders(root: Path) -> Callable[[str], Awaitable[None]]:
    """Return a `clean` that gives each agent an empty folder of its own below `root`."""

    async def clean(agent_id: str) -> None:
        if agent_id in ("", ".", "..") or "/" in agent_id or "\0" in agent_id:
            raise SupervisorError(f"{agent_id!r} cannot be the name of a folder")
        await asyncio.to_thread(_make_fresh, root / agent_id)

    return clean


def _make_fresh(folder: Path) -> None:
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o755, parents=True)
