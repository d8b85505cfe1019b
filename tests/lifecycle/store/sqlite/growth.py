"""A small and a large database, and what a query costs on each: so its growth is seen."""

from __future__ import annotations

import itertools
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, TypeVar

from lifecycle.store.sqlite import file

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from pathlib import Path

T = TypeVar("T")
SIZES = (1000, 4000)


@contextmanager
def two_sizes(
    folder: Path, fill: Callable[[sqlite3.Connection, int], None]
) -> Iterator[list[sqlite3.Connection]]:
    """Open a small and a large database, filled by a function that is told how many rows."""
    with ExitStack() as stack:
        made = []
        for size in SIZES:
            opened = file.open_writer(folder / f"{size}.db", durable=False, patience=5.0)
            made.append(stack.enter_context(closing(opened)))
            opened.execute("BEGIN")
            fill(opened, size)
            opened.execute("COMMIT")
        yield made


def cost(connection: sqlite3.Connection, run: Callable[[sqlite3.Connection], T]) -> tuple[int, T]:
    """Return how many steps SQLite takes for something, in tens, and its result."""
    counter = itertools.count()
    connection.set_progress_handler(lambda: next(counter) < 0, 10)
    found = run(connection)
    connection.set_progress_handler(None, 0)
    return next(counter), found
