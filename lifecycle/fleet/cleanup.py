"""Runs what is to be done when an instance ends: each hook in its own time, come what may."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.fleet.body import within

if TYPE_CHECKING:
    from lifecycle.clock import Clock
    from lifecycle.fleet.instances import AgentInstance
    from lifecycle.fleet.live import Live
    from lifecycle.fleet.registry import CleanupHook
    from lifecycle.parts import Report


async def clean_up(
    live: Live, instance: AgentInstance, clock: Clock, report: Report
) -> tuple[str, ...]:
    """Run all hooks of an instance once; return what went wrong."""
    problems = []
    hooks, live.hooks = live.hooks, []
    for hook in hooks:
        problem = await _run(hook, instance, clock)
        if problem:
            problems.append(problem)
            report(
                "cleanup_hook_failed",
                instance_id=str(instance.instance_id),
                hook=hook.name,
                reason=problem,
            )
    return tuple(problems)


async def _run(hook: CleanupHook, instance: AgentInstance, clock: Clock) -> str:
    async def run() -> None:
        await hook.run(instance)

    task = asyncio.get_running_loop().create_task(run(), name=f"cleanup {hook.name}")
    if not await within(clock, task, hook.timeout):
        task.cancel()
        await asyncio.wait({task}, timeout=1.0)
        return f"cleanup hook {hook.name!r} took longer than {hook.timeout:g} s"
    problem = None if task.cancelled() else task.exception()
    if problem is None:
        return ""
    return f"cleanup hook {hook.name!r} failed: {type(problem).__name__}: {problem}"
