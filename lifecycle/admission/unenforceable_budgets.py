"""Budgets that cannot be enforced: a program of the agent does not report what they count.

Looks at data alone. Must not know what was used, nor when an attempt may begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from lifecycle.launch.programs import COMMAND, programs_of
from lifecycle.machine.budget import price_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lifecycle.launch.programs import Program
    from lifecycle.plan import Agent, Allowance
    from lifecycle.settings import Settings

_WORDS = {"tokens": "tokens", "usd": "dollars"}


@dataclass(frozen=True, slots=True)
class Uncounted:
    """One program, and the budgets that count what it does not report."""

    program: Program
    units: tuple[str, ...]
    """Of tokens and usd, those that it does not report and that are limited."""
    budgets: tuple[str, ...]
    """These budgets, as people set them."""

    @property
    def found(self) -> str:
        """Describe the problem."""
        name = self.program.adapter.name
        who = f"the program {self.program.executable}" if name == COMMAND else name
        what = " or ".join(_WORDS[unit] for unit in self.units)
        return f"{who} reports no {what}, so it cannot be held to {_and(self.budgets)}"

    @property
    def remedy(self) -> str:
        """Describe the remedies."""
        adapter = self.program.adapter
        exempt = f'let it work without that limit: budget_exempt = ["{adapter.name}"]'
        others = "budget_hours and budget_attempts hold every program"
        if "usd" not in self.units:
            return f"{exempt}; {others}"
        if not adapter.tells_tokens:
            return f"{exempt} (a price does not help: it reports no tokens either); {others}"
        form = f"prices = {{ {adapter.name} = {{ input = DOLLARS, output = DOLLARS }} }}"
        return f"give its price per million tokens: {form}, or {exempt}; {others}"


def uncounted(
    agent: Agent,
    settings: Settings,
    of_task: Allowance | None = None,
    of_plan: Allowance | None = None,
    *,
    exempt: bool = False,
) -> Iterator[Uncounted]:
    """Return which of its programs cannot be held to a budget.

    Those that are not exempt, or those that are. PlanError for unknown programs.
    """
    limits = {unit: tuple(_limits(unit, settings, of_task, of_plan)) for unit in _WORDS}
    for program in programs_of(agent) if any(limits.values()) else ():
        name = program.adapter.name
        if is_exempt(name, program.model, settings) is not exempt:
            continue
        units = tuple(
            unit for unit in _WORDS if limits[unit] and not _tells(program, unit, settings)
        )
        if units:
            yield Uncounted(program, units, tuple(name for unit in units for name in limits[unit]))


def require_counted(
    agent: Agent,
    settings: Settings,
    of_task: Allowance | None = None,
    of_plan: Allowance | None = None,
) -> None:
    """Raise PlanError with the ways out where a budget cannot hold one of its programs."""
    found = list(uncounted(agent, settings, of_task, of_plan))
    if found:
        raise PlanError("; and ".join(f"{each.found}; {each.remedy}" for each in found))


def is_exempt(name: str, model: str, settings: Settings) -> bool:
    """Tell whether somebody said that a program may work unheld."""
    return not {name, f"{name}:{model}"}.isdisjoint(settings.budget_exempt)


def _limits(
    unit: str, settings: Settings, of_task: Allowance | None, of_plan: Allowance | None
) -> Iterator[str]:
    """Name the budgets that hold in this unit, as `budgets` chooses them."""
    for prefix, own, whose in (
        ("", of_task, "task"),
        ("plan_", of_plan, "plan"),
        ("day_", None, ""),
        ("repos_day_", None, ""),
    ):
        name = f"{prefix}budget_{unit}"
        if own is not None and getattr(own, unit) is not None:
            yield f"{unit} in the budget of the {whose}"
        elif getattr(settings, name) is not None:
            yield name


def _tells(program: Program, unit: str, settings: Settings) -> bool:
    adapter = program.adapter
    if unit == "tokens":
        return adapter.tells_tokens
    price = price_of(settings.prices, adapter.name, program.model)
    return adapter.tells_cost or (adapter.tells_tokens and price is not None)


def _and(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
