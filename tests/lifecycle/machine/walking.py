"""How far the property-based walks go: fast by default, deep with LOOPWRIGHT_HYPOTHESIS=deep."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.fuzzing import DEEP as _DEEP

# No database: a checkout stays clean, and a failure prints what reproduces it.
FAST = settings(
    max_examples=50,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
DEEP = settings(FAST, max_examples=5_000)

WALKS = DEEP if _DEEP else FAST
FAR = 1_000 if _DEEP else 400
"""Steps of one walk, at most."""
MINUTES = 30 if _DEEP else 1
"""A deep run may take longer than a test otherwise may."""
