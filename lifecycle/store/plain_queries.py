"""Reads records quickly, for commands that only list them.

Reads the database beside its writer, and imports almost nothing. Must not import the other modules
of this package: importing them would take longer than such a command.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from lifecycle.errors import StoreDamagedError, StoreError, StoreFromNewerVersionError
from lifecycle.store.reading import InvalidText, fetch, is_read_only, on_read_only, open_reader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KNOWN_SCHEMA = 13
"""The schema version whose columns are named here; a test compares it with the migrations."""
_COLUMNS = (
    "cursor",
    "agent_id",
    "task_id",
    "coarse",
    "created_at",
    "updated_at",
    "work_kind",
    "attempt",
    "retry_count",
    "spawn_count",
    "task",
    "error",
    "tags",
    "work",
    "facts",
)
_SPENDING = (
    *("agent_id", "birth", "attempt", "review", "task_id", "plan", "at", "program", "model"),
    *("tokens", "input_tokens", "output_tokens", "cached_tokens", "cost_usd"),
    "seconds",
)
_SUMS = (
    "coalesce(sum(s.review = 0), 0), coalesce(sum(s.tokens), 0), "
    "coalesce(sum(s.tokens > 0 AND s.review = 0), 0), total(s.cost_usd), "
    "count(iif(s.review = 0, s.cost_usd, NULL)), total(s.seconds)"
)
_SUM_NAMES = ("attempts", "tokens", "with_tokens", "cost_usd", "with_cost", "seconds")
"""As `UsageLine` of costs has them, in its order."""
_FORMS: dict[str, type] = {"tags": list, "work": dict, "facts": dict}


def read_rows(  # noqa: PLR0913  # all but the path by name
    path: Path,
    *,
    states: Sequence[str] = (),
    tags: Sequence[str] = (),
    task_id: str | None = None,
    agent_id: str | None = None,
    created_after: float | None = None,
    created_before: float | None = None,
    current: bool = False,
    before: int | None = None,
    cursors: Sequence[int] | None = None,
    limit: int = 1000,
) -> list[dict[str, Any]]:
    """Return lifecycles as plain values, newest first; `work` and `facts` as stored, decoded.

    With `current` without earlier lifecycles of agents that have another now. `before` is the
    cursor of the last row that was seen already; `cursors` are those of the rows that are wanted.

    `damaged` says what is wrong with a record that cannot be read, else it is empty. Only
    obvious damage is found: the store itself may refuse more.
    """
    conditions, values = ["1"], list[Any]()
    for column, value in (("task_id", task_id), ("agent_id", agent_id)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    for test, instant in (
        ("created_at > ?", created_after),
        ("created_at < ?", created_before),
        ("cursor < ?", before),
    ):
        if instant is not None:
            conditions.append(test)
            values.append(instant)
    if current:
        conditions.append("instr(agent_id, '@') = 0")
    if cursors is not None:
        conditions.append(f"cursor IN ({', '.join('?' * len(cursors))})")
        values.extend(cursors)
    if states:
        # Not by its index: the rows would have to be sorted, and each be read for that.
        conditions.append(f"+coarse IN ({', '.join('?' * len(states))})")
        values.extend(states)
    for tag in tags:
        conditions.append("cursor IN (SELECT cursor FROM tags WHERE tag = ?)")
        values.append(tag)
    query = (
        f"SELECT {', '.join(_COLUMNS)} FROM lifecycles WHERE {' AND '.join(conditions)} "  # noqa: S608  # our own text
        "ORDER BY cursor DESC LIMIT ?"
    )
    return [_plain(row) for row in _fetch(path, query, (*values, limit))]


def agent_meant(path: Path, name: str) -> str:
    """Return the agent that an id means: its own, or that of its task; the id itself if none is."""
    if not path.exists() or read_rows(path, agent_id=name, limit=1):
        return name
    for current in (True, False):
        found = {row["agent_id"] for row in read_rows(path, task_id=name, current=current, limit=2)}
        if len(found) == 1:
            return str(found.pop())
    return name


def read_program(path: Path, agent_id: str, attempt: int) -> str:
    """Return which agent program an attempt was; '' for a command, or one that is not known."""
    query = "SELECT program FROM attempts WHERE agent_id = ? AND attempt = ?"
    rows = _fetch(path, query, (agent_id, attempt))
    return str(rows[0][0]) if rows else ""


def read_silent_workers(path: Path, present: float) -> dict[str, float]:
    """Return the workers that were not heard of for a lease, with when they were last."""
    query = "SELECT name, seen_at FROM workers WHERE ? - seen_at > lease"
    return {str(name): float(at) for name, at in _fetch(path, query, (present,))}


def read_spending(path: Path) -> list[dict[str, Any]]:
    """Return what attempts used as plain values, the oldest first; a cost may be None."""
    query = f"SELECT {', '.join(_SPENDING)} FROM spending ORDER BY at, agent_id, attempt"  # noqa: S608  # our own text
    return [dict(zip(_SPENDING, row, strict=True)) for row in _fetch(path, query, ())]


def read_spent(path: Path, since: float, until: float) -> tuple[int, float, int]:
    """Return how many attempts ended in a time, what they cost, and how many told what."""
    query = (
        "SELECT coalesce(sum(review = 0), 0), total(cost_usd), "
        "count(iif(review = 0, cost_usd, NULL)) FROM spending WHERE at >= ? AND at < ?"
    )
    [(attempts, cost, told)] = _fetch(path, query, (since, until))
    return int(attempts), float(cost), int(told)


def read_states(path: Path, since: float, until: float) -> list[tuple[str, str, str | None, int]]:
    """Return of the lifecycles made in a time: coarse state, work state, its reason, how many."""
    query = (
        "SELECT coarse, work_kind, "
        "CASE WHEN json_valid(work) THEN json_extract(work, '$.reason') END, count(*) "
        "FROM lifecycles WHERE created_at >= ? AND created_at < ? GROUP BY 1, 2, 3"
    )
    return [(row[0], row[1], row[2], row[3]) for row in _fetch(path, query, (since, until))]


def read_used(path: Path, since: float, until: float) -> tuple[Any, ...]:
    """Return the sums (`_SUMS`) of the attempts that ended in a time."""
    query = f"SELECT {_SUMS} FROM spending AS s WHERE at >= ? AND at < ?"  # noqa: S608  # our own text
    return _fetch(path, query, (since, until))[0]


def read_used_by_plans(path: Path) -> list[tuple[Any, ...]]:
    """Return plan and sums of all attempts; '' is the plan of those that have none."""
    query = f"SELECT plan, {_SUMS} FROM spending AS s GROUP BY plan"  # noqa: S608  # our own text
    return _fetch(path, query, ())


def read_plan_marks(path: Path) -> list[tuple[str | None, dict[str, Any]]]:
    """Return names and budgets of the plans of all lifecycles, the latest moved last.

    A plan stands there once for each budget that it had. No name: lifecycles without a plan.
    """
    # Most text holds no plan, which is seen sooner than JSON is read.
    has = (
        "CASE WHEN instr(facts, '\"plan\"') AND json_valid(facts) THEN json_extract(facts, {}) END"
    )
    name, budget = has.format("'$.plan.name'"), has.format("'$.plan.budget'")
    query = (
        f"SELECT {name}, {budget} FROM lifecycles "  # noqa: S608  # our own text
        "GROUP BY 1, 2 ORDER BY max(updated_at), max(cursor)"
    )
    return [(row[0], _decoded("facts", row[1])[0] or {}) for row in _fetch(path, query, ())]


def read_task_budgets(path: Path, *, every: bool) -> list[tuple[Any, ...]]:
    """Return agent, budget of its task, and sums, of all lifecycles that are not accepted.

    Without `every` only of those whose task has a budget; none of earlier lifecycles.
    """
    query = f"""
        WITH known AS (
            SELECT agent_id, birth, CASE WHEN instr(facts, '"budget"') AND json_valid(facts)
                THEN json_extract(facts, '$.task.budget') END AS budget
            FROM lifecycles WHERE +coarse <> 'accepted' AND instr(agent_id, '@') = 0
        )
        SELECT k.agent_id, k.budget, {_SUMS} FROM known AS k
        LEFT JOIN spending AS s ON s.agent_id = k.agent_id AND s.birth = k.birth
        WHERE ? OR k.budget IS NOT NULL GROUP BY k.agent_id ORDER BY k.agent_id
        """  # noqa: S608  # our own text
    rows = _fetch(path, query, (every,))
    return [(row[0], _decoded("facts", row[1])[0] or {}, *row[2:]) for row in rows]


def read_ends(path: Path, since: float = 0.0) -> list[tuple[str, float, float]]:
    """Return coarse state, creation and end of the lifecycles that are over since an instant."""
    query = (
        "SELECT coarse, created_at, updated_at FROM lifecycles WHERE updated_at >= ? "
        "AND +coarse IN ('accepted', 'rejected') ORDER BY updated_at, cursor"
    )
    return [(str(row[0]), float(row[1]), float(row[2])) for row in _fetch(path, query, (since,))]


_ENDED = """
    ended AS (
        SELECT s.*, coalesce(a.outcome, '') AS outcome, a.agent_id AS id,
            a.outcome = 'task_complete' AND EXISTS (
                SELECT 1 FROM journal AS j, json_each(j.body, '$.gates') AS g
                WHERE j.agent_id = a.agent_id AND j.kind = 'GatesFinished'
                AND json_extract(j.body, '$.attempt') = a.attempt
                AND NOT json_extract(g.value, '$.ok')
            ) AS red
        FROM spent AS s
        LEFT JOIN lifecycles AS l ON l.agent_id = s.agent_id
        LEFT JOIN attempts AS a ON a.attempt = s.attempt
            AND a.agent_id = iif(l.birth = s.birth, s.agent_id, s.agent_id || '@' || s.birth)
    )
