"""How long a piece of work takes, told so that a busy machine is not a defect."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES = 10


def shortest(work: Callable[[], object], enough: float) -> float:
    """Return the shortest of several tries in seconds; one within `enough` is the last.

    The collector rests meanwhile: what it goes through is what other tests left in this process.
    """
    best = float("inf")
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(TRIES):
            began = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - began)
            if best <= enough:
                break
    finally:
        if collecting:
            gc.enable()
    return best
