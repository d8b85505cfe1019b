"""How far the property-based walks go: fast by default, deep with LOOPWRIGHT_HYPOTHESIS=deep."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No database: a checkout stays clean, and a failure prints what reproduces it.
FAST = settings(
    max_examples=100,
    stateful_step_count=60,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
DEEP = settings(FAST, max_examples=5_000, stateful_step_count=200)

WALKS = DEEP if os.environ.get("LOOPWRIGHT_HYPOTHESIS") == "deep" else FAST
