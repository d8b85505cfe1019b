"""The questions of `loopwright init`: at most three, each with a proposal that Enter takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from lifecycle.plan import check_chain
from orchestrator.proposals.first_settings import (
    BUDGET_HOURS,
    BUDGET_USD,
    FirstSettings,
    tells_cost,
)
from orchestrator.terminal.keys import ask_line
from orchestrator.terminal.text import one_line, say, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from orchestrator.proposals.first_settings import Found

    _T = TypeVar("_T")

NONE = "-"
_WIDTH = 76


def ask(found: Found) -> FirstSettings:
    """Ask for agent, verify commands and budget; KeyboardInterrupt if it is broken off."""
    proposed = FirstSettings.proposed(found)
    say("Three questions; Enter takes what stands in brackets, Ctrl-C writes nothing.")
    say()
    names = ", ".join(each.name for each in found.agents) or "none was found here"
    agents = _asked(
        f"1. Which agent program works? ({names}; a chain: NAME,NAME)",
        ",".join(proposed.agents),
        _agents,
    )
    verify = _asked(
        f"2. Which command judges the work, by its exit code? ({NONE} for none)",
        " && ".join(proposed.verify),
        str,
    )
    in_dollars = tells_cost(agents)
    usual = BUDGET_USD if in_dollars else BUDGET_HOURS
    unit = "dollars" if in_dollars else "hours of work (it tells no dollars)"
    budget = _asked(f"3. At most how many {unit} for each task?", f"{usual:g}", _amount)
    return FirstSettings(
        agents=agents,
        verify=_commands(verify, proposed.verify),
        budget_usd=budget if in_dollars else None,
        budget_hours=BUDGET_HOURS if in_dollars else budget,
    )


def _commands(typed: str, proposed: tuple[str, ...]) -> tuple[str, ...]:
    if typed in ("", NONE):
        return ()
    return proposed if typed == " && ".join(proposed) else (typed,)


def _agents(text: str) -> tuple[str, ...]:
    """Read one program or a chain; empty text leaves it open."""
    chain = tuple(name.strip() for name in text.split(",") if name.strip())
    check_chain(chain)
    tells_cost(chain)  # refuses names that no program has
    return chain


def _amount(text: str) -> float:
    amount = float(text) if text.replace(".", "", 1).isdigit() else 0.0
    if not amount:
        raise ValueError(f"{text!r} is not a number above 0")
    return amount


def _asked(question: str, proposal: str, read: Callable[[str], _T]) -> _T:
    """Ask until the answer can be used."""
    while True:
        say(question)
        answer = ask_line(f"   [{one_line(proposal) or 'none'}] > ")
        if answer is None:
            raise KeyboardInterrupt
        try:
            return read(answer or proposal)
        except (PlanError, ValueError) as problem:
            for line in wrapped(one_line(str(problem)), _WIDTH):
                say(f"   {line}")
