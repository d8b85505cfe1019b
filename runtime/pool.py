"""The threads that take slow calls off an event loop, also where no more of them can be made.

Owns how the pool grows. It must not know what it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor


class SteadyPool(ThreadPoolExecutor):
    """A pool that makes do with the threads it has when the machine gives it no more."""

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            # The call is queued already: one of those that are there takes it, once it is free.
            if not self._threads:
                raise


def provide() -> None:
    """Give the running loop such a pool with its first thread, unless it has a pool already."""
    loop = asyncio.get_running_loop()
    # No public name tells; a loop of another make is given one, which does what its own does.
    if getattr(loop, "_default_executor", None) is not None:
        return
    pool = SteadyPool(thread_name_prefix="loopwright")
    loop.set_default_executor(pool)
    with contextlib.suppress(RuntimeError):  # none now; whoever needs it first tries again
        pool.submit(_nothing)


def _nothing() -> None:
    """Have a thread made, while there is room for it."""
