"""What `doctor` finds out about the engine over many machines; nothing where it is not chosen.

Asks the server about itself and its clock, and the remote whether it would take a branch.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ci.forge_registry import FORGES
from lifecycle.settings import TEMPORAL
from orchestrator.doctor.machine import BAD, OK, WARN, Diagnosis
from orchestrator.errors import OrchestratorError
from orchestrator.runner.engine_choice import lacking
from runtime.errors import RuntimeFault
from runtime.git.git import inspect_repository
from runtime.remote.remote import GitRemote, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lifecycle.settings import Settings
    from orchestrator.engines.temporal.connection import ServerFacts

PATIENCE = 15.0
"""Seconds for the server to answer."""
MOST_SKEW = 2.0
"""Seconds by which clocks may differ before it is said."""
_FILES = ("temporal_tls_ca", "temporal_tls_cert", "temporal_tls_key")
_REHEARSED = "agent/loopwright-doctor"


def engine(repo: Path, settings: Settings, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Diagnose what workers and the coordinator of this repository need."""
    if settings.engine != TEMPORAL:
        return
    unread = list(_unread(settings))
    yield from unread
    problem = lacking(settings, environ)
    if problem:
        what, _, mend = problem.partition(": ")
        yield Diagnosis(BAD, "engine", what, mend)
    elif not unread:
        yield from _server(settings, environ)
    yield from _remote(repo, settings, environ)
    yield from _variables(settings, environ)


def _unread(settings: Settings) -> Iterator[Diagnosis]:
    for name in _FILES:
        file = getattr(settings, name)
        if file and not os.access(path := Path(file).expanduser(), os.R_OK):
            found = f"{name}: {path} cannot be read by this user"
            yield Diagnosis(BAD, "engine", found, "correct the path, or the file's permissions")


def _server(settings: Settings, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    from orchestrator.engines.temporal.connection import facts_of  # noqa: PLC0415  # only where it is chosen

    async def ask() -> ServerFacts:
        async with asyncio.timeout(PATIENCE):
            return await facts_of(settings, environ)

    address, namespace = settings.temporal_address, settings.temporal_namespace
    try:
        facts = asyncio.run(ask())
    except (OrchestratorError, TimeoutError) as problem:
        said = str(problem) or f"{address} did not answer within {PATIENCE:g} s: check the network"
        what, _, mend = said.rpartition(": ")
        yield Diagnosis(BAD, "engine", what, mend)
        return
    found = f"Temporal server {facts.version} at {address}"
    if not facts.has_namespace:
        mend = (
            f"create it with `temporal operator namespace create -n {namespace}`, or correct "
            "temporal_namespace"
        )
        yield Diagnosis(BAD, "engine", f"{found} has no namespace {namespace}", mend)
        return
    yield Diagnosis(OK, "engine", f"{found}, namespace {namespace}")
    if abs(facts.skew) > MOST_SKEW:
        ahead = "ahead of" if facts.skew > 0 else "behind"
        what = f"the server's clock is {abs(facts.skew):.0f} s {ahead} this machine's"
        yield Diagnosis(WARN, "clocks", what, "keep both by NTP, so that times on pages agree")


def _remote(repo: Path, settings: Settings, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Rehearse a push: workers hand branches on by it. A forge is asked by its own check."""
    if not {*settings.providers}.isdisjoint(FORGES):
        return
    name = settings.remote
    mend = "give this user the right to push there; workers hand their branches on by it"
    try:
        facts = inspect_repository(repo)
        url = url_of(repo, name)
        if url is None or facts.head_commit is None:
            found = f"there is no remote {name}" if url is None else "there is no commit to push"
            yield Diagnosis(BAD, "remote", found, f"`git remote add {name} ADDRESS`, or set remote")
            return
        remote = GitRemote(repo, name=name, url=url, environ=environ, timeout=PATIENCE)
        pushed = asyncio.run(
            remote.push(_REHEARSED, facts.head_commit, expected=None, header={}, rehearse=True)
        )
    except RuntimeFault as fault:
        yield Diagnosis(BAD, "remote", str(fault), mend)
        return
    if pushed.done:
        yield Diagnosis(OK, "remote", f"{name} would take branches of agents")
    else:
        yield Diagnosis(BAD, "remote", pushed.reason, mend)


def _variables(settings: Settings, environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    unset = [name for name in settings.pass_env if not environ.get(name)]
    if unset:
        found = f"pass_env names {', '.join(unset)}, not set here"
        mend = "set them on each worker: values of variables do not travel"
        yield Diagnosis(WARN, "variables", found, mend)
