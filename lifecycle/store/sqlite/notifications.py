"""Notifications in the database: each once, and for each channel what became of it.

Must not know what a notification means, or how it is sent.
"""

from __future__ import annotations

from dataclasses import astuple, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from lifecycle.notify.message import ChannelUse, Notification, Send, SendState
from lifecycle.store.rows.records import check_count, check_limit, storable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from lifecycle.store.sqlite.driver import Driver

_COLUMNS = ", ".join(f"n.{each.name}" for each in fields(Notification))
_SEND = "s.ord, s.channel, s.state, s.tries, s.due_at, s.settled_at, s.problem, s.refused"
_INSERT = (
    f"INSERT INTO notifications ({_COLUMNS.replace('n.', '')}) "  # noqa: S608  # our own column names
    f"VALUES ({', '.join('?' * len(fields(Notification)))}) ON CONFLICT (id) DO NOTHING"
)
_ADD_SEND = "INSERT INTO notification_sends (channel, ord, state, due_at) VALUES (?, ?, ?, ?)"
_WAITING = (
    f"SELECT {_SEND}, {_COLUMNS} FROM notification_sends s JOIN notifications n ON n.ord = s.ord "  # noqa: S608  # as above
    "WHERE s.state = 'waiting' AND s.channel = ? ORDER BY s.ord LIMIT ?"
)
_CHANNELS = "SELECT DISTINCT channel FROM notification_sends WHERE state = 'waiting'"
_SETTLE = (
    "UPDATE notification_sends SET state = ?, settled_at = ?, problem = ? "
    "WHERE channel = ? AND ord = ? AND state = 'waiting'"
)
_RETRY = (
    "UPDATE notification_sends SET tries = tries + 1, due_at = ?, problem = ?, "
    "refused = refused + ? "
    "WHERE channel = ? AND ord = ? AND state = 'waiting'"
)
_USES = (
    "SELECT s.channel, sum(s.state = 'waiting'), sum(s.state = 'sent'), "
    "min(CASE WHEN s.state = 'waiting' AND s.tries > 0 THEN n.at END), "
    "coalesce(max(CASE WHEN s.state = 'waiting' THEN s.tries END), 0), "
    "coalesce(max(CASE WHEN s.state = 'waiting' THEN s.problem END), ''), "
    "min(CASE WHEN s.state = 'waiting' THEN s.due_at END) "
    "FROM notification_sends s JOIN notifications n ON n.ord = s.ord "
    "GROUP BY s.channel ORDER BY s.channel"
)
_RECENT = (
    "SELECT settled_at FROM notification_sends "
    "WHERE channel = ? AND state = 'sent' AND settled_at > ? AND settled_at <= ? "
    "ORDER BY settled_at DESC LIMIT ?"
)
_PRUNE = (
    "DELETE FROM notifications WHERE at < ? AND ord NOT IN "
    "(SELECT ord FROM notification_sends WHERE state = 'waiting')"
)

Waiting = tuple[Send, Notification]
Listed = tuple[int, Notification, tuple[Send, ...]]


