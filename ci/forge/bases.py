"""The bases of watched pull requests: which of them have new commits.

Owns what was last known of their heads. What is looked at because of that is decided in
`ci.forge.watching`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import GarbledError, MissingError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ci.forge.protocol import Forge, ForgePull


class Bases:
    """The heads of base branches on one forge."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge
        self._heads: dict[str, str] = {}

    async def moved(self, bases: Collection[str], listed: Iterable[ForgePull]) -> tuple[str, ...]:
        """Return which of the bases have moved since the last call.

        A forge whose list of pull requests shows the heads of their bases is asked nothing more.
        """
        shown = {pull.base: pull.base_head for pull in listed if pull.base_head}
        heads = {base: shown.get(base) or await self._ask(base) for base in sorted(bases)}
        before, self._heads = self._heads, {base: head for base, head in heads.items() if head}
        return tuple(base for base, head in self._heads.items() if before.get(base, head) != head)

    async def _ask(self, base: str) -> str:
        try:
            return await self._forge.head(base) or ""
        except (GarbledError, MissingError, RefusedError):
            return ""
