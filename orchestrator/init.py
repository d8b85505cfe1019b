"""Prepares a repository: a settings file with every setting explained, and git's excludes.

Owns the text of a fresh loopwright.toml and the guesses about agent and tests. Changes nothing that
is there already.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ci.forge_registry import FORGES
from ci.remote_url import kind_of, parse
from lifecycle.launch.programs import installed
from lifecycle.settings import Settings
from orchestrator.approval.held_settings import OF_THE_USER
from orchestrator.config.field_docs import field_docs
from orchestrator.config.sources import REPO_FILE
from orchestrator.config.toml_text import TomlText
from orchestrator.config.value_forms import allowed_values
from orchestrator.doctor.code_origin import other_code
from orchestrator.proposals.propose import propose
from runtime.agents.catalogue import built_in
from runtime.git.git import inspect_repository
from runtime.git.ownership import exclude_own_files, excluded
from runtime.remote.remote import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ci.remote_url import RemoteUrl
    from orchestrator.proposals.committed_files import SetupProposal

_HEAD = """\
# Settings of Loopwright for this repository. Lines show defaults; remove a "#" to change one.
# Each new attempt uses the values of that moment. LOOPWRIGHT_NAME variables and options win.
"""
_EXAMPLES: dict[str, Any] = {
    "test_command": "make test",
    "adapter": "claude",
    "max_turns": 200,
    "budget_tokens": 5_000_000,
    "budget_usd": 20.0,
    "budget_hours": 8.0,
    "budget_attempts": 30,
    "plan_budget_tokens": 50_000_000,
    "plan_budget_usd": 200.0,
    "plan_budget_hours": 40.0,
    "plan_budget_attempts": 500,
    "day_budget_tokens": 50_000_000,
    "day_budget_usd": 100.0,
    "day_budget_hours": 40.0,
    "day_budget_attempts": 500,
    "memory_limit_mb": 4096,
    "cpu_limit_percent": 100,
    "process_limit": 500,
    "open_file_limit": 1024,
    "sandbox_engine": "bubblewrap",
    "github_app_installation": 12345678,
    "ci_poll_command": "./ci-status.sh",
}
_UNKNOWN_HOST = (
    "the remote is at {}, where no forge that we know answers: branches are not pushed there; "
    "for pull requests name what it runs in providers: {}"
)


@dataclass(frozen=True, slots=True)
class Done:
    """One step: done now, or done already."""

    changed: bool
    text: str


def prepare(repo: Path) -> Iterator[Done]:
    """Prepare the repository, telling each step; doing it twice changes nothing the second time."""
    facts = inspect_repository(repo)
    facts.require_usable()
    yield Done(changed=False, text=f"{facts.root} is a git repository with a commit")
    exclude = facts.common_dir / "info" / "exclude"
    before = excluded(facts.common_dir)
    exclude_own_files(facts.common_dir)
    if excluded(facts.common_dir) == before:
        yield Done(changed=False, text="git ignores our files already")
    else:
        yield Done(
            changed=True, text=f"git ignores .loopwright/ and communications.json ({exclude})"
        )
    path = repo / REPO_FILE
    pyproject = TomlText.read(repo / "pyproject.toml")
    if path.exists():
        yield Done(changed=False, text=f"{path} exists and is left unchanged")
    elif pyproject is not None and pyproject.table("tool", "loopwright"):
        yield Done(changed=False, text=f"the settings are in {pyproject.path}")
    else:
        proposed = propose(repo)
        remote, forge = _forge(repo)
        guesses, limits = guess(forge, proposed), budgets()
        with path.open("x", encoding="utf-8") as stream:
            stream.write(fresh_file({**guesses, **limits}))
        yield Done(changed=True, text=f"{path} is written, with every setting explained")
        for name, value in guesses.items():
            yield Done(changed=True, text=f"{name} = {_toml(value)} is a guess; check it there")
        if remote is not None and forge is None:
            yield Done(changed=False, text=_UNKNOWN_HOST.format(remote.host, " or ".join(FORGES)))
        held = ", ".join(f"{name} = {_toml(value)}" for name, value in limits.items())
        yield Done(changed=True, text=f"each task is limited: {held}; change the limits there")
        if proposed.makes:
            exclude_own_files(facts.common_dir, proposed.makes)
            made = ", ".join(proposed.makes)
            yield Done(changed=True, text=f"git ignores what the set-up makes: {made}")
        for note in proposed.notes:
            yield Done(changed=False, text=note)
        setup, verify = tuple(proposed.setup), tuple(proposed.verify)
        for found in other_code(repo, setup, verify, os.environ):
            yield Done(changed=False, text=found.text)


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


def guess(forge: str | None, proposed: SetupProposal) -> dict[str, Any]:
    """Return what repository and machine suggest: the agent program, the tests and the forge."""
    guesses: dict[str, Any] = {}
    if forge is not None:
        guesses["providers"] = (forge,)
    here = tuple(installed())
    if here:
        guesses["adapter"] = here[0]
    for name in ("setup", "copy", "verify"):
        if found := getattr(proposed, name):
            guesses[name] = tuple(found)
    return guesses


def budgets() -> dict[str, Any]:
    """Return what limits each task from the start, whichever of the programs here works on it."""
    limits: dict[str, Any] = {"budget_hours": 8.0, "budget_attempts": 30}
    here = [built_in(name) for name in installed()]
    if here and all(adapter.tells_cost for adapter in here):
        limits = {"budget_usd": _EXAMPLES["budget_usd"], **limits}
    return limits


def fresh_file(guesses: Mapping[str, Any]) -> str:
    """Return a loopwright.toml with all settings, those that are guessed in force."""
    docs = field_docs(Settings)
    lines = [_HEAD]
    for name, field in Settings.model_fields.items():
        if name in OF_THE_USER:
            continue
        lines.append(f"# {docs.get(name, '')} ({allowed_values(name)})")
        if name in guesses:
            lines.append(f"{name} = {_toml(guesses[name])}\n")
        else:
            default = field.default if field.default is not None else _EXAMPLES[name]
            lines.append(f"# {name} = {_toml(default)}\n")
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(each) for each in value)}]"
    return json.dumps(value, ensure_ascii=False)
