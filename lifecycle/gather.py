"""Turns a case into the snapshot that the next attempt's summary is rendered from.

Reads what the case remembers; asks nothing of git, disk or clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lifecycle.blockstory import BlockStory
from lifecycle.context import (
    Answer,
    CIFacts,
    Communications,
    ContextBuilder,
    ContextSnapshot,
    FailedCheck,
    FileChange,
    GateResult,
    Guidance,
    LedgerEntry,
    Merge,
    Outcome,
    PullRequest,
    Remark,
    Request,
    SavedWork,
)
from lifecycle.context import Commit as CommitFact
from lifecycle.machine import events as on
from lifecycle.state_words import word_for
from runtime.tree import some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from communication.mailbox import Document
    from lifecycle.case import Case
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import Gate, Word
    from lifecycle.plan import Task
    from lifecycle.record import AttemptRow
    from lifecycle.settings import Settings
    from runtime.begun import BegunMerge

    _Spoken = on.BreakpointReached | on.AgentExited | on.AgentStopped | on.RunnerRestarted


def snapshot_of(  # noqa: PLR0913  # all by name
    case: Case,
    *,
    builder: ContextBuilder,
    settings: Settings,
    at: float,
    completed: Mapping[str, str],
    mail: Document | None,
    person_summary: str | None = None,
) -> ContextSnapshot:
    """Assemble the snapshot for the next attempt; `completed` are the done tasks with titles."""
    work = case.record.work
    tally = work.tally if work is not None else None
    facts = case.record.facts
    story = _Story(case)
    last = case.ledger[-1] if case.ledger else None
    ended = last is not None and last.outcome != ""
    return builder.capture(
        task=_with_gates(case.task, settings),
        agent_id=case.agent_id,
        captured_at=at,
        attempt=last.attempt if last is not None else 0,
        next_attempt=case.attempt,
        completed=tuple(completed),
        titles=dict(completed),
        ledger=_ledger(case),
        status=word_for(work) if work is not None else "",
        branch=str(facts.get("branch", "")),
        base_branch=str(facts.get("base_branch", "")),
        base_commit=str(facts.get("base_commit", "")),
        head_commit=case.head.sha,
        recent_commits=[CommitFact(sha=c.sha, subject=c.subject) for c in case.head.commits],
        changed_files=[FileChange(path=f.path, kind=f.kind) for f in case.head.files],
        dirty_files=[FileChange(path=f.path, kind=f.kind) for f in case.dirty],
        saved_work=story.saved,
        # On record it is where it was made; the repository may have moved since.
        workspace_path=str(case.workspace.path if case.workspace else facts.get("workspace", "")),
        notes=[*map(str, facts.get("notes", ())), *_hidden(case), *story.notes],
        blockers=story.block.blockers(completed),
        block_reason=story.block.reason,
        blocked_attempt=story.block.attempt,
        depends_on=tally.depends_on if tally else (),
        communications=_communications(case, mail),
        retry_count=tally.retry_count if tally else 0,
        max_retries=settings.for_task(case.task).max_retries,
        spawn_count=tally.spawn_count if tally else 0,
        interruptions=tally.interruptions if tally else 0,
        last_outcome=story.outcome(last) if ended else None,
        gates=(gates := story.gates()),
        red_before=_red_before(case, gates),
        flagged_files=[str(name) for name in facts.get("flagged", ())],
        ci=story.ci,
        answer=story.answer,
        guidance=story.guidance,
        remarks=story.remarks,
        merges=[_merge(each) for each in case.merges],
        between=story.between,
        last_words=story.last_words,
        person_summary=person_summary,
    )


def _red_before(case: Case, gates: tuple[GateResult, ...]) -> tuple[str, ...]:
    green = {gate.command for gate in gates if gate.ok}
    before: dict[str, bool] = case.record.facts.get("baseline", {})
    return tuple(command for command, ok in before.items() if not ok and command not in green)


def _with_gates(task: Task, settings: Settings) -> Task:
    verify = settings.verify_of(task)
    return task if task.verify == verify else task.model_copy(update={"verify": verify})


def _hidden(case: Case) -> tuple[str, ...]:
    if not case.hidden:
        return ()
    note = (
        "ignore rules that came with your work hide these files, so they are in no commit and are "
        f"not judged: {some_of(case.hidden)}"
    )
    return (note,)


class _Story:
    """What happened since the latest agent was started, and what it was told and still counts.

    Read off the journal.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._kind, self._text, self._evidence = "", "", ""
        self._word: Word | None = None
        self._spoke_in = 0
        self.block = BlockStory()
        self._blocks = False
        self._gates: tuple[GateResult, ...] = ()
        self.saved: SavedWork | None = None
        self.last_words = ""
        self.notes: tuple[str, ...] = ()
        self.ci: CIFacts | None = None
        self.answer: Answer | None = None
        self.guidance: list[Guidance] = []
        self.remarks: list[Remark] = []
        self.between: tuple[str, ...] = ()
        for entry in (*case.lasting(), *case.recent):
            reader = self._READERS.get(type(entry.event))
            if reader is not None and not entry.late:
                reader(self, entry.event, entry.before, entry.after)

    def outcome(self, last: AttemptRow | None) -> Outcome | None:
        """Return how the latest attempt, or the wait after it, ended."""
        if self._kind:
            return Outcome(kind=self._kind, text=self._text, evidence=self._evidence)
        if self._blocks and self.block.is_over:
            return Outcome(kind="unblocked")
        if last is None:
            return None
        kind = "question" if last.outcome == "question" else last.outcome
        return Outcome(kind=kind, text=last.error)

    def gates(self) -> tuple[GateResult, ...]:
        """Return the latest results of the gates, the baseline before the first attempt."""
        failed = self._case.set_up
        if failed is None or any(gate.command == failed.command for gate in self._gates):
            return self._gates
        return (*self._gates, _told_again(failed, self._case.head.sha))

    def _spawned(self, _event: on.AgentSpawned, _before: str, _after: str) -> None:
        """Forget how it went before; what people said and what became of a block stays."""
        self._kind, self._text, self._evidence = "", "", ""
        self._blocks = False
        self.ci, self.saved, self.last_words, self.notes = None, None, "", ()

    def _spoke(self, event: _Spoken, _before: str, _after: str) -> None:
        if event.word is None:
            return
        self._word, self._spoke_in = event.word, event.attempt
        self._blocks = event.word.type == "blocked"
        if self._blocks:
            self.block = BlockStory()
            self.block.begins(event.word, event.at, event.attempt)

    def _captured(self, event: on.SnapshotTaken, _before: str, _after: str) -> None:
        self.last_words, self.notes = event.last_words, event.notes
        self.block.captured(event)
        if event.saved_ref:
            self.saved = SavedWork(ref=event.saved_ref, files=event.dirty)

    def _judged(self, event: on.GatesFinished, _before: str, _after: str) -> None:
        before: dict[str, bool] = self._case.record.facts.get("baseline", {})
        self._gates = tuple(
            GateResult(
                command=gate.command,
                ok=gate.ok,
                code=gate.code,
                excerpt=gate.excerpt,
                failed_before=not before[gate.command] if gate.command in before else None,
                at_commit=self._case.head.sha,
            )
            for gate in event.gates
        )

    def _baseline(self, event: on.WorkspaceReady, _before: str, _after: str) -> None:
        self._gates = tuple(
            GateResult(
                command=gate.command,
                ok=gate.ok,
                code=gate.code,
                excerpt=gate.excerpt,
                failed_before=not gate.ok,
                at_commit=event.base_commit,
            )
            for gate in event.baseline
        )

    def _ci(self, event: on.CiReported, _before: str, _after: str) -> None:
        failed = () if event.green else _failed(event)
        status = "green" if event.green else "red"
        self.ci = CIFacts(status=status, sha=event.sha, failed=failed, pr=self._pull_request())
        self.block.reported(event)

    def _looked(self, event: on.BlockersLooked, _before: str, _after: str) -> None:
        self.block.looked(event)

    def _settled(self, event: on.DependencySettled, _before: str, _after: str) -> None:
        self.block.settled(event)

    def _joined(self, event: on.WorkJoined, _before: str, _after: str) -> None:
        self.block.joined(event)

    def _opened(self, event: on.PullRequestOpened, _before: str, _after: str) -> None:
        pull = PullRequest(url=event.url, number=event.number, state="open")
        self.ci = CIFacts(
            status=self.ci.status if self.ci else "pending",
            sha=self.ci.sha if self.ci else "",
            pr=pull,
        )

    def _moved(self, event: on.PullRequestMoved, _before: str, _after: str) -> None:
        self._kind = {
            on.PrFate.MERGED: "pr_merged",
            on.PrFate.CLOSED: "pr_closed",
            on.PrFate.CHECKS_FAILED: "checks_failed",
            on.PrFate.CONFLICT: "conflict",
        }[event.fate]
        self._text = event.text
        if event.fate is on.PrFate.CONFLICT and event.excerpt:
            self._kind, self._evidence = "merge_red", event.excerpt
        red = event.fate is on.PrFate.CHECKS_FAILED
        state = {"merged": "merged", "closed": "closed"}.get(event.fate, "open")
        self.ci = CIFacts(
            status="red" if red else "green" if event.fate is on.PrFate.MERGED else "none",
            sha=event.sha,
            failed=_failed(event) if red else (),
            pr=PullRequest(url=event.url, number=event.number, state=state),
        )

    def _unmerged(self, event: on.MergeFailed, _before: str, after: str) -> None:
        if not event.apart or after not in ("BackingOff", "Suspended"):
            return
        self._kind = "conflict" if event.conflicts else "merge_red"
        self._text, self.between = event.text, event.between
        if event.gates:
            self._gates = tuple(_told_again(gate, event.commit) for gate in event.gates)

    def _reviewed(self, event: on.Reviewed, before: str, _after: str) -> None:
        if before in ("PrPending", "AwaitingHuman"):
            self._kind, self._text = "reviewed", event.text
        self.remarks += [
            Remark(where=told.title, excerpt=told.text, url=told.url) for told in event.details
        ]

    def _unblocked(self, event: on.Unblocked, before: str, _after: str) -> None:
        if before != "Queued":
            self._kind, self._text = "unblocked", event.note
            self.block.let_go(event.by, "unblocked it", event.note)

    def _answered(self, event: on.Answered, _before: str, _after: str) -> None:
        question = self._word.question if self._word is not None else ""
        self._kind = "answered"
        self.block.let_go(event.by, "answered", event.text)
        self.answer = Answer(
            answer=event.text, question=question, by=event.by, attempt=self._spoke_in
        )

    def _guided(self, event: on.Guided, _before: str, _after: str) -> None:
        self.guidance.append(Guidance(text=event.text, by=event.by))

    def _pull_request(self) -> PullRequest | None:
        return self.ci.pr if self.ci is not None else None

    _READERS: ClassVar[dict[type[Event], Callable[..., None]]] = {
        on.AgentSpawned: _spawned,
        on.BreakpointReached: _spoke,
        on.AgentExited: _spoke,
        on.AgentStopped: _spoke,
        on.RunnerRestarted: _spoke,
        on.SnapshotTaken: _captured,
        on.GatesFinished: _judged,
        on.WorkspaceReady: _baseline,
        on.CiReported: _ci,
        on.BlockersLooked: _looked,
        on.DependencySettled: _settled,
        on.WorkJoined: _joined,
        on.PullRequestOpened: _opened,
        on.PullRequestMoved: _moved,
        on.Reviewed: _reviewed,
        on.MergeFailed: _unmerged,
        on.Unblocked: _unblocked,
        on.Answered: _answered,
        on.Guided: _guided,
    }


