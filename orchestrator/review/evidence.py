"""What shows that the work of a lifecycle is good, and what it itself says of that.

Reads the record and its journal. What an agent says stands apart from what was checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from lifecycle.judging.flagged_files import reason_of
from lifecycle.judging.mutation_check import CANARIES
from lifecycle.machine import events as on
from lifecycle.machine.states import Accepted, Blocked, Completed, attempt_of
from lifecycle.needs_person import asked
from lifecycle.record import Filter
from lifecycle.state_words import spelled, word_on
from orchestrator.control.merge_preview import form, standing
from orchestrator.review.opinion import OpinionForm, opinion_form
from orchestrator.review.own_work import OPEN
from orchestrator.review.queue import need_of, stuck
from orchestrator.terminal.text import instant
from orchestrator.wording.states import since
from orchestrator.wording.why import why
from orchestrator.wording.why_facts import WhyContext

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from lifecycle.machine.states import Gate
    from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.wording.json_types import StateWord
    from orchestrator.wording.why_facts import MergeStanding

RECENT = 500
"""Journal entries that are read for it."""


class JudgedGateForm(TypedDict):
    """One verify command."""

    command: str
    ok: bool
    end: str
    """how it ended, in words"""
    seconds: float
    excerpt: str
    """of what it printed, if it failed"""
    before: bool | None
    """whether it passed before any work; null if that was not looked at"""


class FlaggedForm(TypedDict):
    """A changed file that belongs to the tests or gates."""

    path: str
    reason: str


class AlongForm(TypedDict):
    """Work of another lifecycle that a merge would bring with it."""

    agent_id: str
    task_id: str
    state: str


class ResolutionForm(TypedDict):
    """How work was changed since it was accepted and could not be merged."""

    since: str
    """the commit that was accepted; empty if this resolves nothing"""
    commits: list[str]
    files: list[str]


class RefusalForm(TypedDict):
    """Why the latest merge was refused."""

    text: str
    conflicts: list[str]
    between: list[str]
    """what came into the base since the work branched off, where the merged result was red"""
    gates: list[JudgedGateForm]
    """of the merged result"""


class EvidenceForm(TypedDict):
    """What a person needs to decide about one lifecycle, beside its diff."""

    agent_id: str
    task_id: str
    task: str
    title: str
    acceptance: list[str]
    state: StateWord
    needs: str
    """answer, approve, unblock, review, conflict or given_up; empty if nothing"""
    why: str
    asked: str
    since: float
    attempt: int
    """the one under way, else the latest"""
    words: str
    """what the agent says of its work, unchecked"""
    branch: str
    into: str
    head: str
    """the commit that would be merged; `expect_head` of accept"""
    gates: list[JudgedGateForm]
    gates_at: float | None
    verified: bool
    """whether verify commands passed on exactly this commit"""
    canary: str
    """what broken files showed about the verify commands; empty if they were not tried"""
    notes: list[str]
    opinion: OpinionForm | None
    """what a reviewer said; null if none was asked"""
    flagged: list[FlaggedForm]
    changed_files: list[str]
    comes_along: list[AlongForm]
    merged_as: str | None
    resolution: ResolutionForm
    refused: RefusalForm | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is read for it."""

    record: AgentLifecycle
    journal: Sequence[JournalEntry]
    attempts: Sequence[AttemptRow]
    standing: MergeStanding
    canary: Mapping[str, Any]
    settings: Settings
    needs: str
    why: str
    runs: bool

    @property
    def head(self) -> str:
        """The commit that an accept would merge."""
        return self.record.work.head if isinstance(self.record.work, Completed) else ""

    def judged(self) -> tuple[on.GatesFinished | None, float | None]:
        """Return the latest verdict of the gates, and when it was."""
        for entry in reversed(self.journal):
            if isinstance(entry.event, on.GatesFinished) and entry.event.gates and not entry.late:
                return entry.event, entry.at
        return None, None

    def refusal(self) -> on.MergeFailed | None:
        """Return why the latest merge was refused, if nothing came after that."""
        for entry in reversed(self.journal):
            match entry.event:
                case on.MergeFailed():
                    return entry.event
                case on.AcceptRequested() | on.GatesFinished() | on.MergeSucceeded():
                    return None
        return None


