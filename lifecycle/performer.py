"""Carries out orders through the ports and answers with what came of them.

Knows no policy: it never looks at a counter or a limit, and what a result means is decided
elsewhere. Performing an order twice is harmless; `recovery` relies on it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from communication.mailbox import ReadingKind
from lifecycle import outside
from lifecycle.attend import Attendance, anything, word_of
from lifecycle.blockers import named
from lifecycle.case import Head
from lifecycle.errors import PlanError
from lifecycle.handout import (
    drop_config,
    snapshot_for,
    write_summary,
)
from lifecycle.housing import end, leave, look_once, look_up, mailbox_of, opened, save, whole
from lifecycle.joining import join
from lifecycle.judging.gates import GateRunner
from lifecycle.judging.merging import Merger
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.events import Fault
from lifecycle.machine.states import Capturing, Ended, Process, Spawning, Stopping, Working
from lifecycle.monitor import Monitor
from lifecycle.prices import price_of
from lifecycle.programs import program_of
from lifecycle.project import head_now
from lifecycle.setting_up.front import SettingUp
from lifecycle.shortfall import fault_of, patiently, put_off, text_of
from lifecycle.starting import Starter
from runtime.agents.outcome import Ending
from runtime.errors import CheckedOutError, RuntimeFault, WorkspaceError
from runtime.output import tail
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from lifecycle.bases import Start
    from lifecycle.case import Case
    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.machine.money import Spent
    from lifecycle.parts import Parts
    from runtime.process import ProcessIdentity
    from runtime.rebuild import Rebuilt
    from runtime.tree import TreeStatus
    from runtime.workspace import Workspace

LAST_WORDS_BYTES = 2000
FILES_NAMED = 200
LOOSE = (
    "{name} (it is a git repository of its own, so its files are in no commit of this branch: "
    "remove {name}/.git, then `git rm --cached {name}` and add its files; or make it a submodule "
    "and push its commit)"
)


class Performer:
    """Performs the orders of all lifecycles of one repository."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._setting_up = SettingUp(parts)
        self._gates = GateRunner(parts, self._setting_up)
        self._merger = Merger(parts, self._gates)
        self._starter = Starter(parts, self._setting_up)
        self._attended: dict[str, Attendance] = {}
        self._ends = False
        """Nobody waits for room on the machine any more."""

    async def perform(
        self,
        case: Case,
        effect_id: str,
        effect: Effect,
        tell: Callable[[Event], None],
        afford: Callable[[Spent], str] = anything,
    ) -> Event | None:
        """Carry out one order; None when nothing needs to be told.

        What the machine has no room for is put off, whatever it was that could not be started.
        """

        async def act() -> Event | None:
            try:
                return await self._act(case, effect_id, effect, tell, afford)
            except Exception as error:
                later = put_off(effect, self._now(), error) if shortage_of(error) else None
                if later is None:
                    raise
                return later

        return await patiently(act, self._parts.report, agent_id=case.agent_id)

    async def _act(  # noqa: PLR0911  # one line per order reads best
        self,
        case: Case,
        effect_id: str,
        effect: Effect,
        tell: Callable[[Event], None],
        afford: Callable[[Spent], str],
    ) -> Event | None:
        match effect:
            case do.PrepareWorkspace() as order:
                return await self._prepare(case, effect_id, order)
            case do.SpawnAgent() as order:
                return await self._spawn(case, effect_id, order, tell, afford)
            case do.StopAgent(attempt=attempt, process=process):
                return await self._stop(case, attempt, process)
            case do.FreezeAgent(attempt=attempt):
                return await self._freeze(case, attempt)
            case do.ThawAgent(attempt=attempt):
                await self._thaw(case, attempt)
                return None
            case do.TakeSnapshot() as order:
                return await self._capture(case, order)
            case do.RunGates(attempt=attempt, head=head):
                return await self._gates.run(case, effect_id, attempt, head)
            case do.MergeBranch() as order:
                return await self._merger.merge(case, effect_id, order)
            case do.RemoveWorkspace():
                return await self._remove(case)
            case _:
                return await outside.perform(self._parts, case, effect)

    def break_off(self) -> None:
        """Do not go on with what takes long and can be done by the next runner."""
        self._ends = True
        self._merger.break_off()

    def attended(self, agent_id: str) -> Attendance | None:
        """Return who attends the agent's living process, if it has one."""
        return self._attended.get(agent_id)

    async def reclaim(self, case: Case, attempt: int, marks: tuple[str, ...]) -> Event:
        """Make sure that nothing of a lost attempt is alive; return what it left to say."""
        swept: set[ProcessIdentity] = set()
        for mark in marks:
            swept |= self._parts.strays.pop(mark, set())
            for identity in self._parts.terminals.find_marked(mark):
                await end(self._parts, identity)
                swept.add(identity)
        word = None
        workspace = await opened(self._parts, case)
        if workspace is not None:
            with contextlib.suppress(RuntimeFault, OSError):  # the snapshot tries again, and tells
                await self._parts.workspaces.unlock(workspace)
            document = mailbox_of(self._parts, case, workspace).load()
            for mark in marks:
                reading = document.reading(case.agent_id, spawn_id=mark, task_id=case.task.id)
                said = reading.breakpoint
                if said is not None and reading.kind is ReadingKind.SIGNAL:
                    word = word_of(reading)
        return on.RunnerRestarted(
            at=self._now(),
            attempt=attempt,
            word=word,
            swept=len(swept),
            report=self._told_before(case, attempt, spoke=word is not None),
            last_sign=None if _lives(case, swept) else self._last_sign(case, attempt),
            began=self._began(case, attempt),
        )

    def _began(self, case: Case, attempt: int) -> bool:
        """Tell whether the log shows that a process began, of which nothing else may be left."""
        again = any(row.attempt == attempt for row in case.ledger[-1:])
        return not again and self._parts.paths.log(case.agent_id, attempt).exists()

    def _last_sign(self, case: Case, attempt: int) -> float | None:
        try:
            return self._parts.paths.log(case.agent_id, attempt).stat().st_mtime
        except OSError:
            return None

    def _told_before(self, case: Case, attempt: int, *, spoke: bool) -> on.Report | None:
        """Read what a lost attempt reported: what it used has to be paid all the same."""
        work = case.record.work
        if isinstance(work, (Working, Stopping)):
            start = work.log_start
        elif isinstance(work, Spawning) and not any(
            row.attempt == attempt for row in case.ledger[-1:]
        ):
            start = 0
        else:
            return None  # where its output begins, behind that of an earlier process, is not known
        try:
            program = program_of(case.agent, work.tally.program)
        except PlanError:
            return None
        if not program.adapter.programs:
            return None
        log = self._parts.paths.log(case.agent_id, attempt)
        now = self._parts.clock.now
        model = program.model
        price = price_of(self._parts.settings().prices, program.adapter.name, model)
        monitor = Monitor(program.adapter, log, start, now, model=model, price=price)
        return monitor.finish(None, None, Ending.KILLED, spoke=spoke)

    async def write_summary(self, case: Case) -> Path:
        """Render the summary for the next attempt now, so that people can read it."""
        workspace = await whole(self._parts, case)
        await look_once(self._parts, case, workspace)
        mailbox = mailbox_of(self._parts, case, workspace)
        settings = self._parts.settings()
        snapshot = snapshot_for(self._parts, case, mailbox, case.attempt, settings)
        return write_summary(self._parts, case, case.attempt, snapshot)

    # --- workspace ----------------------------------------------------------------------------

    async def _prepare(self, case: Case, effect_id: str, order: do.PrepareWorkspace) -> Event:
        attempt = order.attempt
        if order.join:
            return await join(self._parts, case, attempt, order.join)
        try:
            start = await self._parts.bases.start_of(case.task)
            if start.merge and self._parts.settings().on_conflict == "ask":
                return self._apart(case, attempt, start)
            target = await self._parts.bases.target_of(case.task)
            workspace = await self._parts.workspaces.prepare(case.agent_id, base=start.commit)
            case.workspace = workspace
            head = workspace.base_commit
            await self._setting_up.workspace(case, effect_id, 0, workspace, head)
            baseline, digest = await self._gates.baseline(case, effect_id, workspace)
        except (RuntimeFault, PlanError) as error:
            users = isinstance(error, (WorkspaceError, PlanError))
            waits = isinstance(error, CheckedOutError)  # until somebody has seen enough of it
            fault = fault_of(error, Fault.USER if users and not waits else Fault.ENVIRONMENT)
            text = text_of(error)
            return on.WorkspaceFailed(at=self._now(), attempt=attempt, text=text, fault=fault)
        except OSError as error:
            return on.WorkspaceFailed(
                at=self._now(), attempt=attempt, text=text_of(error), fault=fault_of(error)
            )
        return on.WorkspaceReady(
            at=self._now(),
            attempt=attempt,
            branch=workspace.branch,
            base_commit=workspace.base_commit,
            base_branch=workspace.base_branch or target,
            path=str(workspace.path),
            baseline=baseline,
            digest=digest,
            notes=workspace.notes,
            merge=start.merge,
        )

    def _apart(self, case: Case, attempt: int, start: Start) -> Event:
        text = (
            f"the work that {case.task.id} depends on cannot be joined: {start.why}; accept one of "
            f"the dependencies and resolve the conflict there, then `loopwright resume "
            f"{case.agent_id}`"
        )
        return on.WorkspaceFailed(
            at=self._now(), attempt=attempt, text=text, fault=Fault.USER, conflicts=start.conflicts
        )

    async def _remove(self, case: Case) -> Event:
        try:
            saved = await leave(self._parts, case.agent_id, case.attempt)
        except (RuntimeFault, OSError) as error:
            if shortage_of(error) and not self._ends:
                raise
            return on.WorkspaceRemoved(at=self._now(), problem=str(error))
        case.workspace = None
        return on.WorkspaceRemoved(at=self._now(), saved_ref=saved.ref if saved else "")

    # --- the agent ----------------------------------------------------------------------------

    async def _spawn(
        self,
        case: Case,
        effect_id: str,
        order: do.SpawnAgent,
        tell: Callable[[Event], None],
        afford: Callable[[Spent], str],
    ) -> Event:
        event, attendance = await self._starter.start(case, effect_id, order, tell, afford)
        if attendance is not None:
            self._attended[case.agent_id] = attendance
        return event

    async def _stop(self, case: Case, attempt: int, process: Process) -> Event:
        grace = self._parts.settings().stop_grace
        attendance = self._attended.get(case.agent_id)
        # What cannot be saved now is saved by the snapshot; the agent must end all the same.
        with contextlib.suppress(RuntimeFault, OSError):
            workspace = await opened(self._parts, case)
            if workspace is not None:
                if attendance is not None and attendance.process.order.box is not None:
                    # While it moves, it could lead our git out of what it is shut into.
                    await attendance.process.suspend()
                await save(self._parts, workspace, attempt, "before the agent was stopped")
        if attendance is not None and attendance.process.identity.mark == process.spawn_id:
            return await attendance.stop(grace)
        event = await self.reclaim(case, attempt, (process.spawn_id,))
        word = event.word if isinstance(event, on.RunnerRestarted) else None
        return on.AgentStopped(at=self._now(), attempt=attempt, word=word)

    async def _freeze(self, case: Case, attempt: int) -> Event | None:
        attendance = self._attended.get(case.agent_id)
        if attendance is None or attendance.attempt != attempt:
            return None
        try:
            await attendance.freeze()
        except RuntimeFault as error:
            return on.FreezeFailed(at=self._now(), attempt=attempt, text=str(error))
        return None

    async def _thaw(self, case: Case, attempt: int) -> None:
        attendance = self._attended.get(case.agent_id)
        if attendance is not None and attendance.attempt == attempt:
            await attendance.thaw()

    # --- what it left -------------------------------------------------------------------------

    async def _capture(self, case: Case, order: do.TakeSnapshot) -> Event:
        attempt = order.attempt
        attendance = self._attended.pop(case.agent_id, None)
        if attendance is not None:
            attendance.close()
            self._parts.rounds.drop(attendance)
        drop_config(self._parts.paths.config(case.agent_id, attempt))
        try:
            try:
                return await self._work_left(case, order, attendance)
            except (RuntimeFault, OSError) as error:
                if shortage_of(error):
                    raise
                # Only where nothing else is wrong: it raises the same where git or the disk fails.
                rebuilt = await self._parts.workspaces.rebuild(case.agent_id, attempt)
                if rebuilt is None:
                    raise
                case.workspace, case.head = None, Head()
                return await self._work_left(case, order, attendance, rebuilt)
        except (RuntimeFault, OSError) as error:
            return on.SnapshotFailed(
                at=self._now(), attempt=attempt, text=text_of(error), fault=fault_of(error)
            )

    async def _work_left(
        self,
        case: Case,
        order: do.TakeSnapshot,
        attendance: Attendance | None,
        rebuilt: Rebuilt | None = None,
    ) -> Event:
        """Look what an attempt left, and save what is in no commit."""
        attempt, before = order.attempt, case.workspace
        workspace = await whole(self._parts, case)
        again = workspace.notes if workspace is not before else ()
        await self._parts.workspaces.unlock(workspace)
        status = await self._parts.workspaces.status(workspace)
        if status.unreadable:
            raise WorkspaceError(f"git cannot read {workspace.path}: {status.unreadable}")
        saved, notes = (rebuilt.saved_ref, rebuilt.notes) if rebuilt else ("", again)
        if status.dirty or status.hidden:
            ref, left_out = await save(self._parts, workspace, attempt, "end of attempt")
            saved, notes = ref or saved, (*notes, *left_out)
        commits = await self._look_up(case, workspace, status, attendance)
        elsewhere = await self._elsewhere(workspace, status)
        # Nothing shows as changed there, and yet its files would be in no commit that merges.
        loose = await self._parts.workspaces.loose(workspace, case.head.files)
        branch = await self._parts.branches.head(workspace.branch) if elsewhere else ""
        await self._note_work(case, workspace, (status.head, saved, branch or ""))
        blockers = await named(self._parts, case, order.blocked_on, status.head)
        return on.SnapshotTaken(
            at=self._now(),
            attempt=attempt,
            head=status.head,
            tree=status.fingerprint,
            dirty=(*(LOOSE.format(name=file.path) for file in loose), *status.dirty)[:FILES_NAMED],
            changed_files=tuple(file.path for file in case.head.files[:FILES_NAMED]),
            commits=commits,
            saved_ref=saved,
            last_words=self._last_words(case, attempt, attendance),
            elsewhere=elsewhere,
            blocked_on=blockers.blocked_on,
            tasks=blockers.tasks,
            joined=blockers.joined,
            notes=notes,
        )

    async def _note_work(self, case: Case, workspace: Workspace, tips: tuple[str, ...]) -> None:
        """Have it noted what was committed, and what was saved, before anybody can merge it."""
        # As recorded: the ref beside the branch is in reach of the agent.
        base = str(case.record.facts.get("base_commit") or workspace.base_commit)
        into = str(case.record.facts.get("base_branch") or workspace.base_branch or "")
        # What others brought there in the meantime is not its own, also if it has taken that up.
        since = (base, f"refs/heads/{into}") if into else (base,)
        if self._parts.work_watch is not None and any(tip not in ("", base) for tip in tips):
            await self._parts.work_watch.captured(
                self._parts.store, case.agent_id, since, tuple(filter(None, tips))
            )

    async def _elsewhere(self, workspace: Workspace, status: TreeStatus) -> str:
        """Say where the agent went if its commits are not on its branch, from where they merge."""
        if status.branch == workspace.branch:
            return ""
        if await self._parts.branches.head(workspace.branch) == status.head:
            return ""
        where = f"branch {status.branch}" if status.branch else "a detached HEAD"
        return f"{where}, not on {workspace.branch}"

    async def _look_up(
        self,
        case: Case,
        workspace: Workspace,
        status: TreeStatus,
        attendance: Attendance | None,
    ) -> int:
        """Remember where the workspace stands; return how many commits the attempt made."""
        await look_up(self._parts.workspaces, case, workspace, status)
        before = _head_before(case, attendance)
        shas = [commit.sha for commit in case.head.commits]
        return shas.index(before) if before in shas else len(shas) * (before != status.head)

    def _last_words(self, case: Case, attempt: int, attendance: Attendance | None) -> str:
        told = attendance.report if attendance is not None else None
        if told is None and case.ledger and case.ledger[-1].attempt == attempt:
            told = case.ledger[-1].report
        if told is not None and told.last_words:
            return told.last_words[-LAST_WORDS_BYTES:]
        work = case.record.work
        spoke = isinstance(work, Capturing) and work.outcome.ended is Ended.BREAKPOINT
        if spoke:
            return ""
        return tail(self._parts.paths.log(case.agent_id, attempt), LAST_WORDS_BYTES)

    def _now(self) -> float:
        return self._parts.clock.now()


def _lives(case: Case, found: Collection[ProcessIdentity]) -> bool:
    """Tell whether the agent itself was among what was found, not only what it had left behind."""
    work = case.record.work
    if not isinstance(work, (Working, Stopping)):
        return bool(found)
    known = work.process.pid, work.process.start_time
    return any((each.pid, each.start_time) == known for each in found)


def _head_before(case: Case, attendance: Attendance | None) -> str:
    """Return where the attempt began; its own row may not be written yet."""
    last = case.ledger[-1] if case.ledger else None
    if attendance is not None and (
        last is None or last.spawn_id != attendance.process.identity.mark
    ):
        return head_now(last, case.record)
    return last.head_before if last is not None else ""
