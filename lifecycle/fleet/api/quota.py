"""What each quota tier allows: how many agents at once, and which options."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lifecycle.fleet.api.options import AgentPriority, IsolationLevel, RestartPolicyType
from lifecycle.fleet.api.queries import UNLIMITED
from lifecycle.fleet.errors import ConcurrentLimitError, LicenseError

if TYPE_CHECKING:
    from lifecycle.fleet.api.options import AgentSpawnOptions


class Tier(StrEnum):
    """The tiers, lowest first."""

    CORE = "core"
    WRITER_PRO = "writer_pro"
    TEAMS = "teams"
    ENTERPRISE = "enterprise"
    LOCAL = "local"
    """A user on their own machine: everything is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a tier allows."""

    tier: Tier
    max_concurrent: int | None
    """Active instances at once; None means no limit."""
    levels: frozenset[IsolationLevel]
    policies: frozenset[RestartPolicyType]
    custom_health: bool
    priorities: bool

    @property
    def max_or_unlimited(self) -> int:
        """The limit as a number, `UNLIMITED` if there is none."""
        return UNLIMITED if self.max_concurrent is None else self.max_concurrent


_LEVEL, _POLICY = IsolationLevel, RestartPolicyType
_IN_PROCESS = frozenset({_LEVEL.NONE, _LEVEL.THREAD})
_SIMPLE = frozenset({_POLICY.NONE, _POLICY.IMMEDIATE})


def _all(tier: Tier) -> Quota:
    return Quota(
        tier=tier,
        max_concurrent=None,
        levels=frozenset(_LEVEL),
        policies=frozenset(_POLICY),
        custom_health=True,
        priorities=True,
    )


QUOTAS: dict[Tier, Quota] = {
    Tier.CORE: Quota(
        tier=Tier.CORE,
        max_concurrent=2,
        levels=_IN_PROCESS,
        policies=_SIMPLE,
        custom_health=False,
        priorities=False,
    ),
    Tier.WRITER_PRO: Quota(
        tier=Tier.WRITER_PRO,
        max_concurrent=5,
        levels=_IN_PROCESS,
        policies=_SIMPLE | {_POLICY.LINEAR},
        custom_health=True,
        priorities=False,
    ),
    Tier.TEAMS: Quota(
        tier=Tier.TEAMS,
        max_concurrent=20,
        levels=_IN_PROCESS | {_LEVEL.PROCESS},
        policies=frozenset(_POLICY),
        custom_health=True,
        priorities=False,
    ),
    Tier.ENTERPRISE: _all(Tier.ENTERPRISE),
    Tier.LOCAL: _all(Tier.LOCAL),
}


def quota_of(tier: str) -> Quota:
    """Return what a tier allows; refuse an unknown one."""
    try:
        return QUOTAS[Tier(tier)]
    except ValueError:
        known = ", ".join(Tier)
        raise LicenseError(f"there is no quota tier {tier!r}; known: {known}") from None


def check_room(quota: Quota, active: int) -> None:
    """Refuse one more instance when there is no room."""
    if quota.max_concurrent is not None and active >= quota.max_concurrent:
        raise ConcurrentLimitError(
            f"the quota tier {quota.tier} allows {quota.max_concurrent} agents at once, and "
            f"{active} are active; terminate one, or choose a higher tier ({_higher(quota.tier)})",
            active,
            quota.max_concurrent,
        )


def check_options(quota: Quota, options: AgentSpawnOptions) -> None:
    """Refuse options that the tier does not include."""
    level = options.isolation_level
    if level not in quota.levels:
        raise _refused(
            quota,
            f"isolation level {level}",
            next(each for each in QUOTAS.values() if level in each.levels),
        )
    policy = options.restart_policy
    if policy is not None and policy.type not in quota.policies:
        raise _refused(
            quota,
            f"the restart policy {policy.type}",
            next(each for each in QUOTAS.values() if policy.type in each.policies),
        )
    health = options.health_check
    if health is not None and health.custom and not quota.custom_health:
        raise _refused(quota, "custom health checks", QUOTAS[Tier.WRITER_PRO])
    if options.priority is not AgentPriority.NORMAL and not quota.priorities:
        raise _refused(
            quota, f"the priority {options.priority.name.lower()}", QUOTAS[Tier.ENTERPRISE]
        )


def _refused(quota: Quota, what: str, least: Quota) -> LicenseError:
    return LicenseError(
        f"the quota tier {quota.tier} does not include {what}; choose the tier {least.tier} or a "
        "higher one, or omit that option"
    )


def _higher(tier: Tier) -> str:
    return ", ".join(list(Tier)[list(Tier).index(tier) + 1 :])
