"""Takes lifecycles of a file into this repository: all of them, or nothing changes.

First everything is found out, under the lock of a runner where none is alive; then the branches
are set, and last the records are written, in one transaction. Starts no agent.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ci.local.ledger import PULLS
from lifecycle.audit import Act
from lifecycle.engine.retention import RETIRED
from lifecycle.machine.runner_orders import OperationNote
from lifecycle.mask_values import masked
from lifecycle.paths import Paths
from lifecycle.record import EARLIER, Filter, placed
from lifecycle.state_words import spelled, word_on
from lifecycle.store.lock import REQUEST, RunnerLock
from lifecycle.store.lost_records import is_to_be_made, refuse_lost
from lifecycle.store.sqlite.store import SqliteStore
from lifecycle.store.transfers import standing
from orchestrator.config.known_secrets import masker_of
from orchestrator.control import requests
from orchestrator.control.open_store import runner_of
from orchestrator.transfer.belongings import KeptDocuments, dependencies_of
from orchestrator.transfer.branches import BranchImport
from orchestrator.transfer.document import ImportRefusedError, read_export
from runtime.branches import BranchManager
from runtime.git.branch_transfer import BranchTransfer
from runtime.machine_id import this_machine
from runtime.private_files import make_private, write_whole
from runtime.workspace import WorkspaceManager
from runtime.workspaces.worktrees_dir import worktrees_dir

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from pathlib import Path

    from lifecycle.settings import Settings
    from lifecycle.store.transfers import Standing
    from orchestrator.transfer.document import ExportedLifecycle, ExportFile
    from orchestrator.wording.json_forms import ImportedForm, ImportForm

IMPORT = "import_agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """What somebody asks for."""

    file: Path
    by: str
    dry_run: bool


async def take_in(repo: Path, asked: Import, settings: Settings) -> ImportForm:
    """Import a file; LifecycleError or ImportRefusedError says why nothing was changed."""
    given = read_export(asked.file)
    _refuse_live(given)
    root = worktrees_dir(repo, settings.worktrees_dir)
    branches = BranchTransfer(repo)
    taking = BranchImport(branches, WorkspaceManager(repo, root=root))
    async with _store(repo, dry_run=asked.dry_run) as store:
        with _alone(repo, dry_run=asked.dry_run) as runner:
            moved = tuple([await _at_home(each, root, store) for each in given.lifecycles])
            found = await _standings(store, moved, runner)
            fresh = tuple(each for each in moved if found[each.agent_id] != "same")
            if given.bundle is not None and not asked.dry_run:
                await branches.brings(given.bundle)
                await branches.unpack(given.bundle)
            plan = await taking.plan(fresh, given.bundle, unpacked=not asked.dry_run)
            notes = [*plan.notes, *await _notes(store, moved, settings), *_of_damaged(given)]
            if not asked.dry_run:
                await taking.carry_out(plan)
                try:
                    await store.take_in([each.stored for each in moved], _act(asked, moved))
                except BaseException:
                    await taking.undo(plan)
                    raise
                _keep_edited(Paths.of(repo), moved, found)
        if not asked.dry_run:
            await _announce(repo, store, fresh, asked.by, settings)
    listed = [_form(each, found[each.agent_id]) for each in moved]
    return {"dry_run": asked.dry_run, "lifecycles": listed, "notes": notes}


def _refuse_live(given: ExportFile) -> None:
    live = [each.agent_id for each in given.lifecycles if each.live]
    if live:
        raise ImportRefusedError(
            f"{', '.join(live)} had an agent at work when the file was written, and must not work "
            f"in two places: `loopwright stop {live[0]}` there, then export again"
        )


async def _at_home(given: ExportedLifecycle, root: Path, store: SqliteStore) -> ExportedLifecycle:
    """Return a lifecycle as one of this machine, with those variables that it had here before."""
    record = given.stored.record
    if record.work is None:
        return given
    facts = placed(record.facts, this_machine())
    if "workspace" in facts:
        facts["workspace"] = str(root / record.agent_id)
    here = await store.get(record.agent_id)
    if here is not None and here.birth == record.birth:
        known = here.facts["agent"].get("env") or {}
        own = {name: known[name] for name in given.hidden if name in known}
        facts["agent"] = {**facts["agent"], "env": {**facts["agent"]["env"], **own}}
    return replace(given, stored=replace(given.stored, record=replace(record, facts=facts)))


@asynccontextmanager
async def _store(repo: Path, *, dry_run: bool) -> AsyncIterator[SqliteStore]:
    database = Paths.of(repo).database
    await refuse_lost(database, BranchManager(repo).agents)
    if dry_run and is_to_be_made(database):
        async with SqliteStore.in_memory() as store:
            yield store
        return
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with await SqliteStore.open(database) as store:
        yield store


@contextmanager
def _alone(repo: Path, *, dry_run: bool) -> Iterator[dict[str, Any] | None]:
    """Keep runners out meanwhile; one that is alive goes on, and gets only what it does not run."""
    runner = runner_of(repo)
    if dry_run or runner is not None:
        yield runner
        return
    with RunnerLock(Paths.of(repo).root, who=f"{REQUEST} to import", machine=this_machine()):
        yield None


async def _standings(
    store: SqliteStore, given: Sequence[ExportedLifecycle], runner: dict[str, Any] | None
) -> dict[str, Standing]:
    documents = await KeptDocuments.read(store)
    found: dict[str, Standing] = {}
    for each in given:
        found[each.agent_id] = standing(each.stored, await store.whole(each.agent_id))
        for document in each.stored.documents:
            if found[each.agent_id] != "same" and documents.taken(document):
                raise ImportRefusedError(
                    f"{each.agent_id} has the local pull request {document.key}, a number which "
                    "another branch has here: merge or close it where it comes from, then export "
                    "again"
                )
    # A live runner has in memory what it runs, and the local pull requests.
    pulls = {
        each.agent_id for each in given if any(d.collection == PULLS for d in each.stored.documents)
    }
    running = [
        name
        for name, how in found.items()
        if how in ("newer", "next") or (how == "new" and name in pulls)
    ]
    if runner is not None and running:
        raise ImportRefusedError(
            f"{', '.join(running)} or its pull request is known to the live runner (pid "
            f"{runner.get('pid', '?')}): end that (Ctrl-C, or `kill PID`), then import again"
        )
    return found


async def _notes(
    store: SqliteStore, given: Sequence[ExportedLifecycle], settings: Settings
) -> list[str]:
    notes = []
    tasks = {each.stored.record.task_id for each in given} | set(await store.all(RETIRED))
    tasks |= {
        doc.key for each in given for doc in each.stored.documents if doc.collection == RETIRED
    }
    for each in given:
        lacking = [
            name
            for name in each.hidden
            if name not in settings.pass_env or not os.environ.get(name)
        ]
        if lacking:
            names = ", ".join(lacking)
            notes.append(
                f"{each.agent_id} needs {names}, whose values do not travel: set {names} here and "
                "name it in pass_env, or run its plan again"
            )
        for task_id in dependencies_of(each.stored.record):
            page = await store.list(Filter(task_id=task_id), limit=1)
            if task_id not in tasks and not page.named:
                notes.append(
                    f"{each.agent_id} depends on {task_id}, which is neither in the file nor here: "
                    "export that, too"
                )
    return notes


def _of_damaged(given: ExportFile) -> list[str]:
    return [
        f"{agent_id} is not in the file: its record was damaged where it was written"
        for agent_id in given.damaged
    ]


def _act(asked: Import, given: Sequence[ExportedLifecycle]) -> Act:
    names = [each.agent_id for each in given]
    return Act(
        at=requests.now(),
        actor=asked.by or "somebody",
        action="import",
        subject=names[0] if len(names) == 1 else f"{len(names)} lifecycles",
        outcome="done",
        details={"file": asked.file.name, "agents": names},
    )


def _keep_edited(
    paths: Paths, given: Sequence[ExportedLifecycle], found: Mapping[str, Standing]
) -> None:
    """Write edited summaries; of a lifecycle that is here only those that an import left out."""
    for each in given:
        for attempt, text in each.edited.items():
            path = paths.edited(each.agent_id, int(attempt))
            if found[each.agent_id] == "same" and path.exists():
                continue
            make_private(path.parent)
            write_whole(path, text.encode())


async def _announce(
    repo: Path,
    store: SqliteStore,
    given: Sequence[ExportedLifecycle],
    by: str,
    settings: Settings,
) -> None:
    """Log it, and have a live runner take up what goes on."""
    masker = masker_of(os.environ, settings.pass_env)
    for each in given:
        if EARLIER in each.agent_id or each.stored.record.work is None:
            continue
        note = OperationNote(
            at=requests.now(),
            by=by,
            operation=IMPORT,
            agent_name=each.agent_id,
            resolved_name=each.agent_id,
        )
        await requests.leave_note(repo, store, masked(note, masker), masker)


def _form(given: ExportedLifecycle, found: Standing) -> ImportedForm:
    record: Any = given.stored.record
    return {
        "agent_id": record.agent_id,
        "task_id": record.task_id,
        "state": spelled(word_on(record, runs=False)),
        "found": found,
    }