async def evidence(  # noqa: PLR0913  # all but the first by name
    repo: Path,
    *,
    store: SqliteStore,
    record: AgentLifecycle,
    settings: Settings,
    now: float,
    runs: bool,
) -> Evidence:
    """Read what there is."""
    journal = await store.journal(record.agent_id, limit=RECENT, newest=True)
    stands = await standing(repo, store, record)
    others = Filter(states=OPEN, current=True)
    known = [each async for each in store.every(others)] if isinstance(record.work, Blocked) else []
    alone = await stuck(store, known, has_ci=bool(settings.providers))
    view = WhyContext(
        journal=journal,
        now=now,
        when=lambda at: instant(at, now),
        settings=settings,
        has_runner=runs,
        outside=(await store.all("ci.waits")).get(record.agent_id, {}),
        standing=stands,
    )
    return Evidence(
        record=record,
        journal=journal,
        attempts=await store.attempts(record.agent_id, limit=1),
        standing=stands,
        canary=(await store.all(CANARIES)).get(record.agent_id, {}),
        settings=settings,
        needs=need_of(record, alone),
        why=why(record, view),
        runs=runs,
    )


def evidence_form(found: Evidence) -> EvidenceForm:
    """Return it as `--json` and the API give it."""
    record, work = found.record, found.record.work
    task = record.facts.get("task", {})
    judged, at = found.judged()
    done = work if isinstance(work, Completed) else None
    commands = (*task.get("verify", ()), *found.settings.verify)
    refusal = found.refusal()
    return {
        "agent_id": record.agent_id,
        "task_id": record.task_id,
        "task": record.task,
        "title": str(task.get("title") or ""),
        "acceptance": [str(each) for each in task.get("acceptance") or ()],
        "state": spelled(word_on(record, runs=found.runs)),
        "needs": found.needs,
        "why": found.why,
        "asked": asked(work) if work is not None else "",
        "since": since(vars(work) if work is not None else {}, record.updated_at),
        "attempt": attempt_of(work) if work is not None else 0,
        "words": _words(found),
        "branch": str(record.facts.get("branch") or ""),
        "into": str(record.facts.get("base_branch") or ""),
        "head": found.head,
        "gates": _gates(judged.gates if judged else (), record.facts.get("baseline") or {}),
        "gates_at": at,
        "verified": bool(done and done.passed),
        "canary": _canary(found.canary),
        "notes": list(done.notes if done else ()),
        "opinion": opinion_form(record),
        "flagged": [
            {"path": path, "reason": reason_of(path, commands) or "it belonged to them before"}
            for path in (done.flagged if done else ())
        ],
        "changed_files": list(record.changed_files or ()),
        "comes_along": _along(found.standing),
        "merged_as": found.standing.merged_as or None,
        "resolution": {
            "since": done.resolves if done else "",
            "commits": list(found.standing.resolution),
            "files": list(found.standing.resolved_files),
        },
        "refused": None if refusal is None else _refused(refusal),
    }


def _words(found: Evidence) -> str:
    work = found.record.work
    if isinstance(work, Completed | Accepted) and work.summary:
        return work.summary
    said = found.record.submission_summary or ""
    return said or next((row.summary for row in reversed(found.attempts) if row.summary), "")


def _gates(gates: Sequence[Gate], before: Mapping[str, bool]) -> list[JudgedGateForm]:
    return [
        {
            "command": gate.command,
            "ok": gate.ok,
            "end": gate.end,
            "seconds": gate.seconds,
            "excerpt": "" if gate.ok else gate.excerpt,
            "before": before.get(gate.command),
        }
        for gate in gates
    ]


def _canary(known: Mapping[str, Any]) -> str:
    if not known.get("broken"):
        return ""
    if known.get("green"):
        return f"they stay green with {known['broken']} broken on purpose"
    return f"they turn red with {known['broken']} broken on purpose, as they should"


def _along(stands: MergeStanding) -> list[AlongForm]:
    return [
        {"agent_id": each["agent_id"], "task_id": each["task_id"], "state": each["state"]}
        for each in form(stands.along)
    ]


def _refused(refusal: on.MergeFailed) -> RefusalForm:
    return {
        "text": refusal.text,
        "conflicts": list(refusal.conflicts),
        "between": list(refusal.between),
        "gates": _gates(refusal.gates, {}),
    }
