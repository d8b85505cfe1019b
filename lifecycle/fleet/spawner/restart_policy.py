"""Whether and when a failed instance is restarted. Pure: time and randomness are arguments.

The n-th restart waits `initial_delay * n` (linear) or `initial_delay * multiplier ** n`
(exponential); docs/adr/0032-exponential-backoff.md says why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.fleet.api.options import RestartPolicyType

if TYPE_CHECKING:
    from lifecycle.fleet.api.options import RestartPolicy

JITTER = 0.25


@dataclass(frozen=True, slots=True)
class CrashLoop:
    """So many failures within so many seconds end the restarts, under any policy.

    Healthy moments in between do not matter. A spawner has such a rule only if it is given one.
    """

    failures: int = 5
    within: float = 600.0


@dataclass(frozen=True, slots=True)
class FailureHistory:
    """The failures of an instance."""

    restart_count: int = 0
    """Since it was last healthy."""
    failing_since: float | None = None
    """The first failure since it was last healthy."""
    failures: tuple[float, ...] = ()
    """Times of recent failures, whether or not it was healthy in between."""

    def failed(self, now: float, rule: CrashLoop | None) -> FailureHistory:
        """Add a failure, and drop those that are too old to count."""
        kept = rule.within if rule else 0.0
        recent = tuple(at for at in self.failures if now - at < kept)
        since = now if self.failing_since is None else self.failing_since
        return replace(self, failing_since=since, failures=(*recent, now))

    def restarted(self) -> FailureHistory:
        """Count a restart."""
        return replace(self, restart_count=self.restart_count + 1)

    def healthy(self) -> FailureHistory:
        """Reset the policy: the instance is healthy again."""
        return replace(self, restart_count=0, failing_since=None)


@dataclass(frozen=True, slots=True)
class Restart:
    """Restart it after so many seconds."""

    delay: float
    number: int
    """From 1."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not restart it."""

    reason: str


def decide(
    policy: RestartPolicy | None,
    history: FailureHistory,
    now: float,
    rule: CrashLoop | None,
    chance: float,
) -> Restart | GiveUp:
    """Decide after a failure that is in the history; `chance` is random between 0 and 1."""
    if policy is None or policy.type is RestartPolicyType.NONE:
        return GiveUp("no restart policy")
    if rule is not None and len(history.failures) >= rule.failures:
        return GiveUp(
            f"crash loop: {len(history.failures)} failures within {rule.within:g} s; "
            "fix the agent, then spawn it again"
        )
    if history.restart_count >= policy.max_retries:
        return GiveUp(f"max_retries of {policy.max_retries} reached")
    failing = now - (now if history.failing_since is None else history.failing_since)
    limit = policy.circuit_breaker_timeout.total_seconds()
    if failing and failing >= limit:
        return GiveUp(
            f"circuit breaker open: failing for {failing:.0f} s without being healthy in between; "
            f"{limit:g} s are allowed"
        )
    number = history.restart_count + 1
    return Restart(delay(policy, number, chance), number)


def delay(policy: RestartPolicy, number: int, chance: float) -> float:
    """Return the seconds to wait before the n-th restart."""
    first, most = policy.initial_delay.total_seconds(), policy.max_delay.total_seconds()
    match policy.type:
        case RestartPolicyType.LINEAR:
            seconds = first * number
        case RestartPolicyType.EXPONENTIAL:
            seconds = first * policy.backoff_multiplier**number
        case _:
            return 0.0
    seconds = min(seconds, most)
    if policy.use_jitter:
        seconds *= 1 - JITTER + 2 * JITTER * chance
    return min(seconds, most)
