"""A scope: what can be cancelled, with all scopes below it. Cooperative; forces nobody."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class AgentPhase(StrEnum):
    """States of a supervised agent that its supervisor knows; others are passed on as they are."""

    SETUP = "setup"
    WORKING = "working"
    DONE = "done"
    ERROR = "error"


TERMINAL = (AgentPhase.DONE, AgentPhase.ERROR)


class Scope:
    """Can be cancelled alone, or together with the scope above it."""

    def __init__(self, parent: Scope | None = None) -> None:
        self._parent = parent
        self._children: dict[Scope, None] = {}
        self._over = asyncio.Event()
        if parent is not None:
            parent._adopt(self)  # noqa: SLF001  # scopes know each other

    @property
    def cancelled(self) -> bool:
        """Whether it is over."""
        return self._over.is_set()

    def cancel(self) -> None:
        """End it and all below; harmless when called again."""
        self._over.set()
        children, self._children = self._children, {}
        for child in children:
            child.cancel()
        if self._parent is not None:
            self._parent._children.pop(self, None)  # noqa: SLF001  # as above

    async def wait(self) -> None:
        """Wait until it is cancelled."""
        await self._over.wait()

    async def sleep(self, seconds: float) -> bool:
        """Wait so long, or until it is cancelled; tells whether it is still good."""
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return not self.cancelled
        return False

    def _adopt(self, child: Scope) -> None:
        if self.cancelled:
            child.cancel()
        else:
            self._children[child] = None


@dataclass(frozen=True, slots=True)
class Change:
    """An agent is in another state."""

    agent_id: str
    life: int
    """Which of the agents that bore this id, from 1."""
    state: str
    error: str = ""


class AgentScope(Scope):
    """The scope of one agent's one life, and how it is told which state the agent is in."""

    def __init__(
        self, parent: Scope, agent_id: str, life: int, told: Callable[[Change], None]
    ) -> None:
        super().__init__(parent)
        self.agent_id = agent_id
        self.life = life
        self.end: Change | None = None
        """How this life ended; the first to say so is believed."""
        self.ended = asyncio.Event()
        self._told = told

    def notify(self, state: str, error: str = "") -> None:
        """Tell that the agent is in another state; `done` and `error` end this life.

        Anybody may tell (the agent itself, who sees its task end, a health check); whoever comes
        after the end is not heard.
        """
        if self.end is not None:
            return
        change = Change(self.agent_id, self.life, state, error)
        if state in TERMINAL:
            self.end = change
            self.ended.set()
        self._told(change)
