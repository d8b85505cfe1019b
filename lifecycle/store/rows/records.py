"""Converts records and the rows around them to plain values, and back.

Must not know any database.
"""

from __future__ import annotations

import json
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from lifecycle.errors import (
    ConflictingUpdateError,
    IllegalStateChangeError,
    StoreDamagedError,
    UnknownLifecycleError,
)
from lifecycle.json_form import decode, encode
from lifecycle.machine.effects import Effect
from lifecycle.machine.events import AgentReport, Event
from lifecycle.machine.states import PLAIN_MOVES, State, coarse
from lifecycle.record import (
    AgentLifecycle,
    AgentState,
    AttemptRow,
    JournalEntry,
    OperatorRequest,
    PendingEffect,
    Used,
)
from lifecycle.store.reading import InvalidText

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row = tuple[Any, ...]

MAX_PAGE = 1000
_PLACES = 1000
"""More effects than one decision ever has."""
NO_REQUEST = "the request is no longer in the store: its lifecycle was removed"

COLUMNS = (
    "cursor",
    "agent_id",
    "task_id",
    "coarse",
    "version",
    "birth",
    "created_at",
    "updated_at",
    "tags",
    "work_kind",
    "attempt",
    "retry_count",
    "spawn_count",
    "task",
    "error",
    "submission_summary",
    "changed_files",
    "facts",
    "work",
    "generated_code",
)
"""Of the table of lifecycles: what listings select by stands first, what may be long last."""

CURSOR, AGENT, TASK, COARSE, VERSION, BIRTH, _, UPDATED, TAGS, WORK_KIND = range(10)

ATTEMPT_COLUMNS = tuple(field.name for field in fields(AttemptRow))
_attempt_values = attrgetter(*ATTEMPT_COLUMNS)

_PLAIN = frozenset({int, float, type(None)})

_to_json = json.JSONEncoder(separators=(",", ":")).encode


def storable(text: str) -> str:
    """Escape invalid Unicode, as in file names and output, so that a column can store it."""
    if text.isascii():
        return text
    return text.encode(errors="backslashreplace").decode()


def _maybe(text: str | None) -> str | None:
    return None if text is None else storable(text)


def record_row(record: AgentLifecycle, *, version: int, facts: str | None = None) -> Row:
    """Return the row of a record in this version, in the order of `COLUMNS`.

    `facts` is the text of the record's facts where the caller has it.
    """
    work = record.work
    tally = (
        (0, 0, 0)
        if work is None
        else (work.tally.attempt, work.tally.retry_count, work.tally.spawn_count)
    )
    return (
        record.cursor,
        record.agent_id,
        record.task_id,
        record.state.value,
        version,
        record.birth,
        record.created_at,
        record.updated_at,
        _to_json([storable(tag) for tag in record.tags]),
        "" if work is None else type(work).__name__,
        *tally,
        storable(record.task),
        _maybe(record.error),
        _maybe(record.submission_summary),
        None if record.changed_files is None else _to_json(record.changed_files),
        _to_json(record.facts) if facts is None else facts,
        None if work is None else encode(work),
        _maybe(record.generated_code),
    )


def row_record(row: Sequence[Any]) -> AgentLifecycle:
    """Return the record of a row; StoreError or ValueError when it cannot be read."""
    values = dict(zip(COLUMNS, row, strict=True))
    if InvalidText in map(type, row):
        names = ", ".join(name for name, value in values.items() if type(value) is InvalidText)
        raise StoreDamagedError(f"invalid UTF-8 in {names}")
    files, work = values["changed_files"], values["work"]
    return AgentLifecycle(
        agent_id=values["agent_id"],
        task=values["task"],
        state=AgentState(values["coarse"]),
        task_id=values["task_id"],
        created_at=values["created_at"],
        updated_at=values["updated_at"],
        generated_code=values["generated_code"],
        submission_summary=values["submission_summary"],
        changed_files=None if files is None else _checked(files, list),
        error=values["error"],
        tags=tuple(_checked(values["tags"], list)),
        work=None if work is None else decode(State, work),
        facts=_checked(values["facts"], dict),
        birth=values["birth"],
        version=values["version"],
        cursor=values["cursor"],
    )


def _checked(text: str, form: type) -> Any:
    value = from_json(text)
    if not isinstance(value, form):
        raise StoreDamagedError(f"a stored value is not a {form.__name__}: {text[:200]}")
    return value


def journal_row(entry: JournalEntry) -> Row:
    """Return the row of a journal entry: agent, number, instant, event and what it led to."""
    event = entry.event
    head = (entry.agent_id, entry.seq, entry.at, type(event).__name__, encode(event))
    return (*head, entry.rule, entry.before, entry.after, int(entry.late))


def row_journal(row: Sequence[Any]) -> JournalEntry:
    """Return the journal entry of a row."""
    agent_id, seq, at, _, body, rule, before, after, late = row
    return JournalEntry(
        agent_id=agent_id,
        seq=seq,
        at=at,
        event=decode(Event, body),
        rule=rule,
        before=before,
        after=after,
        late=bool(late),
    )


def attempt_row(attempt: AttemptRow) -> Row:
    """Return the row of an attempt, in the order of `ATTEMPT_COLUMNS`."""
    return in_columns(_attempt_values(attempt))


