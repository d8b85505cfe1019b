"""The commits of a simulated repository: each branch stands on the base alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.git.history import Unmerged

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from runtime.git.diff_parsing import FileChange


class Commits:
    """Which commit holds which: here each branch stands on the base alone."""

    async def unmerged(self, tips: Collection[str], base: str) -> Unmerged:
        return Unmerged({tip: (base,) for tip in tips if tip != base})

    async def agent_tips(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    async def merged_as(self, commit: str, into: str) -> str | None:
        del commit, into
        return None

    async def between(self, old: str, new: str, limit: int) -> tuple[tuple[str, str], ...]:
        del old, new, limit
        return ()

    async def tree_of(self, commit: str) -> str:
        return f"tree of {commit}"

    async def text_of(self, commit: str, path: str, most: int) -> str | None:
        return f"text of {path}"[:most] if commit else None

    async def holds(self, commit: str, other: str) -> bool:
        del commit, other
        return False


class Diffs:
    """Nothing differs that anybody would read."""

    async def files(self, old: str, new: str) -> tuple[FileChange, ...]:
        del old, new
        return ()

    async def hunks(
        self, old: str, new: str, files: Sequence[FileChange]
    ) -> tuple[FileChange, ...]:
        del old, new
        return tuple(files)

    async def taken_over(self, began: str, head: str, bases: Sequence[str]) -> tuple[str, ...]:
        del head, bases
        return (began,)
