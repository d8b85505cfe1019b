"""Edits in the user's checkout that are not the user's own work, so that no merge fails for them.

Owns the promise that a branch needs of whoever makes such edits. Must not know what they are.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    FileContent = Callable[[str], Awaitable[bytes | None]]


class OwnEdits(Protocol):
    """Knows such edits; `committed` returns what the current commit has of a file."""

    def aside(
        self,
        folder: Path,
        names: Sequence[str],
        committed: FileContent,
    ) -> AbstractAsyncContextManager[None]:
        """Take them out of these files for a while, and make them again in what is there then.

        A file with any other change is not touched.
        """
        ...

    async def are_all(
        self,
        folder: Path,
        names: Sequence[str],
        committed: FileContent,
    ) -> bool:
        """Tell whether these files differ from the commit by such edits alone."""
        ...


class NoOwnEdits:
    """There are none."""

    @asynccontextmanager
    async def aside(
        self,
        folder: Path,
        names: Sequence[str],
        committed: FileContent,
    ) -> AsyncIterator[None]:
        """Do nothing."""
        del folder, names, committed
        yield

    async def are_all(
        self,
        folder: Path,
        names: Sequence[str],
        committed: FileContent,
    ) -> bool:
        """Every change is the user's."""
        del folder, committed
        return not names
