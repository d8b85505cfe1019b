"""How far the property-based walks go: fast by default, deep with LOOPWRIGHT_HYPOTHESIS=deep."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No database: a checkout stays clean, and a failure prints what reproduces it.
FAST = settings(
    max_examples=100,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
DEEP = settings(FAST, max_examples=5_000)

_deep = os.environ.get("LOOPWRIGHT_HYPOTHESIS") == "deep"
WALKS = DEEP if _deep else FAST
FAR = 1_000 if _deep else 400
"""Steps of one walk, at most."""
MINUTES = 30 if _deep else 1
"""A deep run may take longer than a test otherwise may."""
