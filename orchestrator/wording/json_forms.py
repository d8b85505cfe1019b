"""Records, journals and attempts as JSON values: what `--json`, `export` and the API give.

Adding a key is allowed, changing or removing one is not. The schemas of these forms are made of the
types here. Values of variables that a plan sets for its agents are left out: they may be secrets.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from lifecycle.json_form import encode, plain
from lifecycle.machine.states import ACTIVE, TERMINAL
from lifecycle.state_words import spelled, word_on
from lifecycle.store.damaged_records import Damaged
from orchestrator.wording.possible_actions import ActionForm, actions_of
from orchestrator.wording.workers import worker_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.paths import Paths
    from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry, PendingEffect
    from lifecycle.settings import Settings
    from lifecycle.store.transfers import StoredLifecycle
    from orchestrator.wording.json_types import (
        Attempt,
        RecordState,
        Runner,
        StateWord,
        Stored,
        StoredState,
    )
    from orchestrator.wording.lifecycle_row import Columns

FORM_VERSION = 2
HIDDEN = "(hidden)"
Found = Literal["new", "next", "newer", "same"]


class RecordForm(TypedDict):
    """A lifecycle."""

    agent_id: str
    birth: str
    """tells this lifecycle from another of the same agent"""
    task_id: str
    task: str
    state: StateWord
    record_state: RecordState
    work: StoredState | None
    created_at: float
    updated_at: float
    submission_summary: str | None
    generated_code: str | None
    changed_files: list[str] | None
    error: str | None
    tags: list[str]
    worker: str
    """the worker that has it, or had it last; empty where one machine does all the work"""
    facts: dict[str, Any]
    version: int
    cursor: int


class EntryForm(TypedDict):
    """One entry of a journal."""

    seq: int
    at: float
    event: Stored
    rule: str
    before: str
    after: str
    late: bool


class PendingForm(TypedDict):
    """An order that is not known to be carried out."""

    effect_id: str
    effect: Stored


class RequestForm(TypedDict):
    """What somebody asked of a lifecycle, and nobody answered yet."""

    at: float
    event: Stored


class DocumentForm(TypedDict):
    """What another part of the program keeps of a lifecycle."""

    collection: str
    key: str
    body: dict[str, Any]


class ExportedForm(TypedDict):
    """Everything that is kept of one lifecycle; `loopwright import` goes on from it."""

    record: RecordForm
    live: bool
    """whether a runner had an attempt of it under way"""
    journal: list[EntryForm]
    attempts: list[Attempt]
    pending: list[PendingForm]
    requests: list[RequestForm]
    spendings: list[dict[str, Any]]
    documents: list[DocumentForm]
    edited: dict[str, str]
    """a person's own summaries, by attempt"""
    refs: dict[str, str]
    """its branch, where that began and its saved work: the commit of each"""


class ImportedForm(TypedDict):
    """One lifecycle of the file."""

    agent_id: str
    task_id: str
    state: StateWord
    found: Found
    """new; next: an earlier one of its agent is over; newer; same: it was here already"""


class ImportForm(TypedDict):
    """What `import` did."""

    dry_run: bool
    lifecycles: list[ImportedForm]
    notes: list[str]
    """what a person should know: variables, branches and tasks that are lacking"""


class WholeForm(TypedDict):
    """All about one lifecycle, as `loopwright show --json` tells it."""

    lifecycle: RecordForm
    why: str
    attempts: list[Attempt]
    pending: list[PendingForm]
    runner: Runner | None
    files: dict[str, str]
    earlier: list[str]
    """the ids of this agent's earlier lifecycles, the newest first"""
    actions: list[ActionForm]
    """what a person may ask of it at the moment"""


class SectionForm(TypedDict):
    """A part of a summary under its heading."""

    name: str
    bytes: int


class SummaryForm(TypedDict):
    """What an attempt was told, or what the next one will be."""

    agent_id: str
    attempt: int
    path: str | None
    edited: bool
    text: str
    version: str
    """tells this text from another"""
    bytes: int
    most_bytes: int
    """a summary has no more"""
    sections: list[SectionForm]


class EditForm(TypedDict):
    """What a person wrote in the place of a summary."""

    at: float
    by: str
    attempt: int
    bytes: int
    text: str
    """empty: what was written before was taken back"""


