"""Holding a process tree still, and letting it go on.

By the freezer of its control group where it has one, else by stop signals to every member. It must
not end anything, and must not know why a tree is to rest.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from runtime import containment
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.cgroups.groups import Group
    from runtime.proctree import Row

_PATIENCE = 5.0
_STEP = 0.002


class SuspendError(RuntimeFault):
    """A process tree cannot be suspended."""


class Suspension:
    """One tree at rest. `find` finds what is alive of it."""

    def __init__(self, find: Callable[[], Mapping[int, Row]], group: Group | None) -> None:
        self._find = find
        self._group = group if group is not None and group.freezes else None
        self._held: set[tuple[int, int]] = set()

    async def begin(self) -> bool:
        """Hold everything still; False when that is in vain."""
        if self._group is not None:
            self._group.freeze(frozen=True)
            deadline = asyncio.get_running_loop().time() + _PATIENCE
            while not (self._group.frozen() or self._group.empty()):
                if asyncio.get_running_loop().time() > deadline:
                    return False
                await asyncio.sleep(_STEP)
        # Without a group that is everybody; else only who has left it.
        return await containment.hold(self._outside, self._held)

    def _outside(self) -> dict[int, Row]:
        inside = set() if self._group is None else self._group.members()
        return {pid: row for pid, row in self._find().items() if pid not in inside}

    def end(self) -> None:
        """Let it go on; who was stopped before by somebody else stays so."""
        if self._group is not None:
            self._group.freeze(frozen=False)
        if self._held:
            containment.release(self._find().values(), self._held)
