"""What a runner that stays keeps in memory of lifecycles that are over: next to nothing."""

from __future__ import annotations

import gc
import os
from collections import Counter
from typing import TYPE_CHECKING

from bench.growth import Feeding, grow
from orchestrator.web import hub

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FIRST, LAST = 30, 90
CACHED = {"PosixPath", "list", "ReferenceType"}
"""Of caches that have a bound, far above what a test gets to."""


async def test_a_runner_that_stays_keeps_next_to_nothing_of_what_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "KEPT", 20)
    kept: list[Counter[str]] = []

    def reached(count: int) -> None:
        del count
        gc.collect()
        kept.append(Counter(type(each).__name__ for each in gc.get_objects()))

    ending = await grow(tmp_path, os.environ, Feeding([FIRST, LAST], reached))

    more = kept[1] - kept[0]
    each = {kind for kind, count in more.items() if count > (LAST - FIRST) / 2}
    assert each - CACHED == set()
    assert ending.results == {}
    assert ending.records == {}
