"""The circuit breaker: when more attempts would only repeat the latest, a person is asked. Pure.

Owns what counts as no progress and over how many attempts; only reads and counts, moves no state.
A limit of 0 is off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine.policy import growing
from lifecycle.machine.values import changed

if TYPE_CHECKING:
    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import Tally


def is_stuck(tally: Tally, policy: Policy) -> bool:
    """Tell whether the breaker has to open."""
    return _stands_still(tally, policy) or fails_alike(tally, policy)


def _stands_still(tally: Tally, policy: Policy) -> bool:
    """Tell whether nothing moves; where no tree can be compared nobody knows."""
    return bool(policy.stuck_limit and tally.tree) and tally.stuck >= policy.stuck_limit


def fails_alike(tally: Tally, policy: Policy) -> bool:
    """Tell whether the verify commands failed in the same way too often, whatever was committed."""
    return bool(policy.same_gate_limit) and tally.same_gates >= policy.same_gate_limit


def judged_red(tally: Tally, digest: str) -> Tally:
    """Count another red verdict; one that differs from the latest restarts the count."""
    if digest and digest == tally.same_gate:
        return changed(tally, same_gates=tally.same_gates + 1)
    over = tally.same_gates > 1
    return changed(
        tally,
        same_gate=digest,
        same_gates=1 if digest else 0,
        trips=0 if over else tally.trips,
        open_since=None if over else tally.open_since,
    )


def moved_on(tally: Tally, policy: Policy) -> Tally:
    """Count an attempt that changed something, or said something new.

    It is not progress where the breaker opened because the verdict stays the same.
    """
    near = policy.same_gate_limit and tally.same_gates >= max(1, policy.same_gate_limit - 1)
    if near and tally.open_since is not None:
        return changed(tally, stuck=0)
    return changed(tally, stuck=0, trips=0, open_since=None)


def opened(tally: Tally, at: float) -> Tally:
    """Count that it opened, and remember since when nothing moves."""
    since = at if tally.open_since is None else tally.open_since
    return changed(tally, trips=tally.trips + 1, open_since=since)


def pause(tally: Tally, at: float, policy: Policy) -> float:
    """Return when one more attempt is made, or nothing more is tried without a person."""
    first, cap = policy.breaker_cooldown, policy.breaker_cooldown_cap
    span = growing(first, cap, policy.seed, tally.trips) or policy.blocked_timeout
    return min(at + span, max(at, last_instant(tally, at, policy)))


def last_instant(tally: Tally, at: float, policy: Policy) -> float:
    """Return when a person has been waited for long enough."""
    return (at if tally.open_since is None else tally.open_since) + policy.blocked_timeout


def tried_once(tally: Tally, policy: Policy, *, by_person: bool) -> Tally:
    """Close it for one attempt: without progress it opens again."""
    return changed(
        tally,
        stuck=max(0, policy.stuck_limit - 1),
        same_gates=min(tally.same_gates, max(0, policy.same_gate_limit - 1)),
        open_since=None if by_person else tally.open_since,
    )


def forgotten(tally: Tally) -> Tally:
    """Restart the count."""
    return changed(tally, stuck=0, trips=0, open_since=None, same_gate="", same_gates=0)


def evidence(tally: Tally, policy: Policy, last: str, lines: str) -> str:
    """Say what shows that nothing moves."""
    if fails_alike(tally, policy):
        return (
            f"the verify commands failed in the same way {tally.same_gates} times in a row, "
            f"whatever was committed; {last}" + (f": {lines}" if lines else "")
        )
    return (
        f"{tally.stuck} attempts in a row changed nothing and said nothing new (tree "
        f"{tally.tree[:12]}); the last: {last}"
    )
