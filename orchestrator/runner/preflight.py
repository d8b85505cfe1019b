"""Whether agent programs and settings fit: what a start refuses, and what it warns of.

Looks at data and at what is installed; starts no program and changes nothing.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from ci.issues import keeper_of
from lifecycle.admission.unenforceable_budgets import uncounted
from lifecycle.errors import PlanError
from orchestrator.extras import how_to_install

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lifecycle.plan import Agent, Allowance, Task
    from lifecycle.settings import Settings

TOOLS = f"install it with {how_to_install('mcp')}"
NO_BUDGET = (
    "No budget is set: agents may use as much as they take; budget_attempts, budget_hours, "
    "budget_tokens or budget_usd in loopwright.toml limit each task"
)


def lacks_tools(settings: Settings) -> bool:
    """Tell whether the tool server is asked for and not installed."""
    return settings.tool_server == "on" and importlib.util.find_spec("mcp") is None


def require_tools(settings: Settings) -> None:
    """Refuse to start without the tool server where it is asked for."""
    if lacks_tools(settings):
        raise PlanError(
            f'tool_server = "on", but the tool server is not installed here; {TOOLS}, or set '
            'tool_server = "auto"'
        )


def require_issues(tasks: Iterable[Task], provider: object) -> None:
    """Refuse issues that the forge of the pull requests does not keep."""
    keeper = keeper_of(provider)
    for task in tasks:
        problem = keeper.issue_problem(task.issue) if keeper is not None and task.issue else ""
        if problem:
            raise PlanError(f"task {task.id}: {problem}")


def exempted(
    agent: Agent,
    settings: Settings,
    of_task: Allowance | None = None,
    of_plan: Allowance | None = None,
) -> Iterator[str]:
    """Return a warning per program that a budget cannot limit but that is exempt from it."""
    for each in uncounted(agent, settings, of_task, of_plan, exempt=True):
        yield f"{each.found}; it works all the same (budget_exempt)"


def unlimited(settings: Settings, others: Iterable[Allowance | None] = ()) -> Iterator[str]:
    """Warn that nothing limits what agents use, if no task and no plan does either."""
    if not settings.has_budget and not any(others):
        yield NO_BUDGET
