"""The numbers that `decide` goes by, and the arithmetic of waiting. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One reading of the settings, as far as decisions depend on them."""

    max_retries: int = 100
    max_attempts: int = 1000
    retry_interval: float = 30.0
    retry_interval_cap: float = 600.0
    blocked_timeout: float = 86400.0
    pr_merge_timeout: float = 3600.0
    stuck_limit: int = 5
    ci_fix_limit: int = 5
    max_faults: int = 10
    has_gates: bool = False
    review_summaries: bool = False
    seed: int = 0
    """Spreads the jitter of different lifecycles."""


SPREAD = 0.25
"""How far a wait is moved up or down at random."""


def delay(policy: Policy, nth: int) -> float:
    """Return the wait before the next attempt after the nth failure in a row.

    The first wait is `retry_interval` itself; later ones double up to the cap, 25 % up or down so
    that lifecycles which failed together do not come back together.
    """
    if nth <= 1 or policy.retry_interval == 0:
        return min(policy.retry_interval, policy.retry_interval_cap)
    # The cap holds for the wait as spread, so that it never exceeds what the user set.
    highest = policy.retry_interval_cap / (1 + SPREAD)
    grown = min(policy.retry_interval * 2.0 ** min(nth - 1, 32), highest)
    return grown * (1 - SPREAD + 2 * SPREAD * _spread(policy.seed, nth))


def _spread(seed: int, nth: int) -> float:
    """Return a number in [0, 1) that depends on nothing but its arguments."""
    mixed = (seed * 2654435761 + nth * 40503 + 12345) & 0xFFFFFFFF
    mixed ^= mixed >> 16
    mixed = (mixed * 0x45D9F3B) & 0xFFFFFFFF
    mixed ^= mixed >> 16
    return mixed / 2**32
