"""Makes the snapshot, from which the next summary is rendered, of a lifecycle's working copy.

Reads what that copy holds; asks nothing of git, disk or clock.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from lifecycle.context.block_history import BlockStory
from lifecycle.context.facts import (
    AnswerFact,
    CIFacts,
    CommitFact,
    Communications,
    FailedCheck,
    FileChangeFact,
    GateResult,
    Guidance,
    LedgerEntry,
    Merge,
    OutcomeFact,
    PullRequestFact,
    RemarkFact,
    RequestFact,
    SavedWorkFact,
)
from lifecycle.machine import events as on
from lifecycle.machine.opinion import MISSING
from lifecycle.state_words import word_for
from runtime.git.porcelain import some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from communication.mailbox import Document
    from lifecycle.context.snapshot import ContextBuilder, ContextSnapshot
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import Gate, Signal
    from lifecycle.record import AttemptRow
    from lifecycle.settings import Settings
    from lifecycle.working_copy import LocalCopy
    from runtime.workspaces.begun_merge import BegunMerge

    _Spoken = on.BreakpointReached | on.AgentExited | on.AgentStopped | on.RunnerRestarted

NO_TASKS: Mapping[str, str] = MappingProxyType({})


def snapshot_of(  # noqa: PLR0913  # all by name
    local: LocalCopy,
    *,
    builder: ContextBuilder,
    settings: Settings,
    at: float,
    completed: Mapping[str, str] = NO_TASKS,
    mail: Document | None = None,
    person_summary: str | None = None,
) -> ContextSnapshot:
    """Assemble the snapshot for the next attempt; `completed` are the done tasks with titles."""
    work = local.record.work
    tally = work.tally if work is not None else None
    facts = local.record.facts
    story = _Story(local)
    last = local.ledger[-1] if local.ledger else None
    ended = last is not None and last.outcome != ""
    return builder.capture(
        task=local.task.model_copy(update={"verify": settings.verify_of(local.task)}),
        agent_id=local.agent_id,
        captured_at=at,
        attempt=last.attempt if last is not None else 0,
        next_attempt=local.attempt,
        completed=tuple(completed),
        titles=dict(completed),
        ledger=[_ledger_entry(row) for row in local.ledger if row.outcome],
        folded=local.folded,
        folded_alike=local.alike,
        status=word_for(work) if work is not None else "",
        branch=str(facts.get("branch", "")),
        base_branch=str(facts.get("base_branch", "")),
        base_commit=str(facts.get("base_commit", "")),
        head_commit=local.head.sha,
        recent_commits=[CommitFact(sha=c.sha, subject=c.subject) for c in local.head.commits],
        changed_files=[FileChangeFact(path=f.path, kind=f.kind) for f in local.head.files],
        dirty_files=[FileChangeFact(path=f.path, kind=f.kind) for f in local.dirty],
        saved_work=story.saved,
        # On record it is where it was made; the repository may have moved since.
        workspace_path=str(local.workspace.path if local.workspace else facts.get("workspace", "")),
        notes=[*map(str, facts.get("notes", ())), *_hidden(local), *story.notes],
        blockers=story.block.blockers(completed),
        block_reason=story.block.reason,
        blocked_attempt=story.block.attempt,
        depends_on=tally.depends_on if tally else (),
        communications=_communications(local, mail),
        retry_count=tally.retry_count if tally else 0,
        max_retries=settings.for_task(local.task).max_retries,
        spawn_count=tally.spawn_count if tally else 0,
        interruptions=tally.interruptions if tally else 0,
        last_outcome=story.outcome(last) if ended else None,
        gates=(gates := story.gates()),
        red_before=_red_before(local, gates),
        flagged_files=[str(name) for name in facts.get("flagged", ())],
        ci=story.ci,
        answer=story.answer,
        guidance=story.guidance,
        remarks=[*story.remarks, *story.findings],
        merges=[_merge(each) for each in local.merges],
        between=story.between,
        last_words=story.last_words,
        person_summary=person_summary,
    )


def _red_before(local: LocalCopy, gates: tuple[GateResult, ...]) -> tuple[str, ...]:
    green = {gate.command for gate in gates if gate.ok}
    before: dict[str, bool] = local.record.facts.get("baseline", {})
    return tuple(command for command, ok in before.items() if not ok and command not in green)


def _hidden(local: LocalCopy) -> tuple[str, ...]:
    if not local.hidden:
        return ()
    note = (
        "ignore rules that came with your work hide these files, so they are in no commit and are "
        f"not judged: {some_of(local.hidden)}"
    )
    return (note,)


class _Story:
    """What happened since the latest agent was started, and what it was told and still counts.

    Read off the journal.
    """

    def __init__(self, local: LocalCopy) -> None:
        self._local = local
        self._kind, self._text, self._evidence = "", "", ""
        self._word: Signal | None = None
        self._spoke_in = 0
        self.block = BlockStory()
        self._blocks = False
        self._gates: tuple[GateResult, ...] = ()
        self.saved: SavedWorkFact | None = None
        self.last_words = ""
        self.notes: tuple[str, ...] = ()
        self.ci: CIFacts | None = None
        self.answer: AnswerFact | None = None
        self.guidance: list[Guidance] = []
        self.remarks: list[RemarkFact] = []
        self.findings: list[RemarkFact] = []
        self.between: tuple[str, ...] = ()
        for entry in (*local.lasting(), *local.recent):
            reader = self._READERS.get(type(entry.event))
            if reader is not None and not entry.late:
                reader(self, entry.event, entry.before, entry.after)

    def outcome(self, last: AttemptRow | None) -> OutcomeFact | None:
        """Return how the latest attempt, or the wait after it, ended."""
        if self._kind:
            return OutcomeFact(kind=self._kind, text=self._text, evidence=self._evidence)
        if self._blocks and self.block.is_over:
            return OutcomeFact(kind="unblocked")
        if last is None:
            return None
        kind = "question" if last.outcome == "question" else last.outcome
        return OutcomeFact(kind=kind, text=last.error)

    def gates(self) -> tuple[GateResult, ...]:
        """Return the latest results of the gates, the baseline before the first attempt."""
        failed = self._local.set_up
        if failed is None or any(gate.command == failed.command for gate in self._gates):
            return self._gates
        return (*self._gates, _result(failed, self._local.head.sha))

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
            self.saved = SavedWorkFact(ref=event.saved_ref, files=event.dirty)

    def _judged(self, event: on.GatesFinished, _before: str, _after: str) -> None:
        before: dict[str, bool] = self._local.record.facts.get("baseline", {})
        self._gates = tuple(
            _result(
                gate,
                self._local.head.sha,
                failed_before=not before[gate.command] if gate.command in before else None,
            )
            for gate in event.gates
        )

    def _baseline(self, event: on.WorkspaceReady, _before: str, _after: str) -> None:
        self._gates = tuple(
            _result(gate, event.base_commit, failed_before=not gate.ok) for gate in event.baseline
        )

    def _ci(self, event: on.FromCi, _before: str, _after: str) -> None:
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
        pull = PullRequestFact(url=event.url, number=event.number, state="open")
        self.ci = CIFacts(
            status=self.ci.status if self.ci else "pending",
            sha=self.ci.sha if self.ci else "",
            pr=pull,
        )

    def _moved(self, event: on.PullRequestMoved, before: str, after: str) -> None:
        if self._blocks:
            self._ci(event, before, after)
            return
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
        before_it = self._pull_request()
        # Who only judges commits knows no address.
        known = before_it.url if before_it and before_it.number == event.number else ""
        self.ci = CIFacts(
            status="red" if red else "green" if event.fate is on.PrFate.MERGED else "none",
            sha=event.sha,
            failed=_failed(event) if red else (),
            pr=PullRequestFact(url=event.url or known, number=event.number, state=state),
        )

    def _unmerged(self, event: on.MergeFailed, _before: str, after: str) -> None:
        if not event.apart or after not in ("BackingOff", "Suspended"):
            return
        self._kind = "conflict" if event.conflicts else "merge_red"
        self._text, self.between = event.text, event.between
        if event.gates:
            self._gates = tuple(_result(gate, event.commit) for gate in event.gates)

    def _reviewed(self, event: on.Reviewed, before: str, _after: str) -> None:
        if before in ("PrPending", "AwaitingHuman"):
            self._kind, self._text = "reviewed", event.text
        self.remarks += [
            RemarkFact(where=told.title, excerpt=told.text, url=told.url, id=told.id)
            for told in event.details
        ]

    def _second_opinion(self, event: on.ReviewFinished, _before: str, after: str) -> None:
        opinion = event.opinion
        if opinion is None:
            return
        self.findings = [
            RemarkFact(where=each.where, excerpt=each.text)
            for each in opinion.findings
            if each.place != MISSING
        ]
        if after != "Completed" and self.findings:
            self._kind, self._text = "second_opinion", opinion.summary

    def _unblocked(self, event: on.Unblocked, before: str, _after: str) -> None:
        if before != "Queued":
            self._kind, self._text = "unblocked", event.note
            self.block.let_go(event.by, "unblocked it", event.note)

    def _answered(self, event: on.Answered, _before: str, _after: str) -> None:
        question = self._word.question if self._word is not None else ""
        self._kind = "answered"
        self.block.let_go(event.by, "answered", event.text)
        self.answer = AnswerFact(
            answer=event.text, question=question, by=event.by, attempt=self._spoke_in
        )

    def _guided(self, event: on.Guided, _before: str, _after: str) -> None:
        self.guidance.append(Guidance(text=event.text, by=event.by))

    def _pull_request(self) -> PullRequestFact | None:
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
        on.ReviewFinished: _second_opinion,
        on.MergeFailed: _unmerged,
        on.Unblocked: _unblocked,
        on.Answered: _answered,
        on.Guided: _guided,
    }


def _result(gate: Gate, commit: str, *, failed_before: bool | None = None) -> GateResult:
    return GateResult(
        command=gate.command,
        ok=gate.ok,
        code=gate.code,
        excerpt=gate.excerpt,
        failed_before=failed_before,
        at_commit=commit,
    )


def _merge(begun: BegunMerge) -> Merge:
    return Merge(
        commit=begun.commit,
        begun=begun.begun,
        conflicts=begun.conflicts,
        ours=tuple(CommitFact(sha=each.sha, subject=each.subject) for each in begun.ours),
        theirs=tuple(CommitFact(sha=each.sha, subject=each.subject) for each in begun.theirs),
    )


def _failed(event: on.FromCi) -> tuple[FailedCheck, ...]:
    if event.details:
        return tuple(
            FailedCheck(name=told.title, excerpt=told.text, url=told.url) for told in event.details
        )
    return (FailedCheck(name="checks", summary=event.text, excerpt=event.excerpt, url=event.url),)


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


def _communications(local: LocalCopy, mail: Document | None) -> Communications | None:
    if mail is None:
        return None
    entry = mail.entry(local.agent_id)
    requests = [
        RequestFact(sender=sender, text=text) for sender, text in mail.requests_to(local.agent_id)
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
            RequestFact(sender=sender, text=text, original=original)
            for sender, text, original in (entry.added if entry else ())
        ),
    )
