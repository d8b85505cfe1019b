"""Whether agent programs and settings fit: what is refused at a start, and what is told then.

Looks at data and at what is installed; starts no program and changes nothing.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from lifecycle.programs import programs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lifecycle.plan import Agent, Allowance
    from lifecycle.settings import Settings
    from runtime.agents.adapter import Adapter

TOOLS = "pip install 'loopwright[mcp]'"
_SCOPES = ("", "plan_", "day_")


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


def unheld(
    agent: Agent,
    settings: Settings,
    of_task: Allowance | None = None,
    of_plan: Allowance | None = None,
) -> Iterator[str]:
    """Say which budgets cannot hold the agent's programs, because they do not tell what they use.

    PlanError for unknown programs.
    """
    spoken = {"the budget of the task": of_task, "the budget of the plan": of_plan}
    for program in programs_of(agent):
        for unit, word in (("usd", "cost"), ("tokens", "tokens")):
            if _tells(program.adapter, unit):
                continue
            names = [f"{scope}budget_{unit}" for scope in _SCOPES]
            given = [name for name in names if getattr(settings, name) is not None]
            given += [
                f"{unit} in {where}"
                for where, allowance in spoken.items()
                if allowance is not None and getattr(allowance, unit) is not None
            ]
            if given:
                verb = "do" if len(given) > 1 else "does"
                yield (
                    f"{program.adapter.name} names no {word}: {', '.join(given)} {verb} not hold "
                    f"it; use {_others(program.adapter)}"
                )


def _tells(adapter: Adapter, unit: str) -> bool:
    return adapter.tells_cost if unit == "usd" else adapter.tells_tokens


def _others(adapter: Adapter) -> str:
    tokens = "budget_tokens, " if adapter.tells_tokens else ""
    return f"{tokens}budget_hours or budget_attempts"
