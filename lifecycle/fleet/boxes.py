"""Finds the box for a program of a level and network; asks the machine once what it can make."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.fleet.command import Boxed
from lifecycle.fleet.options import IsolationLevel

if TYPE_CHECKING:
    from lifecycle.fleet.registry import AgentRequirements
    from runtime.isolation.around import Opened
    from runtime.process import SpawnOrder, TerminalManager


class Boxes:
    """Makes boxes around working folders; `state` is the runner's own folder, hidden in them."""

    def __init__(self, terminals: TerminalManager, state: Path, opened: Opened | None) -> None:
        self._terminals = terminals
        self._state = state
        self._opened = opened

    async def box_for(
        self,
        level: IsolationLevel,
        requirements: AgentRequirements,
        order: SpawnOrder,
        context: Path | None,
    ) -> Boxed:
        """Return the box for an order; IsolationUnavailableError says what would provide it."""
        if level is IsolationLevel.PROCESS and requirements.network:
            return Boxed(None)
        from runtime.isolation import around, probe  # noqa: PLC0415  # most agents are not boxed

        choice = await asyncio.to_thread(
            probe.choose,
            level.value,
            network=requirements.network,
            image=requirements.image,
            allow_weaker=order.allow_weaker,
        )
        opened = self._opened or around.Opened()
        if context is not None:
            opened = around.Opened(
                readable=(*opened.readable, context),
                writable=opened.writable,
                login=opened.login,
            )
        place = around.Place(workspace=order.cwd, state=self._state, home=Path.home())
        path = self._terminals.environment(order).get("PATH", "")
        box = around.around(choice, place, command=order.command, path=path, opened=opened)
        return Boxed(box, choice.weaker)
