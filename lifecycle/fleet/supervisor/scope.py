"""Scopes that are cancelled together with all scopes below them; cooperative, never forced."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class AgentPhase(StrEnum):
    """States of a supervised agent that its supervisor knows; others are passed on unchanged."""

    SETUP = "setup"
    WORKING = "working"
    DONE = "done"
    ERROR = "error"
    RESTING = "resting"
    """It ended, neither done nor failed, and waits for others."""


TERMINAL = (AgentPhase.DONE, AgentPhase.ERROR, AgentPhase.RESTING)


class CancelScope:
    """Is cancelled by itself, or with the scope above it."""

    def __init__(self, parent: CancelScope | None = None) -> None:
        self._parent = parent
        self._children: dict[CancelScope, None] = {}
        self._cancelled = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []
        if parent is not None:
            parent._adopt(self)  # noqa: SLF001  # scopes know each other

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Cancel it and all scopes below; harmless when called again."""
        self._cancelled.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        children, self._children = self._children, {}
        for child in children:
            child.cancel()
        if self._parent is not None:
            self._parent._children.pop(self, None)  # noqa: SLF001  # as above

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call this when it is cancelled, at once if it was; it must not raise."""
        if self.cancelled:
            callback()
        else:
            self._callbacks.append(callback)

    async def wait(self) -> None:
        """Wait until it is cancelled."""
        await self._cancelled.wait()

    async def sleep(self, seconds: float) -> bool:
        """Wait so long, or until it is cancelled; return whether it was not cancelled."""
        try:
            async with asyncio.timeout(seconds):
                await self._cancelled.wait()
        except TimeoutError:
            return not self.cancelled
        return False

    def _adopt(self, child: CancelScope) -> None:
        if self.cancelled:
            child.cancel()
        else:
            self._children[child] = None


@dataclass(frozen=True, slots=True)
class Change:
    """An agent changed its state."""

    agent_id: str
    life: int
    """The number of this start under this id, from 1."""
    state: str
    error: str = ""


class AgentScope(CancelScope):
    """The scope of one start of an agent, which also receives its state changes."""

    def __init__(
        self, parent: CancelScope, agent_id: str, life: int, on_change: Callable[[Change], None]
    ) -> None:
        super().__init__(parent)
        self.agent_id = agent_id
        self.life = life
        self.end: Change | None = None
        """How this start ended; the first report counts."""
        self.ended = asyncio.Event()
        self._on_change = on_change

    def notify(self, state: str, error: str = "") -> None:
        """Report a state of the agent; one of `TERMINAL` ends this start.

        The agent, its supervisor or a health check may report; reports after the end are ignored.
        """
        if self.end is not None:
            return
        change = Change(self.agent_id, self.life, state, error)
        if state in TERMINAL:
            self.end = change
            self.ended.set()
        self._on_change(change)
