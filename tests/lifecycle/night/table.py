"""Plays many nights and prints what happened in each: `make night`.

LOOPWRIGHT_NIGHT_SEEDS says how many. Must not know what is right; `rules` does.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lifecycle.night.night import NightPlay
from tests.lifecycle.night.rules import Rules, label_of
from tests.lifecycle.night.script import EVENING, HOUR, draw

if TYPE_CHECKING:
    from collections.abc import Iterable

FREE = ("rate_limit", "overloaded", "network", "auth", "interrupted", "budget")
TALK = ("task_complete", "blocked", "question", "pr_created")
HEAD = ("seed", "tasks", "attempts", "hours", "runners", "limits", "trouble", "charged", "talks")
ENDS = (
    "completed",
    "max_retries",
    "budget",
    "error",
    "blocked_timeout",
    "question",
    "no_progress",
    "dependency",
)


async def play(seed: int, folder: Path) -> tuple[list[object], list[str]]:
    """Play one night; return its line of the table and what was wrong."""
    night = await NightPlay(folder / "world", draw(seed)).through()
    kept = await night.kept()
    wrong = Rules(night, kept).broken()
    rows = [row for each in kept.values() for row in each.attempts]
    kinds = Counter(row.outcome for row in rows)
    ends = Counter(label_of(each.record) for each in kept.values())
    charged = sum(kinds.values()) - sum(kinds[each] for each in (*FREE, *TALK))
    line: list[object] = [seed, len(kept), len(rows), f"{(night.world.now - EVENING) / HOUR:.1f}"]
    line += [len(night.lives), kinds["rate_limit"], kinds["overloaded"] + kinds["network"]]
    line += [charged, sum(kinds[each] for each in TALK)]
    return [*line, *(ends[each] for each in ENDS), len(wrong)], wrong


def shown(line: Iterable[object]) -> str:
    """Return one line of the table."""
    return "".join(f"{each!s:>{len(name) + 2}}" for each, name in zip(line, NAMES, strict=True))


NAMES = (*HEAD, *ENDS, "violations")


def main() -> int:
    """Play all nights; 1 if anything was wrong in one of them."""
    number = int(os.environ.get("LOOPWRIGHT_NIGHT_SEEDS", "30"))
    bad = 0
    print(shown(NAMES))  # noqa: T201  # a table
    for seed in range(1, number + 1):
        with tempfile.TemporaryDirectory(prefix="loopwright-night-") as folder:
            line, wrong = asyncio.run(play(seed, Path(folder)))
        print(shown(line), flush=True)  # noqa: T201  # as above
        for each in wrong:
            print(f"    {each}")  # noqa: T201  # as above
        bad += bool(wrong)
    print(f"{number} nights, {bad} of them not as they have to be")  # noqa: T201  # as above
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