"""
"""How the attempts ended of which `spent` says what they used.

`outcome` is empty where the record is gone; `red` tells that gates were. An agent may have another
lifecycle by now: the one that is meant is known by its birth.
"""
_LOCAL = "at, 'unixepoch', 'localtime')"
_KEYS = {
    **{name: f"{name}_id" for name in ("agent", "task")},
    **{name: name for name in ("program", "plan", "model")},
    "day": f"strftime('%Y-%m-%d', {_LOCAL}",
    "hour": f"strftime('%Y-%m-%d %H:00', {_LOCAL}",
}
"""What sums may be made by, as columns."""


def read_ended_sums(path: Path, since: float, by: Sequence[str]) -> list[dict[str, Any]]:
    """Return what attempts used together that ended since then, by these and how they ended.

    The most lately used are the first.
    """
    keys = ", ".join(f"{_KEYS[each]} AS {each}" for each in by)
    query = f"""
        WITH spent AS (SELECT * FROM spending WHERE at >= ?), {_ENDED}
        SELECT {keys}, outcome, red, {_SUMS.replace("s.", "")}, total(cached_tokens)
        FROM ended GROUP BY {", ".join(_KEYS[each] for each in by)}, outcome, red
        ORDER BY max(at) DESC, max(agent_id) DESC
        """  # noqa: S608  # our own column names
    names = (*by, "outcome", "red", *_SUM_NAMES, "cached_tokens")
    return [dict(zip(names, row, strict=True)) for row in _fetch(path, query, (since,))]


def read_ended_attempts(path: Path, since: float, newest: int) -> list[dict[str, Any]]:
    """Return what the newest attempts used that ended since then, the newest first."""
    query = f"""
        WITH spent AS (
            SELECT * FROM spending WHERE at >= ?
            ORDER BY at DESC, agent_id DESC, attempt DESC LIMIT ?
        ), {_ENDED}
        SELECT {", ".join(f"e.{name}" for name in _SPENDING)}, e.outcome,
            CASE WHEN json_valid(l.facts)
                THEN coalesce(nullif(json_extract(l.facts, '$.task.title'), ''), l.task)
                ELSE l.task END,
            e.red
        FROM ended AS e LEFT JOIN lifecycles AS l ON l.agent_id = e.id
        ORDER BY e.at DESC, e.agent_id DESC, e.attempt DESC
        """  # noqa: S608  # our own column names
    names = (*_SPENDING, "outcome", "title", "red")
    found = [dict(zip(names, row, strict=True)) for row in _fetch(path, query, (since, newest))]
    for row in found:
        row["title"] = (row["title"] or "").partition("\n")[0]
    return found


def read_facts(path: Path) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return agent, birth, coarse state and facts of all lifecycles, the latest moved last.

    Facts that cannot be read are empty.
    """
    query = "SELECT agent_id, birth, coarse, facts FROM lifecycles ORDER BY updated_at, cursor"
    rows = _fetch(path, query, ())
    return [(*row[:3], _decoded("facts", row[3])[0] or {}) for row in rows]


