"""Kills real runners at every place and at random times, many times over; prints a table.

    python tests/acceptance/crash_soak.py

LOOPWRIGHT_SOAK_ROUNDS: rounds with random times (default 100); LOOPWRIGHT_SOAK_SEED: of the times.
Ends with 1 if any round ended otherwise than without a crash.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.acceptance.runner_program import rounds  # noqa: E402  # started as a script
from tests.acceptance.test_sigkill import PLACES, wrong  # noqa: E402  # as above

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_LIFE = 1.0
MOST_DEATHS = 3


def places(chance: random.Random, number: int) -> Iterator[str]:
    """Name where runners die, round by round."""
    yield from PLACES
    for _ in range(number):
        deaths = chance.randint(1, MOST_DEATHS)
        yield "|".join(f"+{chance.uniform(0.02, LONGEST_LIFE):.3f}" for _ in range(deaths))


def main() -> int:
    """Play all rounds and print how they went."""
    number = int(os.environ.get("LOOPWRIGHT_SOAK_ROUNDS", "100"))
    seed = int(os.environ.get("LOOPWRIGHT_SOAK_SEED", "1"))
    chance = random.Random(seed)  # noqa: S311  # the same rounds for the same seed
    counts: Counter[tuple[str, int]] = Counter()
    slowest: dict[str, float] = {}
    failures = []
    with tempfile.TemporaryDirectory(prefix="loopwright-soak-") as folder:
        os.environ["XDG_STATE_HOME"] = str(Path(folder, "state"))
        for told in rounds(Path(folder), list(places(chance, number))):
            kind = "random times" if told["place"].startswith("+") else "named places"
            deaths = told["codes"].count(-9)
            counts[kind, deaths] += 1
            slowest[kind] = max(slowest.get(kind, 0.0), told["seconds"])
            if problem := wrong(told):
                failures.append(f"{told['place']}: {problem}")
    print(f"{'runners die':<14}{'deaths a round':>16}{'rounds':>9}{'slowest round':>16}")  # noqa: T201  # a table
    for (kind, deaths), times in sorted(counts.items()):
        print(f"{kind:<14}{deaths:>16}{times:>9}{slowest[kind]:>14.1f} s")  # noqa: T201  # as above
    print(f"seed {seed}; ended otherwise than without a crash: {len(failures)}")  # noqa: T201  # as above
    for failure in failures:
        print(f"  {failure}")  # noqa: T201  # as above
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
