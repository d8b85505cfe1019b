"""The numbers that `decide` goes by, and the arithmetic of waiting. Pure."""

from __future__ import annotations

from lifecycle.machine.frozen import frozen


@frozen
class Policy:
    """One reading of the settings, as far as decisions depend on them."""

    max_retries: int = 100
    own_retries: bool = False
    """The task names `max_retries` itself; else they are those of the settings."""
    max_attempts: int = 1000
    retry_interval: float = 30.0
    retry_interval_cap: float = 600.0
    blocked_timeout: float = 86400.0
    pr_merge_timeout: float = 3600.0
    pr_reminder: float = 0.0
    """Instead of giving a pull request up, a person is reminded of it this often."""
    stuck_limit: int = 3
    same_gate_limit: int = 5
    breaker_cooldown: float = 3600.0
    breaker_cooldown_cap: float = 86400.0
    limit_interval: float = 300.0
    limit_interval_cap: float = 3600.0
    limit_margin: float = 30.0
    limit_patience: float = 691200.0
    trouble_interval: float = 30.0
    trouble_interval_cap: float = 900.0
    max_troubles: int = 50
    programs: tuple[str, ...] = ()
    """The chain, the best first; empty where there is no choice."""
    ci_fix_limit: int = 5
    resolves: bool = True
    """Work that does not go together goes to an agent, not to a person."""
    conflict_limit: int = 3
    max_faults: int = 10
    has_gates: bool = False
    review_summaries: bool = False
    reviews: bool = False
    """A second opinion is asked for before work counts as done."""
    review_rounds: int = 2
    review_severity: str = "major"
    seed: int = 0
    """Spreads the jitter of different lifecycles."""


SPREAD = 0.25
"""How far a wait is moved up or down at random."""


def delay(policy: Policy, nth: int) -> float:
    """Return the wait before the next attempt after the nth failure in a row.

    The first wait is `retry_interval` itself; later ones double up to the cap, 25 % up or down so
    that lifecycles which failed together do not come back together.
    """
    return growing(policy.retry_interval, policy.retry_interval_cap, policy.seed, nth)


def growing(first: float, cap: float, seed: int, nth: int) -> float:
    """Return the nth of waits that double from `first` up to the cap, spread by the seed."""
    if nth <= 1 or first == 0:
        return min(first, cap)
    # The cap holds for the wait as spread, so that it never exceeds what the user set.
    highest = cap / (1 + SPREAD)
    grown = min(first * 2.0 ** min(nth - 1, 32), highest)
    return grown * (1 - SPREAD + 2 * SPREAD * _spread(seed, nth))


def after_reset(policy: Policy, at: float, reset_at: float) -> float:
    """Return when to try again after a limit ends: not all of those that wait at once."""
    return max(at, reset_at) + policy.limit_margin * (1 + _spread(policy.seed, 1))


def _spread(seed: int, nth: int) -> float:
    """Return a number in [0, 1) that depends on nothing but its arguments."""
    mixed = (seed * 2654435761 + nth * 40503 + 12345) & 0xFFFFFFFF
    mixed ^= mixed >> 16
    mixed = (mixed * 0x45D9F3B) & 0xFFFFFFFF
    mixed ^= mixed >> 16
    return mixed / 2**32
