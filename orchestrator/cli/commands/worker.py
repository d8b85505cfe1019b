"""`loopwright worker`: a clone and its agents, for lifecycles that are decided elsewhere."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.launch import sandbox
from lifecycle.plan import checked_label, checked_name
from orchestrator.cli.run_loops import CommandContext
from orchestrator.control.agents import left_out, place_of
from orchestrator.control.open_store import runner_of
from orchestrator.control.people_only import require_person
from orchestrator.doctor.agents import agents as agents_here
from orchestrator.doctor.machine import BAD, WARN
from orchestrator.errors import ConfigError
from orchestrator.runner.engine_choice import require_engine
from orchestrator.runner.shadowing import check_own_packages
from orchestrator.runner.worker_session import WorkerRequest, run_worker
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo, positive
from orchestrator.terminal.text import tell
from orchestrator.web.token import WORKER_VARIABLE
from runtime.agents.catalogue import adapters
from runtime.capacity import raise_files
from runtime.errors import SpawnError
from runtime.git.git import inspect_repository

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from lifecycle.settings import Settings

NEEDED = ("agent", "pass_env")
"""What `doctor` finds out of which a worker needs all."""
LOOK_EVERY = 0.1
"""Seconds between two looks whether a worker that drains has ended."""
_MORE = """\
It takes lifecycles of this repository from the Temporal server that the settings name, up to
max_live_agents at once, and runs their agents in this clone. `loopwright up --engine temporal` in
another clone decides what is to be done and keeps the records; branches go by the git remote.

Ctrl-C, SIGTERM and --drain let it take nothing new: its agents are stopped, their work is saved and
pushed, and other workers go on with it. A second Ctrl-C ends it at once.

Exit code: 130/143 ended by a signal, 0 for --drain, 2 when something is missing here, 75 when
another worker or runner is at work in this clone."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Run the agents of lifecycles that are decided elsewhere (many machines).",
        example="loopwright worker --name a\nloopwright worker --name a --label gpu\n"
        "loopwright worker --name a --drain",
        more=_MORE,
    )
    made.add_argument(
        "--name",
        default=socket.gethostname(),
        metavar="NAME",
        help="unlike that of any other worker; by default its host's name",
    )
    made.add_argument(
        "--coordinator",
        metavar="URL",
        help="where its up or serve answers, by default public_url: it then hears of this worker, "
        "and gets its logs. The token is what `loopwright serve --worker-token` prints there, in "
        f"the variable {WORKER_VARIABLE}",
    )
    made.add_argument(
        "--label",
        action="append",
        metavar="L",
        help="it gets tasks with this label, too; may be repeated",
    )
    made.add_argument("--max-live", type=positive, metavar="N", help="agents alive at once here")
    made.add_argument(
        "--drain", action="store_true", help="end the worker of this clone, and wait for its end"
    )
    return made.with_repo()


def run(name: str, args: list[str]) -> int:
    """Work, or end who does."""
    options = parser(name).parse_args(args)
    try:
        checked_name(options.name)
    except ValueError as problem:
        raise UsageError(f"--name: {problem}") from problem
    try:
        labels = [checked_label(each) for each in options.label or ()]
    except ValueError as problem:
        raise UsageError(f"--label: {problem}") from problem
    repo = find_repo(options.repo)
    if options.drain:
        return _drain(repo, options)
    context = CommandContext.of(
        repo,
        engine="temporal",
        labels=tuple(labels) or None,
        max_live_agents=options.max_live,
    )
    # Taken out, so that no agent inherits it.
    token = os.environ.pop(WORKER_VARIABLE, "").strip()
    raise_files()
    inspect_repository(repo).require_usable()
    check_own_packages()
    settings = context.settings()
    url = options.coordinator or settings.public_url
    if options.coordinator and not token:
        raise UsageError(
            f"--coordinator needs the token of workers in the variable {WORKER_VARIABLE}; "
            "`loopwright serve --worker-token` prints it on the coordinator's machine"
        )
    require_engine(settings, context.environ)
    try:
        weaker = sandbox.check(settings)
    except SpawnError as refusal:
        raise UsageError(str(refusal)) from refusal
    programs, without = programs_here(repo, settings, context.environ)
    request = WorkerRequest(
        name=options.name,
        repo=repo,
        settings=settings,
        environ=context.environ,
        programs=programs,
        lacks=(*weaker, *without, *_unlinked(url, token)),
        url=url,
        token=token,
    )
    return asyncio.run(run_worker(request, tell))


def programs_here(
    repo: Path, settings: Settings, environ: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the agent programs here by name, and in words those that others have to run.

    ConfigError names programs without which no agent of this repository starts, and variables.
    """
    found = [each for each in agents_here(repo, settings, environ) if each.what in NEEDED]
    for each in found:
        if each.level == BAD or each.what == "pass_env":
            raise ConfigError(f"{each.found}: {each.mend}")
    command = settings.command[:1]
    if command and "/" not in command[0] and shutil.which(command[0], path=environ["PATH"]) is None:
        raise ConfigError(f"{command[0]} is not on PATH: install it, or correct command")
    named = [each.name for each in adapters(left_out).values() if place_of(each, environ)]
    lacks = [f"{each.found}: {each.mend}" for each in found if each.level == WARN]
    return (*(Path(each).name for each in command), *named), tuple(lacks)


def _unlinked(url: str, token: str) -> tuple[str, ...]:
    """Say what keeps logs and summaries here."""
    missing = [
        name
        for name, there in (
            ("the coordinator's address (--coordinator)", url),
            (WORKER_VARIABLE, token),
        )
        if not there
    ]
    if not missing:
        return ()
    return (f"{' and '.join(missing)}, without which logs and summaries of attempts stay here",)


def _drain(repo: Path, options: Namespace) -> int:
    """Ask the worker of this clone to end, and return once it has."""
    require_person(repo, "worker --drain")
    found = runner_of(repo)
    if found is None:
        tell(f"No worker is alive in {repo}.")
        return exits.COMPLETE
    if found.get("who") != f"worker {options.name}":
        raise UsageError(
            f"what is alive in {repo} is not worker {options.name} but "
            f"{found.get('who') or 'another runner'}, pid {found.get('pid', '?')}"
        )
    if found.get("host") != os.uname().nodename:
        raise UsageError(f"worker {options.name} runs on {found.get('host')}: drain it there")
    os.kill(int(found["pid"]), signal.SIGTERM)
    while (now := runner_of(repo)) is not None and now.get("pid") == found["pid"]:
        time.sleep(LOOK_EVERY)
    tell(f"Worker {options.name} has ended.")
    return exits.COMPLETE