def record_form(record: AgentLifecycle, *, runs: bool) -> RecordForm:
    """Return a lifecycle; `runs` tells whether a runner is alive."""
    work = record.work
    return cast(
        "RecordForm",
        _copied(record, RecordForm)
        | {
            "state": spelled(word_on(record, runs=runs)),
            "record_state": record.state.value,
            "work": plain(work) if work is not None else None,
            "tags": list(record.tags),
            "worker": worker_in(record.facts),
            "facts": _without_secrets(record.facts),
        },
    )


def columns_of(record: AgentLifecycle | Damaged) -> Columns:
    """Return the columns of a record as they would be read."""
    names = ("agent_id", "task_id", "created_at", "updated_at", "cursor")
    known = {name: getattr(record, name) for name in names}
    counted = ("attempt", "retry_count", "spawn_count")
    if isinstance(record, Damaged):
        unread: Columns = {"task": "", "tags": [], "work_kind": "", **dict.fromkeys(counted, 0)}
        unread |= dict.fromkeys(("error", "work", "facts"))
        return known | unread | {"coarse": record.state, "damaged": record.problem}
    work = record.work
    # What is over waits for nothing, and most of a long list is over.
    over = isinstance(work, TERMINAL)
    return known | {
        **{name: getattr(work.tally, name) if work else 0 for name in counted},
        "task": record.task,
        "tags": list(record.tags),
        "error": record.error,
        "facts": record.facts,
        "coarse": record.state.value,
        "work_kind": type(work).__name__ if work else "",
        "work": None if work is None else vars(work) if over else json.loads(encode(work)),
        "damaged": "",
    }


def entry_form(entry: JournalEntry) -> EntryForm:
    """Return an entry of a journal."""
    return cast("EntryForm", _copied(entry, EntryForm) | {"event": plain(entry.event)})


def attempt_form(row: AttemptRow) -> Attempt:
    """Return an attempt, with what all its processes used."""
    told: dict[str, Any] = plain(row)
    del told["before"]
    return told | {"used": plain(row.used)}


def export_form(
    stored: StoredLifecycle, *, runs: bool, edited: dict[str, str], refs: dict[str, str]
) -> ExportedForm:
    """Return everything that is kept of one lifecycle."""
    record = stored.record
    return {
        "record": record_form(record, runs=runs),
        "live": runs and isinstance(record.work, ACTIVE),
        "journal": [entry_form(entry) for entry in stored.journal],
        # What earlier processes used is part of `used`; only who continues needs it apart.
        "attempts": [attempt_form(row) | {"before": plain(row.before)} for row in stored.attempts],
        "pending": _pending(stored.pending),
        "requests": [{"at": each.at, "event": plain(each.event)} for each in stored.requests],
        "spendings": [plain(each) for each in stored.spendings],
        "documents": [plain(each) for each in stored.documents],
        "edited": edited,
        "refs": refs,
    }


def whole_form(  # noqa: PLR0913  # all but the record by name
    record: AgentLifecycle,
    *,
    why: str,
    attempts: Sequence[AttemptRow],
    pending: Sequence[PendingEffect],
    runner: dict[str, Any] | None,
    paths: Paths,
    earlier: Sequence[str],
    settings: Settings,
) -> WholeForm:
    """Return all about one lifecycle."""
    return {
        "lifecycle": record_form(record, runs=runner is not None),
        "why": why,
        "attempts": [attempt_form(row) for row in attempts],
        "pending": _pending(pending),
        "runner": runner,
        "files": files_of(paths, record.agent_id),
        "earlier": list(earlier),
        "actions": actions_of(record, settings),
    }


def files_of(paths: Paths, agent_id: str) -> dict[str, str]:
    """Return where there are files of a lifecycle, by what they are."""
    return {path.parent.name: str(path) for path in paths.all_of(agent_id) if path.exists()}


def _copied(value: object, form: type) -> dict[str, Any]:
    """Return the keys of a form that the value has under the same names."""
    return {name: getattr(value, name, None) for name in form.__annotations__}


def _pending(orders: Sequence[PendingEffect]) -> list[PendingForm]:
    return [{"effect_id": order.effect_id, "effect": plain(order.effect)} for order in orders]


def _without_secrets(facts: dict[str, Any]) -> dict[str, Any]:
    agent = facts.get("agent")
    if not isinstance(agent, dict) or not isinstance(agent.get("env"), dict):
        return facts
    return {**facts, "agent": {**agent, "env": dict.fromkeys(agent["env"], HIDDEN)}}
