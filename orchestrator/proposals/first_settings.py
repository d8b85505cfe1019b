"""The settings that a repository begins with: what was found, what a person chose, and the file.

The file has what people change first; `loopwright settings` lists all. Writes nothing itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lifecycle.launch.programs import named
from orchestrator.proposals.committed_files import SetupProposal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.proposals.agents_here import AgentHere

BUDGET_USD, BUDGET_HOURS, BUDGET_ATTEMPTS = 20.0, 8.0, 30
_HEAD = """\
# Settings of Loopwright for this repository. `loopwright settings` lists all there are.
# Each new attempt reads this file again."""


@dataclass(frozen=True, slots=True)
class Found:
    """What repository and machine offer."""

    agents: tuple[AgentHere, ...] = ()
    checkout: SetupProposal = field(default_factory=SetupProposal)
    """What a fresh checkout needs, and what judges it."""
    forge: str | None = None


@dataclass(frozen=True, slots=True)
class FirstSettings:
    """What is written: the proposals, or what a person chose instead."""

    agents: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    budget_usd: float | None = None
    budget_hours: float | None = BUDGET_HOURS

    @classmethod
    def proposed(cls, found: Found) -> FirstSettings:
        """Take what was found; dollars only where no program here would be refused for them."""
        agents = tuple(each.name for each in found.agents[:1])
        usd = BUDGET_USD if tells_cost(tuple(each.name for each in found.agents)) else None
        return cls(agents=agents, verify=tuple(found.checkout.verify), budget_usd=usd)

    def budgets(self) -> dict[str, Any]:
        """Return what limits each task."""
        limits = {"budget_usd": self.budget_usd, "budget_hours": self.budget_hours}
        there = {name: value for name, value in limits.items() if value is not None}
        return {**there, "budget_attempts": BUDGET_ATTEMPTS}


def tells_cost(agents: tuple[str, ...]) -> bool:
    """Tell whether a budget in dollars can hold these programs: each must tell what it costs."""
    return bool(agents) and all(named(name).adapter.tells_cost for name in agents)


def file_of(found: Found, chosen: FirstSettings) -> str:
    """Return the text of loopwright.toml."""
    parts = [_HEAD, *map("\n".join, _parts(found, chosen))]
    return "\n\n".join(parts) + "\n"


def _parts(found: Found, chosen: FirstSettings) -> Iterator[list[str]]:
    yield _who(found, chosen)
    checkout = found.checkout
    yield [
        "# --- What a fresh checkout needs ---  (copy: files that are in no commit)",
        _line("setup", checkout.setup, ["COMMAND"]),
        _line("copy", checkout.copy, [".env"]),
    ]
    yield [
        "# --- What judges the work ---  (each must exit with 0 on the committed files)",
        _line("verify", chosen.verify, ["COMMAND"]),
    ]
    yield [
        "# --- What each task may use ---  (the first that is reached ends it)",
        *(_line(name, value) for name, value in chosen.budgets().items()),
        "# max_live_agents = 4   # tasks that are worked on at the same time",
    ]
    if found.forge is not None:
        yield ["# --- Who keeps pull requests and checks ---", _line("providers", [found.forge])]


def _who(found: Found, chosen: FirstSettings) -> list[str]:
    lines = ["# --- Who works ---  (NAME, NAME:MODEL, or a chain: agents = [...])"]
    if len(chosen.agents) > 1:
        lines.append(_line("agents", chosen.agents))
    else:
        lines.append(_line("adapter", next(iter(chosen.agents), ""), "claude"))
    keys = {each.name: each.keys for each in found.agents if not each.signed_in}
    withheld = [key for name in chosen.agents for key in keys.get(name.partition(":")[0], ())[:1]]
    if withheld:
        lines.append(f"# pass_env = {toml(withheld)}   # set here, and withheld: pays for each use")
    return lines


def _line(name: str, value: Any, example: Any = None) -> str:
    return f"{name} = {toml(value)}" if value else f"# {name} = {toml(example)}"


def toml(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
