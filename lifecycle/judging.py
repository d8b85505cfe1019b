"""Judges work: runs the gates, tells old failures from new ones, merges what was accepted.

Every judgement is about one commit on a clean tree; what the agent says about itself is not asked.
"""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from ci.errors import ProviderError
from ci.interface import PullRequestState
from lifecycle.errors import PlanError
from lifecycle.housing import end, look_once, whole
from lifecycle.machine import events as on
from lifecycle.machine.states import Gate
from lifecycle.masking import refuse_markers
from runtime.errors import RuntimeFault
from runtime.ownership import make_private
from runtime.tree import some_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.interface import PullRequest
    from lifecycle.case import Case
    from lifecycle.machine.events import Event
    from lifecycle.parts import Parts
    from runtime.commands import CommandResult
    from runtime.workspace import Workspace

WATCHED_NAMES = (
    "conftest.py", "pytest.ini", "tox.ini", "noxfile.py", "setup.cfg", "pyproject.toml", "Makefile",
    "package.json", "jest.config", "vitest.config", "Cargo.toml", ".pre-commit-config.yaml",
)  # fmt: skip
WATCHED_FOLDERS = ("test", "tests", "__tests__", "spec", ".github", ".ci", ".gitlab-ci.yml")


def flagged(files: tuple[str, ...], commands: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the changed files that belong to the tests or the gates themselves."""
    words = {
        word.strip("'\"").removeprefix("./") for command in commands for word in command.split()
    }
    return tuple(file for file in files if _is_watched(file) or file in words)


def _is_history(found: PullRequest, head: str) -> bool:
    """Tell whether a pull request is over and was not about this commit."""
    merged = found.state is PullRequestState.MERGED
    return found.state is PullRequestState.CLOSED or (merged and found.head_sha != head)


def _is_watched(file: str) -> bool:
    *folders, name = file.split("/")
    stem = name.rsplit(".", 1)[0]
    return (
        name.startswith(WATCHED_NAMES)
        or any(folder in WATCHED_FOLDERS for folder in (*folders, name))
        or stem.startswith("test_")
        or stem.endswith(("_test", ".test", ".spec"))
    )


def _how(result: CommandResult) -> str:
    if result.ok or result.timed_out:
        return ""
    if result.limit_reached:
        return f"met the {result.limit_reached}"
    return f"was ended by signal {result.signal}" if result.signal else ""


def _shown(result: CommandResult) -> str:
    if not result.limit_reached:
        return result.excerpt
    return f"{result.excerpt.rstrip()}\n[it met the {result.limit_reached}]"


def _merge_message(case: Case) -> str:
    title = f": {case.task.title}" if case.task.title else ""
    return (
        f"Merge {case.task.id}{title}\n\nWork of {case.agent_id}, accepted after its gates passed."
    )


class Judge:
    """Runs gates and merges for all lifecycles of one repository."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def baseline(self, case: Case, effect_id: str, workspace: Workspace) -> tuple[Gate, ...]:
        """Run the gates on the untouched code, outside the workspace, which stays clean."""
        settings = self._parts.settings()
        commands = settings.verify_of(case.task)
        if not commands or not settings.baseline:
            return ()
        async with self._laid_out(case, workspace.base_commit) as folder:
            return await self._gates(case, effect_id, commands, folder, attempt=0)

    @contextlib.asynccontextmanager
    async def _laid_out(self, case: Case, commit: str) -> AsyncIterator[Path]:
        """Lay the files of a commit out in a folder of their own, and nothing else."""
        folder = self._parts.paths.laid_out(case.agent_id)
        shutil.rmtree(folder, ignore_errors=True)
        make_private(folder.parent)
        try:
            await self._parts.branches.export(commit, folder)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def run_gates(self, case: Case, effect_id: str, attempt: int, head: str) -> Event:
        """Run the gates on the commit the workspace stands at: there, or on its files alone."""
        settings = self._parts.settings()
        commands = settings.verify_of(case.task)
        try:
            workspace = await whole(self._parts, case)
            await look_once(self._parts, case, workspace)
            if settings.verify_clean:
                async with self._laid_out(case, head) as folder:
                    gates = await self._gates(case, effect_id, commands, folder, attempt=attempt)
            else:
                gates = await self._gates(
                    case, effect_id, commands, workspace.path, attempt=attempt
                )
            status = await self._parts.workspaces.status(workspace)
        except (RuntimeFault, PlanError, OSError) as error:
            return on.GatesFinished(at=self._now(), attempt=attempt, gates=(), problem=str(error))
        if status.head != head:
            moved = f"the verify commands moved the branch to {status.head}"
            gates = (*gates, Gate(command="git rev-parse HEAD", ok=False, code=1, excerpt=moved))
        if status.changed:
            # Green or red, they judged something else than the commit that would be merged.
            edited = (
                f"the verify commands changed files that are committed: {some_of(status.changed)}"
            )
            gates = (*gates, Gate(command="git diff --quiet", ok=False, code=1, excerpt=edited))
        return on.GatesFinished(
            at=self._now(),
            attempt=attempt,
            gates=gates,
            flagged=flagged(tuple(file.path for file in case.head.files), commands),
        )

    async def _gates(
        self, case: Case, effect_id: str, commands: tuple[str, ...], folder: Path, *, attempt: int
    ) -> tuple[Gate, ...]:
        refuse_markers(f"a verify command of {case.task.id}", commands)
        timeout = self._parts.settings().gate_timeout
        gates = []
        for number, command in enumerate(commands, 1):
            mark = f"{effect_id}.gate{number}"
            for identity in self._parts.terminals.find_marked(mark):
                await end(self._parts, identity)
            result = await self._parts.commands.run(
                command,
                cwd=folder,
                log=self._parts.paths.gate_log(case.agent_id, attempt, number),
                timeout=timeout,
                mark=mark,
            )
            gates.append(
                Gate(
                    command=command,
                    ok=result.ok,
                    code=None if result.timed_out else result.code,
                    excerpt="" if result.ok else _shown(result),
                    seconds=result.seconds,
                    how=_how(result),
                )
            )
        return tuple(gates)

    async def merge(self, case: Case, head: str) -> Event:
        """Merge exactly the judged commit into its base, or change nothing."""
        try:
            return await self._merge(case, head)
        except RuntimeFault as error:
            return self._refused(str(error))

    async def _merge(self, case: Case, head: str) -> Event:
        facts = case.record.facts
        branch, base = str(facts.get("branch", "")), str(facts.get("base_branch", ""))
        if not base:
            to_do = f"{branch} was started from no branch: switch to one, `git merge {branch}`"
            return await self._by_hand(head, to_do)
        unmerged = await self._parts.bases.unaccepted(case.task)
        if unmerged:
            return self._refused(
                f"{branch} builds on work that is not accepted yet: {', '.join(unmerged)}; "
                "accept that first"
            )
        merged = await self._merge_there(branch, base, head)
        if merged is not None:
            return merged
        outcome = await self._parts.branches.merge(
            branch,
            base,
            message=self._parts.masker.mask(_merge_message(case)),
            expected_head=head or None,
        )
        if outcome.merged and outcome.commit is not None:
            return on.MergeSucceeded(at=self._now(), commit=outcome.commit)
        if lost := await self._lost(case, branch, base, head):
            return await self._by_hand(head, lost)
        return on.MergeFailed(at=self._now(), text=outcome.reason, conflicts=outcome.conflicts)

    async def _lost(self, case: Case, branch: str, base: str, head: str) -> str:
        """Say what a person does about a branch that is not there any more, if one is not."""
        for name, commit in ((base, case.record.facts.get("base_commit", "")), (branch, head)):
            if await self._parts.branches.head(name) is None:
                return f"there is no branch {name} any more: `git branch {name} {commit}`"
        return ""

    async def _by_hand(self, head: str, to_do: str) -> Event:
        """Count what is in the branch that the user has checked out as merged, or say what to do.

        Only where there is nothing to merge or to merge into: else the base is where it goes.
        """
        found = await self._parts.branches.held_by(head) if head else None
        if found is None:
            return self._refused(f"{to_do}, then accept again")
        into, commit = found
        return on.MergeSucceeded(at=self._now(), commit=commit, into=into)

    async def _merge_there(self, branch: str, base: str, head: str) -> Event | None:
        """Merge through the pull request where a forge keeps it; None when there is none."""
        ci = self._parts.ci
        if ci is None or not ci.looks:
            return None
        try:
            found = await ci.find_pull_request(branch)
            if found is None or _is_history(found, head):
                return None
            if found.base != base:
                text = f"pull request {found.url} goes into {found.base}, not into {base}"
                return self._refused(text)
            result = await ci.merge(found.number, expected_sha=head)
        except ProviderError as error:
            return self._refused(str(error))
        if not result.merged:
            return self._refused(result.reason)
        return on.MergeSucceeded(at=self._now(), commit=result.commit or head)

    def _refused(self, why: str) -> on.MergeFailed:
        return on.MergeFailed(at=self._now(), text=why)

    def _now(self) -> float:
        return self._parts.clock.now()