def _told_again(gate: Gate, commit: str) -> GateResult:
    return GateResult(
        command=gate.command, ok=gate.ok, code=gate.code, excerpt=gate.excerpt, at_commit=commit
    )


def _merge(begun: BegunMerge) -> Merge:
    return Merge(
        commit=begun.commit,
        begun=begun.begun,
        conflicts=begun.conflicts,
        ours=tuple(CommitFact(sha=each.sha, subject=each.subject) for each in begun.ours),
        theirs=tuple(CommitFact(sha=each.sha, subject=each.subject) for each in begun.theirs),
    )


def _failed(event: on.CiReported | on.PullRequestMoved) -> tuple[FailedCheck, ...]:
    if event.details:
        return tuple(
            FailedCheck(name=told.title, excerpt=told.text, url=told.url) for told in event.details
        )
    return (FailedCheck(name="checks", summary=event.text, excerpt=event.excerpt, url=event.url),)


def _ledger(case: Case) -> list[LedgerEntry]:
    """Return the entries of all attempts that ended; each is made once."""
    before, case.told = case.told, {}
    for row in case.ledger:
        if row.outcome:
            known = before.get(id(row))
            case.told[id(row)] = known or (row, _ledger_entry(row))
    return [entry for _, entry in case.told.values()]


def _ledger_entry(row: AttemptRow) -> LedgerEntry:
    signals = ("task_complete", "blocked", "pr_created", "question")
    return LedgerEntry(
        attempt=row.attempt,
        outcome=row.outcome,
        started_at=row.started_at or None,
        seconds=(row.ended_at - row.started_at) if row.ended_at and row.started_at else None,
        breakpoint_type=row.outcome if row.outcome in signals else None,
        summary=row.summary,
        error=row.error,
        head_before=row.head_before,
        head_after=row.head_after,
        commits=row.commits,
        files_changed=row.changed_files,
        program=row.program,
        tool_calls=row.report.tool_calls if row.report is not None else 0,
        tokens=row.used.tokens,
    )


def _communications(case: Case, mail: Document | None) -> Communications | None:
    if mail is None:
        return None
    entry = mail.entry(case.agent_id)
    requests = [
        Request(sender=sender, text=text) for sender, text in mail.requests_to(case.agent_id)
    ]
    says = entry is not None and (
        entry.mission or entry.working_on or entry.done or entry.next or entry.added
    )
    if not says and not requests:
        return None
    return Communications(
        mission=entry.mission if entry else "",
        working_on=entry.working_on if entry else "",
        done="\n".join(entry.done) if entry else "",
        next="\n".join(entry.next) if entry else "",
        requests=tuple(requests),
        deliveries=tuple(
            Request(sender=sender, text=text, original=original)
            for sender, text, original in (entry.added if entry else ())
        ),
    )
