"""Prepares a repository: its first settings, and what git is to ignore.

`look` finds out what to propose and changes nothing; `prepare` writes what was chosen. It changes
nothing that is there already.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.forge_registry import FORGES
from ci.remote_url import kind_of, parse
from lifecycle.settings import Settings
from orchestrator.config.sources import REPO_FILE
from orchestrator.config.toml_text import TomlText
from orchestrator.doctor.code_origin import other_code
from orchestrator.proposals.agents_here import agents_here
from orchestrator.proposals.first_settings import FirstSettings, Found, file_of, toml
from orchestrator.proposals.propose import propose
from runtime.git.git import inspect_repository
from runtime.git.ownership import exclude_own_files, excluded
from runtime.remote.remote import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ci.remote_url import RemoteUrl

DONE, OK, LOOK = "done", "ok", "look"
_NO_AGENT = (
    "agent: none of the known programs is on PATH; install one (`loopwright agents` says how) and "
    'write adapter = "NAME", or command = ["PROGRAM"] for any other'
)
_UNKNOWN_HOST = (
    "the remote is at {}, where no forge that we know answers: branches are not pushed there; "
    "for pull requests name what it runs in providers: {}"
)


@dataclass(frozen=True, slots=True)
class InitStep:
    """What was done now, was there already, or is left to a person."""

    level: str
    text: str


def settings_at(repo: Path) -> str:
    """Return where the settings are already; empty where there are none."""
    path = repo / REPO_FILE
    if path.exists():
        return f"{path} exists and is left unchanged"
    pyproject = TomlText.read(repo / "pyproject.toml")
    if pyproject is not None and pyproject.table("tool", "loopwright"):
        return f"the settings are in {pyproject.path}"
    return ""


def look(repo: Path, environ: Mapping[str, str]) -> tuple[Found, tuple[InitStep, ...]]:
    """Find out what to propose, and what a person should know about it."""
    inspect_repository(repo).require_usable()
    remote, forge = _forge(repo)
    found = Found(agents_here(environ), propose(repo), forge)
    steps = [
        InitStep(OK if each.signed_in else LOOK, f"agent: {each.told}") for each in found.agents
    ]
    if not steps:
        steps = [InitStep(LOOK, _NO_AGENT)]
    checkout = found.checkout
    for name, commands in (("setup", checkout.setup), ("verify", checkout.verify)):
        if commands:
            steps.append(InitStep(OK, f"{name}: {'; '.join(commands)}"))
    if forge is not None:
        steps.append(InitStep(OK, f"forge: {forge}, by the remote {Settings().remote}"))
    elif remote is not None:
        unknown = _UNKNOWN_HOST.format(remote.host, " or ".join(FORGES))
        steps.append(InitStep(LOOK, unknown))
    return found, (*steps, *(InitStep(LOOK, note) for note in checkout.notes))


def prepare(repo: Path, found: Found | None, chosen: FirstSettings | None) -> Iterator[InitStep]:
    """Write what was chosen; without a choice only what git is to ignore."""
    facts = inspect_repository(repo)
    facts.require_usable()
    exclude = facts.common_dir / "info" / "exclude"
    before = excluded(facts.common_dir)
    makes = tuple(found.checkout.makes) if found is not None else ()
    exclude_own_files(facts.common_dir, makes)
    if excluded(facts.common_dir) == before:
        yield InitStep(OK, "git ignores our files already")
    else:
        also = f", and what the set-up makes: {', '.join(makes)}" if makes else ""
        yield InitStep(
            DONE, f"git ignores .loopwright/ and communications.json{also} (in {exclude})"
        )
    if found is None or chosen is None:
        return
    path = repo / REPO_FILE
    with path.open("x", encoding="utf-8") as stream:
        stream.write(file_of(found, chosen))
    yield InitStep(DONE, f"{path} is written; look through it, it is short")
    held = ", ".join(f"{name} = {toml(value)}" for name, value in chosen.budgets().items())
    yield InitStep(OK, f"each task is limited: {held}")
    for each in other_code(repo, tuple(found.checkout.setup), chosen.verify, os.environ):
        yield InitStep(LOOK, each.text)


def _forge(repo: Path) -> tuple[RemoteUrl | None, str | None]:
    """Return where the remote is, and which forge it is by its name or by what it answers."""
    remote = parse(url_of(repo, Settings().remote) or "")
    if remote is None:
        return None, None
    known = kind_of(remote.host)
    if known is None:
        from ci.host_forge import forge_at  # noqa: PLC0415  # loads httpx: most names tell it

        known = asyncio.run(forge_at(remote.web))
    return remote, known
