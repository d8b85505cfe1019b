"""Reads a source of tasks for `up` and `tasks import`, whichever kind of source it is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from ci.forge_registry import FORGES
from lifecycle.clock import SystemClock
from lifecycle.errors import PlanError
from orchestrator.config.plans import checked_plan
from orchestrator.runner.job_selection import startable_from
from orchestrator.runner.providers import ProviderInputs, forge_of
from orchestrator.tasks import issues, sources
from orchestrator.tasks.found import reference
from orchestrator.tasks.planned import PlannedTasks, plan_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci.forge.protocol import IssueQuery
    from lifecycle.settings import Settings
    from orchestrator.tasks.found import FoundTasks


def read_source(  # noqa: PLR0913  # the last by name
    source: str,
    repo: Path,
    settings: Settings,
    environ: Mapping[str, str],
    *,
    base: str | None = None,
    in_order: bool = False,
) -> PlannedTasks:
    """Return the plan that a source stands for; PlanError says what cannot be read, and where."""
    if base is not None:
        asyncio.run(startable_from(repo, base))
    scheme, rest = sources.scheme_of(source)
    if scheme in FORGES:
        query = issues.query_of(scheme, rest)
        inputs = ProviderInputs(repo, lambda: settings, environ, SystemClock().now)
        found, place = asyncio.run(_issues(inputs, scheme, query))
        origin = [f"{scheme}:{place}#{each.key}" for each in found.tasks]
        return plan_of(
            found, name=scheme, where=source, sources=origin, base=base, in_order=in_order
        )
    if scheme:
        if scheme == sources.COMMAND:
            data = sources.printed(rest, repo)
        else:
            data = sources.offered(scheme, rest, repo)
        return _given(source, scheme, data, base)
    path = sources.inside(Path(source))
    found = sources.read_file(path)
    origin = [reference(path, repo, each.key) for each in found.tasks]
    name = path.name.split(".")[0] or path.name
    return plan_of(found, name=name, where=str(path), sources=origin, base=base, in_order=in_order)


async def _issues(inputs: ProviderInputs, scheme: str, query: IssueQuery) -> tuple[FoundTasks, str]:
    forge = forge_of(inputs, scheme)
    try:
        return await issues.read_issues(forge, query)
    finally:
        await forge.aclose()


def _given(source: str, scheme: str, data: Mapping[str, object], base: str | None) -> PlannedTasks:
    """Check a plan that a program made."""
    plan = checked_plan(Path(source), "", {"name": scheme, **data})
    tasks = [
        each.model_copy(
            update={"source": each.source or f"{source}#{each.id}", "base": base or each.base}
        )
        for each in plan.tasks
    ]
    if not tasks:
        raise PlanError(f"{source}: it has no tasks")
    return PlannedTasks(plan.model_copy(update={"tasks": tuple(tasks)}), f"a plan of {scheme}", {})
