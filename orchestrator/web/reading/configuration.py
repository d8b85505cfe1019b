"""Every setting with its origin, what of them waits for a person, and what `doctor` finds."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any, TypedDict

from lifecycle.mask_values import masked
from lifecycle.settings import Settings
from orchestrator.approval.held_settings import is_held
from orchestrator.approval.records import APPROVED, PROPOSED
from orchestrator.approval.restricting_values import SETTINGS_TABLES
from orchestrator.config.field_docs import field_docs
from orchestrator.config.settings import DEFAULT
from orchestrator.control import approve_settings
from orchestrator.control.shown_settings import settings_masker
from orchestrator.wording.json_schemas import CheckedForm  # noqa: TC001  # hints are read at run time
from runtime.async_subprocess import run_to_end
from runtime.errors import GitError
from runtime.git.git import Git

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.approval.approvals import Approvals, HeldValue
    from orchestrator.config.settings import SettingRow
    from orchestrator.control.approve_settings import Refusals
    from orchestrator.runner.server_interface import RunnerPort

FRESH = 30.0
"""Seconds for which findings of `doctor` are given out again."""
PATIENCE = 60.0
COMMAND_LINE = "the command line of the runner"
_FORMAT = "--format=%H%x00%s%x00%an%x00%ct"


class SettingForm(TypedDict):
    """A setting as the runner has it."""

    name: str
    value: Any
    source: str
    """the file, variable or command line that says so; `default` where none does"""
    default: Any
    about: str
    restricts: bool
    """whether a change by an agent waits for a person"""


class ChangeCommitForm(TypedDict):
    """The newest commit that changed a file."""

    sha: str
    subject: str
    author: str
    at: float


class RefusedForm(TypedDict):
    """That a person refused a change."""

    by: str
    at: float
    why: str


class HeldForm(TypedDict):
    """A change that the work of an agent made, and that is not in force."""

    id: str
    """names this change of this value; `approve` and `refuse` take it"""
    name: str
    file: str
    value: Any
    """what the file says now; null also where the content of a whole file is meant"""
    approved: Any
    """what counts instead"""
    content: bool
    """whether the content of a whole file is meant"""
    agent_id: str
    commit: ChangeCommitForm | None
    refused: RefusedForm | None


class ConfigurationForm(TypedDict):
    """All settings, and what waits."""

    settings: list[SettingForm]
    held: list[HeldForm]


class FindingsForm(TypedDict):
    """What `loopwright doctor` finds."""

    checks: list[CheckedForm]
    at: float
    """when it was looked"""


async def configuration(runner: RunnerPort) -> ConfigurationForm:
    """Return every setting, and what waits for a person."""
    (rows, approvals), refusals = await read(runner)
    commits = await asyncio.to_thread(_commits, runner.repo, approvals)
    told: ConfigurationForm = {
        "settings": _settings(rows, runner.settings()),
        "held": [_held(each, commits, refusals) for each in approvals.held.values()],
    }
    literal = settings_masker(runner.repo, os.environ, (told["settings"], told["held"]))
    return masked(masked(told, literal), runner.engine.shared.masker)


async def read(runner: RunnerPort) -> tuple[tuple[list[SettingRow], Approvals], Refusals]:
    """Read settings, plans and named files anew; git is asked, so not in the loops' thread."""
    found = await asyncio.to_thread(approve_settings.read, runner.repo, os.environ)
    return found, await approve_settings.refusals(runner.store)


async def stamp(runner: RunnerPort) -> list[Any]:
    """Return what changes when the configuration does; read without git."""
    files = [_changed_at(runner.repo / name) for name in SETTINGS_TABLES]
    kept = [await runner.store.all(each) for each in (APPROVED, PROPOSED, approve_settings.REFUSED)]
    return [runner.settings().model_dump(mode="json"), files, kept]


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _settings(rows: list[SettingRow], present: Settings) -> list[SettingForm]:
    texts, defaults = field_docs(Settings), Settings().model_dump(mode="json")
    live = present.model_dump(mode="json")
    made: list[SettingForm] = []
    for row in rows:
        value = json.loads(json.dumps(row.value, default=str))
        overridden = json.dumps(live[row.name]) != json.dumps(value) and row.source == DEFAULT
        made.append(
            {
                "name": row.name,
                "value": live[row.name] if overridden else value,
                "source": COMMAND_LINE if overridden else row.source,
                "default": defaults[row.name],
                "about": texts.get(row.name, ""),
                "restricts": is_held(row.name),
            }
        )
    return made


def _held(held: HeldValue, commits: dict[str, ChangeCommitForm], refusals: Refusals) -> HeldForm:
    told = held.to_json()
    number = approve_settings.id_of(held)
    refused = refusals.get(number)
    return {
        "id": number,
        "name": told["name"],
        "file": told["file"],
        "value": told["value"],
        "approved": told["approved"],
        "content": told["name"] == told["file"],
        "agent_id": held.agent_id,
        "commit": commits.get(told["file"]),
        "refused": None
        if refused is None
        else {"by": refused["by"], "at": refused["at"], "why": refused["why"]},
    }


def _commits(repo: Path, approvals: Approvals) -> dict[str, ChangeCommitForm]:
    """Return the newest commit of each file in which something waits; blocking."""
    found: dict[str, ChangeCommitForm] = {}
    git = Git()
    for file in {each.to_json()["file"] for each in approvals.held.values()}:
        try:
            asked = git.run_blocking("log", "-1", _FORMAT, "--", file, cwd=repo)
        except GitError:
            continue
        parts = asked.stdout.decode(errors="replace").strip().split("\0")
        if len(parts) == 4:  # noqa: PLR2004  # as the format has them
            sha, subject, author, at = parts
            found[file] = {"sha": sha, "subject": subject, "author": author, "at": float(at)}
    return found


class Doctor:
    """Findings of `loopwright doctor`, looked for at most every few seconds.

    In a process of its own: it reads files that this process has locked, and takes its time.
    """

    def __init__(self, runner: RunnerPort) -> None:
        self._runner = runner
        self._looking = asyncio.Lock()
        self._found: FindingsForm | None = None

    async def findings(self) -> FindingsForm:
        """Return what there is to say about machine and repository."""
        async with self._looking:
            now = self._runner.now()
            if self._found is None or not 0 <= now - self._found["at"] <= FRESH:
                self._found = {"checks": await self._look(), "at": now}
            return self._found

    async def _look(self) -> list[CheckedForm]:
        repo = self._runner.repo
        asked = (sys.executable, "-P", "-m", "orchestrator.cli.main", "doctor", "--json")
        try:
            ended = await run_to_end(
                (*asked, "--repo", str(repo)), cwd=repo, env=os.environ, data=None, seconds=PATIENCE
            )
            checks: list[CheckedForm] = json.loads(ended.stdout)["checks"]
        except (OSError, ValueError, KeyError, TypeError) as problem:
            found = f"`loopwright doctor` did not come to an end ({type(problem).__name__})"
            return [
                {"level": "warn", "what": "doctor", "found": found, "mend": "run it in a terminal"}
            ]
        return masked(checks, self._runner.engine.shared.masker)
