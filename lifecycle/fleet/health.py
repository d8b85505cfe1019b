"""How an instance does: judged by checks in a row (pure), and the checks themselves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.fleet.instances import AgentHealthStatus, HealthState
from lifecycle.fleet.options import HealthCheckConfig

if TYPE_CHECKING:
    from datetime import datetime

    from lifecycle.fleet.instances import AgentInstance
    from lifecycle.fleet.registry import HealthCheck

HEARTBEAT = HealthCheckConfig()


def judge(
    before: AgentHealthStatus, config: HealthCheckConfig, problem: str, at: datetime
) -> AgentHealthStatus:
    """Return the health after one more check, which found '' or a problem."""
    if problem:
        failures = before.failures + 1
        bad = failures >= config.unhealthy_threshold
        state = HealthState.UNHEALTHY if bad else HealthState.DEGRADED
        return AgentHealthStatus(state=state, details=problem, checked_at=at, failures=failures)
    successes = before.successes + 1
    state = HealthState.HEALTHY if successes >= config.healthy_threshold else before.state
    details = "" if state is HealthState.HEALTHY else before.details
    return AgentHealthStatus(state=state, details=details, checked_at=at, successes=successes)


def heartbeat(
    before: AgentHealthStatus, config: HealthCheckConfig, quiet: float, at: datetime
) -> AgentHealthStatus:
    """Return the health of what is alive, and gave no sign of life for so many seconds.

    Who is quiet may think: that makes it degraded, and no more.
    """
    if quiet < config.stale_after.total_seconds():
        return judge(before, config, "", at)
    return AgentHealthStatus(
        state=HealthState.DEGRADED,
        details=f"no output, no processor use and no mail for {quiet:.0f} s",
        checked_at=at,
        failures=before.failures + 1,
    )


async def ask(check: HealthCheck, instance: AgentInstance, seconds: float) -> str:
    """Ask a check of the definition; return '' or the problem."""
    try:
        async with asyncio.timeout(seconds):
            return await check(instance)
    except TimeoutError:
        return f"the check took longer than {seconds:g} s"
    except Exception as problem:  # noqa: BLE001  # any code may be behind a check
        return f"the check failed: {type(problem).__name__}: {problem}"