def read_documents(path: Path, collection: str) -> dict[str, dict[str, Any]]:
    """Return the documents of a collection by key; none where there are no records yet.

    Their table has had one form from the first version on, so any version's is read.
    """
    if not path.exists():
        return {}
    there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'documents'"
    if not _fetch(path, there, (), any_version=True):
        return {}
    query = "SELECT key, body FROM documents WHERE collection = ? ORDER BY ord"
    rows = _fetch(path, query, (collection,), any_version=True)
    return {str(key): body for key, text in rows if isinstance(body := json.loads(text), dict)}


def _fetch(
    path: Path, query: str, values: tuple[Any, ...], *, any_version: bool = False
) -> list[tuple[Any, ...]]:
    if not path.exists():
        hint = "start a loop first"
        if os.environ.get("LOOPWRIGHT_SPAWN_ID"):
            hint = "the records cannot be seen from inside the sandbox"
        raise StoreError(f"there are no records: {path} does not exist; {hint}")
    try:
        with closing(open_reader(path, patience=5.0)) as connection:
            if any_version or _is_present_version(connection, path):
                return fetch(connection, query, values)
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
                connection.backup(copy)
                _migrate(copy)
                return fetch(copy, query, values)
    except sqlite3.DatabaseError as problem:
        if getattr(problem, "sqlite_errorcode", 0) & 0xFF in (
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
        ):
            raise StoreDamagedError(
                f"{path} is damaged ({problem}) and was left as it is; "
                "the next loop that starts sets it aside"
            ) from problem
        if is_read_only(path):
            raise StoreError(on_read_only(path)) from problem
        raise StoreError(
            f"{path} cannot be read ({problem}); check its permissions and the disk"
        ) from problem


