"""The thread pool for blocking calls, which works even if no more threads can be created.

Owns how the pool grows. It must not know what it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor


class SteadyPool(ThreadPoolExecutor):
    """A pool that keeps working with the threads it has if no more can be created."""

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            # The call is queued already: an existing thread will run it.
            if not self._threads:
                raise


def provide() -> None:
    """Set such a pool, with one thread, on the running loop, unless it has a pool already."""
    loop = asyncio.get_running_loop()
    # There is no public attribute; on another kind of loop a pool is simply set.
    if getattr(loop, "_default_executor", None) is not None:
        return
    pool = SteadyPool(thread_name_prefix="loopwright")
    loop.set_default_executor(pool)
    with contextlib.suppress(RuntimeError):  # not now; the first call tries again
        pool.submit(_nothing)


def _nothing() -> None:
    """Make the pool create a thread while that is possible."""