def in_columns(values: Iterable[Any]) -> Row:
    """Return values as columns can hold them; nearly all are as they are."""
    return tuple(
        [
            value
            if type(value) in _PLAIN or (type(value) is str and value.isascii())
            else _kept(value)
            for value in values
        ]
    )


def _kept(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    return encode(value) if isinstance(value, (AgentReport, Used)) else value


def row_attempt(row: Sequence[Any]) -> AttemptRow:
    """Return the attempt of a row."""
    values = dict(zip(ATTEMPT_COLUMNS, row, strict=True))
    for name, form in (("report", AgentReport), ("before", Used)):
        if values[name] is not None:
            values[name] = decode(form, values[name])
    return AttemptRow(**values)


def effect_rows(pending: Sequence[PendingEffect], version: int) -> list[Row]:
    """Return the rows of a decision's orders: agent, id, place, kind and body."""
    return [
        (
            each.agent_id,
            each.effect_id,
            version * _PLACES + place,
            type(each.effect).__name__,
            encode(each.effect),
        )
        for place, each in enumerate(pending)
    ]


def row_effect(row: Sequence[Any]) -> PendingEffect:
    """Return the order of a row."""
    agent_id, effect_id, _, _, body = row
    return PendingEffect(effect_id=effect_id, agent_id=agent_id, effect=decode(Effect, body))


def row_request(row: Sequence[Any]) -> OperatorRequest:
    """Return the request of a row: id, agent, instant and event."""
    request_id, agent_id, at, body = row
    return OperatorRequest(
        request_id=request_id, agent_id=agent_id, at=at, event=decode(Event, body)
    )


def to_json(value: Any) -> str:
    """Return plain values as JSON."""
    return _to_json(value)


def from_json(text: str) -> Any:
    """Return the value of stored JSON."""
    if type(text) is InvalidText:
        raise StoreDamagedError(f"a stored value is not valid UTF-8: {text[:200]}")
    try:
        return json.loads(text)
    except ValueError as problem:
        raise StoreDamagedError(
            f"a stored value is not valid JSON ({problem}): {text[:200]}"
        ) from problem


def fill_times(record: AgentLifecycle, now: float) -> None:
    """Fill in the missing times of a new record."""
    if not record.version:
        record.created_at = record.created_at or record.updated_at or now
        record.updated_at = record.updated_at or record.created_at


def check_limit(limit: int) -> None:
    """Refuse an invalid page size."""
    if not 1 <= limit <= MAX_PAGE:
        raise ValueError(f"limit must be between 1 and {MAX_PAGE}, not {limit}")


def check_count(limit: int | None) -> None:
    """Refuse a limit below one."""
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")


def check_read(record: AgentLifecycle) -> None:
    """Refuse to update a record that was not read from the store."""
    if not record.version:
        raise ConflictingUpdateError(
            f"{record.agent_id} was not read from the store; use create(), or get() it first"
        )


def check_state(record: AgentLifecycle) -> None:
    """Refuse a record whose coarse state is not that of its work state."""
    if record.work is not None and coarse(record.work) is not record.state:
        raise ValueError(
            f"the record of {record.agent_id} says {record.state.value!r}, but its work state "
            f"{type(record.work).__name__} means {coarse(record.work).value!r}; "
            "set only `work` and call derive()"
        )


def check_move(row: Sequence[Any], stored: str) -> None:
    """Refuse a state that cannot follow the stored one in a record that no loop drives."""
    before, after = AgentState(stored), AgentState(row[COARSE])
    if row[WORK_KIND] or after in (before, *PLAIN_MOVES[before]):
        return
    allowed = " or ".join(PLAIN_MOVES[before])
    raise IllegalStateChangeError(
        f"{row[AGENT]} is {before} and cannot become {after}; "
        + (f"it may become {allowed}" if allowed else "what is accepted has ended")
    )


def conflict(row: Sequence[Any], stored_version: int | None) -> ConflictingUpdateError:
    """Return why the row of a record cannot replace the stored one."""
    agent_id, read = row[AGENT], row[VERSION] - 1
    if read == 0 and stored_version is not None:
        return ConflictingUpdateError(
            f"{agent_id} has a record already (version {stored_version}); "
            "read and update it, or delete it first"
        )
    found = (
        "it is not in the store"
        if stored_version is None
        else f"another process wrote it meanwhile, and version {stored_version} is stored"
    )
    return ConflictingUpdateError(
        f"{agent_id} was read at version {read}, but {found}; read it again and retry"
    )


def replaced(agent_id: str) -> ConflictingUpdateError:
    """Return the error for a record that changed before another could follow it."""
    return ConflictingUpdateError(
        f"the record of {agent_id} was changed or removed meanwhile; read it again and retry"
    )


def taken(what: str) -> ConflictingUpdateError:
    """Return the error for a key that exists already."""
    return ConflictingUpdateError(
        f"{what} is in the store already: another process wrote it; read again and retry"
    )


def ownerless(what: str) -> UnknownLifecycleError:
    """Return the error for a row whose record does not exist."""
    return UnknownLifecycleError(f"{what} belongs to no lifecycle in the store; create that first")


def nobody_to_ask(agent_id: str) -> UnknownLifecycleError:
    """Return the error for a request to an unknown lifecycle."""
    return UnknownLifecycleError(
        f"there is no lifecycle {agent_id!r} to ask; `loopwright ps` lists those there are"
    )
