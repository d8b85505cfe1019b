"""What `doctor` finds out about the agent programs that settings and plan of a repository name.

Asks programs for their version. Changes nothing; problems of the settings are reported elsewhere.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, TypeAlias

from lifecycle.admission.unenforceable_budgets import uncounted
from lifecycle.errors import PlanError
from lifecycle.launch.programs import programs_of
from orchestrator.config.plans import agent_for, chosen_agent, find_plan, load_plan
from orchestrator.control.agents import install_of, look
from orchestrator.doctor.machine import BAD, OK, WARN, Diagnosis
from orchestrator.proposals.agents_here import is_secret, signed_in, withheld_keys
from orchestrator.runner.preflight import TOOLS, lacks_tools, unlimited
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from lifecycle.plan import Agent, Allowance, Plan
    from lifecycle.settings import Settings
    from orchestrator.control.agents import Installed
    from runtime.agents.adapter import Adapter

Chosen: TypeAlias = "tuple[Agent, Allowance | None]"
"""An agent, and the budget of its task."""


def agents(repo: Path, settings: Settings, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Check the agents of this repository: installed, of a tested version, limited by a budget."""
    if lacks_tools(settings):
        yield Diagnosis(
            BAD, "tool server", 'tool_server = "on", and the tool server is not installed', TOOLS
        )
    unset = [name for name in settings.pass_env if name not in environ]
    if unset:
        yield Diagnosis(
            WARN,
            "pass_env",
            f"not set here: {', '.join(unset)}",
            "set it where loopwright is started, or take it out of pass_env",
        )
    plan, chosen = None, list[Chosen]()
    try:
        path = find_plan(repo)
        plan = load_plan(path) if path is not None else None
        chosen = _chosen(plan, settings)
    except PlanError as problem:
        found, _, mend = str(problem).rpartition("; ")
        yield Diagnosis(BAD, "plan", found or str(problem), mend if found else "fix it there")
    yield from _programs([agent for agent, _ in chosen], environ, settings.pass_env)
    yield from _commands([agent for agent, _ in chosen], settings, environ)
    yield from _budgets(chosen, settings, plan)


def _budgets(
    chosen: Iterable[Chosen], settings: Settings, plan: Plan | None
) -> Iterator[Diagnosis]:
    """Check that budgets are set and can limit these agents; otherwise no loop starts."""
    of_plan = plan.budget if plan is not None else None
    tasks = list(chosen)
    for exempt in (False, True):
        found = dict.fromkeys(
            (each.found, each.remedy)
            for agent, of_task in tasks
            for each in uncounted(agent, settings, of_task, of_plan, exempt=exempt)
        )
        for what, mend in found:
            if exempt:
                yield Diagnosis(OK, "budget", f"{what}; allowed by budget_exempt")
            else:
                yield Diagnosis(BAD, "budget", what, mend)
    for line in unlimited(settings, (of_plan, *(of_task for _, of_task in tasks))):
        what, _, mend = line.partition("; ")
        yield Diagnosis(WARN, "budget", what, mend)


def _chosen(plan: Plan | None, settings: Settings) -> list[Chosen]:
    """Return the agents and the budgets of their tasks; empty where no agent is set yet."""
    if plan is not None:
        return [(agent_for(task, plan, settings), task.budget) for task in plan.tasks]
    if settings.command or settings.adapter or settings.agents:
        return [(chosen_agent("T001", settings), None)]
    return []


def _programs(
    agents: Iterable[Agent], environ: Mapping[str, str], passed: Collection[str]
) -> Iterator[Diagnosis]:
    """Check that each agent has a program that works; of a chain others may be missing."""
    chains = {
        agent.programs: [each.adapter for each in programs_of(agent) if each.adapter.programs]
        for agent in agents
    }
    wanted = {each.name: each for chain in chains.values() for each in chain}
    if not wanted:
        return
    with scratch("agents") as folder:
        looked = asyncio.run(look(wanted.values(), environ, folder))
    there = {each.adapter.name: each for each in looked}
    needed = {
        each.name
        for chain in chains.values()
        for each in chain
        if not any(there[other.name].path for other in chain)
    }
    for name, found in there.items():
        yield _program(found, BAD if name in needed else WARN)
        if found.path:
            yield _sign_in(found.adapter, environ, passed)


def _sign_in(adapter: Adapter, environ: Mapping[str, str], passed: Collection[str]) -> Diagnosis:
    """Say whether somebody is signed in, and which keys are set and do not reach the program."""
    withheld = withheld_keys(adapter, environ, passed)
    told = f"{', '.join(withheld)} is set here and not passed on" if withheld else ""
    # Also a key of a provider of one's own.
    given = [name for name in passed if is_secret(name) and environ.get(name)]
    if given or signed_in(adapter, environ):
        how = f"gets {', '.join(given)}" if given else "signed in"
        return Diagnosis(OK, "sign-in", "; ".join(filter(None, (f"{adapter.name}: {how}", told))))
    found = "; ".join(filter(None, (f"{adapter.name}: no sign-in found", told)))
    mend = adapter.login or "see how the program signs in"
    if withheld:
        mend = f'pass_env = ["{withheld[0]}"] in loopwright.toml passes it on. Or: {mend}'
    return Diagnosis(WARN, "sign-in", found, mend)


def _commands(
    agents: Iterable[Agent], settings: Settings, environ: Mapping[str, str]
) -> Iterator[Diagnosis]:
    """Check the commands of a plan's agents; one with a folder in it may be part of the work."""
    programs = {
        agent.command[0]
        for agent in agents
        if agent.command and agent.command[:1] != settings.command[:1]
    }
    for program in sorted(programs):
        if "/" not in program and shutil.which(program, path=environ.get("PATH", "")) is None:
            yield Diagnosis(BAD, "agent", f"{program} is not on PATH", "install it or fix the plan")


def _program(found: Installed, missing: str) -> Diagnosis:
    adapter = found.adapter
    if not found.path:
        return Diagnosis(
            missing,
            "agent",
            f"{adapter.name} is not on PATH",
            install_of(adapter) or "install it, or name another program",
        )
    at = f"{adapter.name} {found.version} at {found.path}".replace("  ", " ")
    if found.problem:
        return Diagnosis(WARN, "agent", f"{at}: {found.problem}", "repair or reinstall it")
    if adapter.tested and not found.tested:
        return Diagnosis(
            WARN,
            "agent",
            f"{at}; tested with {', '.join(adapter.tested)}",
            install_of(adapter) or f"loopwright agents test {adapter.name}",
        )
    return Diagnosis(OK, "agent", at)
