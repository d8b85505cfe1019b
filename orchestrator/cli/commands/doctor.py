"""`loopwright doctor`: checks machine and repository, and says how to fix what is wrong."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.mask_values import masked
from orchestrator.config.settings import explain_settings, load_settings
from orchestrator.control.shown_settings import settings_masker
from orchestrator.doctor import trial
from orchestrator.doctor.agents import agents
from orchestrator.doctor.code_origin import right_code
from orchestrator.doctor.engine import engine
from orchestrator.doctor.isolation import isolation
from orchestrator.doctor.machine import BAD, WARN, Diagnosis, machine
from orchestrator.doctor.notifications import notifications
from orchestrator.doctor.providers import providers
from orchestrator.doctor.repository import repository
from orchestrator.doctor.telemetry import telemetry
from orchestrator.errors import ConfigError
from orchestrator.runner.providers import ProviderInputs
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo
from orchestrator.terminal.text import coloured, now, one_line, paint, say, tell, to_json
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from typing import Any

_COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


_MORE = """\
In a throw-away copy it sets up a fresh checkout and runs the verify commands there, in the sandbox
where one is set. The last line says that all is ready, or the one thing to do next.

Exit code: 0 if nothing is bad (warnings do not count), else 2."""
_NOT_READY = ("agents", "sign-in", "verify", "budget", trial.GATES)
"""Of what is only a warning, what stands in the way of a good first run."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = (
        CommandLineParser(
            name,
            "Try what a run needs; each line says what was found and how to fix it.",
            example=f"loopwright {name}\nloopwright {name} --agent\nloopwright {name} --isolation",
            more=_MORE,
        )
        .with_json("print one JSON object: checks, and settings with their sources")
        .with_repo()
    )
    made.add_argument(
        "--agent",
        action="store_true",
        help="also let the agent program take one turn, which its model may charge for",
    )
    made.add_argument(
        "--quick", action="store_true", help="only look: run neither set-up nor verify commands"
    )
    made.add_argument(
        "--isolation",
        action="store_true",
        help="instead check which isolation this machine provides, by attacks inside and outside",
    )
    return made


def run(name: str, args: list[str]) -> int:
    """Check."""
    options = parser(name).parse_args(args)
    repo, outside = _repository(options.repo)
    checks = list(isolation()) if options.isolation else _all(repo, outside)
    if repo is not None and not options.isolation and not options.quick:
        checks += _tried(repo, checks, with_agent=options.agent)
    ahead = None if options.isolation else _next(checks)
    bad = sum(check.level == BAD for check in checks)
    if options.json:
        say(
            to_json(
                {
                    "checks": [asdict(check) for check in checks],
                    "next": ahead.mend if ahead else "",
                    "settings": _settings(repo),
                }
            )
        )
    else:
        _print(checks)
        warned = sum(check.level == WARN for check in checks)
        tell(f"{len(checks)} checks: {bad} bad, {warned} to look at")
        if not options.isolation:
            say(_last_line(ahead))
    return exits.USAGE if bad else exits.COMPLETE


def _tried(repo: Path, checks: list[Diagnosis], *, with_agent: bool) -> list[Diagnosis]:
    """Try what is set, unless something is found to be wrong with it already."""
    try:
        settings = load_settings(repo, environ=os.environ)
    except ConfigError:
        return []
    if not (with_agent or trial.is_something_to_try(repo, settings)):
        return []
    if any(check.level == BAD for check in checks):
        tell("Set-up and verify commands were not tried: first fix what is bad.")
        return []
    tell("Trying set-up and verify commands in a fresh checkout (--quick leaves that out) ...")
    return list(trial.trial(repo, settings, os.environ, with_agent=with_agent))


def _next(checks: list[Diagnosis]) -> Diagnosis | None:
    """Return the finding to act on first; none when a run can begin."""
    bad = (check for check in checks if check.level == BAD)
    warned = (check for check in checks if check.level == WARN and check.what in _NOT_READY)
    return next(bad, None) or next(warned, None)


def _last_line(ahead: Diagnosis | None) -> str:
    if ahead is None:
        return 'Ready: loopwright run "TEXT"'
    return f"Next ({ahead.what}): {one_line(ahead.mend)}"


def _all(repo: Path | None, outside: str) -> list[Diagnosis]:
    present = now()
    checks = list(machine(present, repo or Path.cwd(), named=_names_program(repo)))
    if repo is not None:
        checks += repository(repo, environ=os.environ, now=present)
        checks += _outside(repo)
    else:
        checks.append(Diagnosis(WARN, "repository", outside, "change into one, or give --repo DIR"))
    return checks


def _names_program(repo: Path | None) -> bool:
    if repo is None:
        return False
    try:
        settings = load_settings(repo, environ=os.environ)
    except ConfigError:
        return False
    return bool(settings.command or settings.adapter or settings.agents)


def _outside(repo: Path) -> list[Diagnosis]:
    try:
        settings = load_settings(repo, environ=os.environ)
    except ConfigError:
        # What is wrong with the settings is told by their own check.
        return []
    checks = list(agents(repo, settings, os.environ))
    with contextlib.suppress(RuntimeFault):
        checks += right_code(repo, settings, os.environ)
    # What is wrong with the repository is told by its own check, too.
    with contextlib.suppress(ConfigError, RuntimeFault):
        checks += providers(ProviderInputs(repo, lambda: settings, os.environ, now))
    checks += notifications(repo, settings, os.environ)
    checks += engine(repo, settings, os.environ)
    checks += telemetry(settings, os.environ)
    return checks


def _repository(given: str | None) -> tuple[Path | None, str]:
    """Return the repository; a machine can be checked outside of any."""
    try:
        return find_repo(given), ""
    except UsageError as problem:
        if given is not None:
            raise
        return None, str(problem).partition(";")[0]


def _settings(repo: Path | None) -> list[dict[str, Any]]:
    if repo is None:
        return []
    try:
        rows = [asdict(row) for row in explain_settings(repo, environ=os.environ)]
    except ConfigError:
        # The check says what is wrong; there are no settings to show.
        return []
    return masked(rows, settings_masker(repo, os.environ, rows))


def _print(checks: list[Diagnosis]) -> None:
    wanted = coloured(sys.stdout, os.environ)
    margin = max(len(check.what) for check in checks)
    for check in checks:
        level = paint(f"{check.level:<4}", _COLOURS[check.level], wanted=wanted)
        mend = f" — {one_line(check.mend)}" if check.mend else ""
        say(f"{level}  {check.what:<{margin}}  {one_line(check.found)}{mend}")