def _migrate(copy: sqlite3.Connection) -> None:
    """Migrate a copy of older records; the next loop upgrades the file."""
    from lifecycle.store.sqlite.file import bring_up_to_date  # noqa: PLC0415  # rare, and heavy

    bring_up_to_date(copy)


def _is_present_version(connection: sqlite3.Connection, path: Path) -> bool:
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > KNOWN_SCHEMA:
        raise StoreFromNewerVersionError(
            f"{path} has schema version {found}, written by a newer Loopwright; this one knows "
            f"versions up to {KNOWN_SCHEMA}. Upgrade Loopwright"
        )
    if found < 1:
        raise StoreError(
            f"{path} holds no records of Loopwright (schema version {found}) and was left as it "
            "is; put a backup in its place, or move the file away and start again"
        )
    return bool(found == KNOWN_SCHEMA)


def _plain(row: tuple[Any, ...]) -> dict[str, Any]:
    values = dict(zip(_COLUMNS, row, strict=True))
    problems = [
        f"invalid UTF-8 in {name}" for name in _COLUMNS if type(values[name]) is InvalidText
    ]
    for name in _FORMS:
        values[name], problem = _decoded(name, values[name])
        problems += [problem] if problem else []
    values["tags"] = values["tags"] or []
    if values["work"] is not None and values["work"].get("kind") != values["work_kind"]:
        problems.append("its state is named differently in two places")
    return {**values, "damaged": "; ".join(problems)}


def _decoded(name: str, text: str | None) -> tuple[Any, str]:
    """Return the value of a column that holds JSON, and what is wrong with it."""
    if text is None or type(text) is InvalidText:
        return None, ""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        return None, f"{name} is not valid JSON: {problem}"
    if not isinstance(value, _FORMS[name]):
        return None, f"{name} is not a {_FORMS[name].__name__}"
    return value, ""