class SqliteNotifications:
    """The notifications of an open store."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def add(
        self, notification: Notification, channels: Iterable[str], *, due_at: float
    ) -> bool:
        """Store it for these channels; return False, without a change, if its id is known."""
        row, names = _row(notification), tuple(channels)
        return await self._driver.write(partial(_added, row=row, channels=names, due_at=due_at))

    async def known(self, notification_id: str) -> bool:
        """Tell whether something with this id was stored."""
        query = "SELECT 1 FROM notifications WHERE id = ?"
        return bool(await self._rows(1, query, (notification_id,)))

    async def latest(self, about: str) -> Notification | None:
        """Return the newest one that is about a lasting reason."""
        rows = await self._rows(
            1,
            f"SELECT {_COLUMNS} FROM notifications n WHERE about = ? ORDER BY ord DESC LIMIT 1",  # noqa: S608  # our own column names
            (about,),
        )
        return Notification(**_named(rows[0])) if rows else None

    async def unended(self, kind: str, reason: str) -> tuple[Notification, ...]:
        """Return those that are the newest about their lasting reason, of this type and reason."""
        rows = await self._rows(
            1000,
            f"SELECT {_COLUMNS} FROM notifications n WHERE type = ? AND reason = ? AND ord = "  # noqa: S608  # our own column names
            "(SELECT max(ord) FROM notifications WHERE about = n.about)",
            (kind, reason),
        )
        return tuple(Notification(**_named(row)) for row in rows)

    async def channels_waiting(self) -> tuple[str, ...]:
        """Name the channels for which something waits."""
        return tuple(row[0] for row in await self._rows(1, _CHANNELS, ()))

    async def waiting(self, channel: str, *, limit: int = 1000) -> tuple[Waiting, ...]:
        """Return what waits for a channel, the oldest first."""
        check_count(limit)
        width = len(fields(Send))
        return tuple(
            (_send(row[:width]), Notification(**_named(row[width:])))
            for row in await self._rows(limit, _WAITING, (channel, limit))
        )

    async def settle(
        self,
        sends: Iterable[Send],
        state: SendState,
        *,
        at: float,
        problem: str = "",
    ) -> None:
        """Record that these are through with their channels."""
        rows = [(state.value, at, storable(problem), each.channel, each.ord) for each in sends]
        await self._driver.write(lambda connection: _many(connection, _SETTLE, rows))

    async def retry(
        self, sends: Iterable[Send], *, due_at: float, problem: str, refused: bool = False
    ) -> None:
        """Record that these could not be sent, and when they are tried again."""
        told = (due_at, storable(problem), int(refused))
        rows = [(*told, each.channel, each.ord) for each in sends]
        await self._driver.write(lambda connection: _many(connection, _RETRY, rows))

    async def fold(
        self, sends: Sequence[Send], into: Notification, channel: str, *, at: float
    ) -> None:
        """Store one that stands for several, which do not go by themselves any more."""
        rows = [(SendState.FOLDED.value, at, "", each.channel, each.ord) for each in sends]
        row = _row(into)

        def run(connection: sqlite3.Connection) -> None:
            _added(connection, row=row, channels=(channel,), due_at=at)
            _many(connection, _SETTLE, rows)

        await self._driver.write(run)

    async def sent_between(
        self, channel: str, since: float, until: float, *, limit: int
    ) -> tuple[float, ...]:
        """Return when a channel took notifications, the newest first."""
        check_count(limit)
        rows = await self._rows(limit, _RECENT, (channel, since, until, limit))
        return tuple(row[0] for row in rows)

    async def list(self, *, before: int | None = None, limit: int = 50) -> tuple[Listed, ...]:
        """Return a page, the newest first, each with its number and what became of it."""
        check_limit(limit)
        where, values = ("WHERE n.ord < ? ", [before]) if before is not None else ("", [])
        page = f"SELECT n.ord, {_COLUMNS} FROM notifications n {where}ORDER BY n.ord DESC LIMIT ?"  # noqa: S608  # our own text
        sends = f"SELECT {_SEND} FROM notification_sends s WHERE s.ord = ? ORDER BY s.channel"  # noqa: S608  # as above

        def read(connection: sqlite3.Connection) -> tuple[Listed, ...]:
            return tuple(
                (
                    row[0],
                    Notification(**_named(row[1:])),
                    tuple(map(_send, connection.execute(sends, (row[0],)))),
                )
                for row in connection.execute(page, [*values, limit]).fetchall()
            )

        return await self._driver.read(read)

    async def uses(self) -> tuple[ChannelUse, ...]:
        """Return how each channel does that was ever to take something."""
        return tuple(
            ChannelUse(
                channel=channel,
                waiting=waiting,
                sent=sent,
                failing_since=failing,
                tries=tries,
                problem=problem,
                next_at=next_at,
            )
            for channel, waiting, sent, failing, tries, problem, next_at in await self._rows(
                1000, _USES, ()
            )
        )

    async def prune(self, before: float) -> int:
        """Delete those made before this time that wait for no channel; return how many."""
        return await self._driver.write(
            lambda connection: connection.execute(_PRUNE, (before,)).rowcount
        )

    async def _rows(self, rows: int, query: str, values: Sequence[Any]) -> Sequence[Any]:
        return await self._driver.read(
            lambda connection: connection.execute(query, values).fetchall(), rows=rows
        )


def _added(
    connection: sqlite3.Connection,
    *,
    row: tuple[Any, ...],
    channels: tuple[str, ...],
    due_at: float,
) -> bool:
    made = connection.execute(_INSERT, row)
    if not made.rowcount:
        return False
    rows = [(name, made.lastrowid, SendState.WAITING.value, due_at) for name in channels]
    connection.executemany(_ADD_SEND, rows)
    return True


def _many(connection: sqlite3.Connection, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
    connection.executemany(query, rows)


def _row(notification: Notification) -> tuple[Any, ...]:
    values = astuple(notification)
    return tuple(storable(each) if isinstance(each, str) else each for each in values)


def _named(row: Sequence[Any]) -> dict[str, Any]:
    return {each.name: value for each, value in zip(fields(Notification), row, strict=True)}


def _send(row: Sequence[Any]) -> Send:
    number, channel, state, tries, due_at, settled_at, problem, refused = row
    return Send(
        ord=number,
        channel=channel,
        state=SendState(state),
        tries=tries,
        due_at=due_at,
        settled_at=settled_at,
        problem=problem,
        refused=refused,
    )
