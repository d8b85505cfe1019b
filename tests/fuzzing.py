"""How many examples property-based tests try: few, or many with LOOPWRIGHT_HYPOTHESIS=deep."""

from __future__ import annotations

import os

DEEP = os.environ.get("LOOPWRIGHT_HYPOTHESIS") == "deep"
"""Set by `make fuzz`."""
MORE = 25


def examples(few: int) -> int:
    """Return how many examples to try where `few` are enough for each run of the suite."""
    return few * MORE if DEEP else few
