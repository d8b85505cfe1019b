"""What `doctor` says of a rehearsal: whether set-up, gates and agent work as they are set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError, PlanError
from lifecycle.launch.programs import named
from orchestrator.config.plans import chosen_agent
from orchestrator.doctor.code_origin import commands_that_judge
from orchestrator.doctor.machine import BAD, OK, WARN, Diagnosis
from orchestrator.doctor.rehearsal import TASK, rehearse
from runtime.agents.outcome import Ending
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lifecycle.machine.states import Gate
    from lifecycle.settings import Settings
    from orchestrator.doctor.rehearsal import Rehearsal

SETUP, GATES, TURN = "set-up", "gates", "agent turn"
_NOT_FOUND = 127
_LAST = "the last: "
"""In front of what an attempt ended with."""


def is_something_to_try(repo: Path, settings: Settings) -> bool:
    """Tell whether anything is set that a rehearsal could try."""
    return bool(settings.setup or commands_that_judge(repo, settings))


def trial(
    repo: Path, settings: Settings, environ: Mapping[str, str], *, with_agent: bool
) -> Iterator[Diagnosis]:
    """Rehearse a task, and say how each part of it went."""
    commands = commands_that_judge(repo, settings)
    try:
        agent = chosen_agent(TASK, settings) if with_agent else None
        made = rehearse(repo, settings, environ, commands, agent)
    except PlanError as problem:
        yield Diagnosis(BAD, TURN, str(problem), "fix what it names")
        return
    except (LifecycleError, RuntimeFault, OSError) as problem:
        yield Diagnosis(BAD, GATES, f"could not be tried: {problem}", "fix what it names")
        return
    at = f"on {made.commit[:8]} in a fresh checkout"
    at += ", in the sandbox" if settings.isolation == "container" else ""
    if made.problem and not made.gates:
        yield _ended_before(made.problem, at, settings, with_agent=with_agent)
        return
    if settings.setup:
        yield Diagnosis(OK, SETUP, f"{_listed(settings.setup)} succeeded {at}")
    if with_agent:
        yield Diagnosis(
            OK, TURN, f"{_named(settings)} took a turn and signalled its end ({made.seconds:.0f} s)"
        )
    yield from _gates(made, at)


def _ended_before(error: str, at: str, settings: Settings, *, with_agent: bool) -> Diagnosis:
    """Say what ended it before any gate ran."""
    if "set-up" in error:
        return Diagnosis(
            BAD, SETUP, f"{at}: {error}", "change `setup` in loopwright.toml, and try again"
        )
    if with_agent:
        said = error.rpartition(_LAST)[2]
        return Diagnosis(
            BAD, TURN, said, f"{_sign_in(said, settings)}try again: loopwright doctor --agent"
        )
    return Diagnosis(BAD, GATES, f"{at}: {error}", "fix what it names")


def _sign_in(error: str, settings: Settings) -> str:
    """Say how to sign in, where that is what is missing."""
    if not error.startswith(str(Ending.AUTH)) or settings.command:
        return ""
    login = named(_named(settings)).adapter.login
    return f"{login} Then " if login else ""


def _gates(made: Rehearsal, at: str) -> Iterator[Diagnosis]:
    for gate in made.gates:
        if gate.ok:
            yield Diagnosis(OK, GATES, f"`{gate.command}` succeeded {at} ({gate.seconds:.1f} s)")
        else:
            yield _red(gate, at)


def _red(gate: Gate, at: str) -> Diagnosis:
    last = gate.excerpt.strip().rpartition("\n")[2]
    found = f"`{gate.command}` {gate.end} {at}" + (f": {last}" if last else "")
    if gate.code == _NOT_FOUND:
        return Diagnosis(BAD, GATES, found, "name what installs it in `setup`, in loopwright.toml")
    return Diagnosis(
        WARN,
        GATES,
        f"{found}. It fails before any work, so no task can be verified",
        "repair that commit, or change `verify` or `setup` in loopwright.toml",
    )


def _named(settings: Settings) -> str:
    chain = settings.agents or ((settings.adapter,) if settings.adapter else settings.command)
    return chain[0]


def _listed(commands: tuple[str, ...]) -> str:
    return ", ".join(f"`{each}`" for each in commands)
