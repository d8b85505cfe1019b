"""What a person sees while loops run: a live table on a terminal, dated lines elsewhere.

Writes to standard error only; standard output belongs to results. Costs nothing while nothing
changes: a table is drawn at most four times a second, and only if a cell is different.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol, TextIO

from lifecycle.machine.states import ACTIVE, Stopping, Suspended, Working
from lifecycle.state_words import STOPPING, WORKING, word_on
from orchestrator import telling
from orchestrator.cli.text import (
    STATE_COLOURS,
    coloured,
    columns,
    cut,
    one_line,
    safe,
    span,
    wrapped,
)
from orchestrator.lastwords import LastWords
from orchestrator.waiting import ended_with, waiting_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console, RenderableType
    from rich.live import Live

    from lifecycle.engine import Engine
    from lifecycle.machine.states import State, Tally
    from lifecycle.parts import News
    from lifecycle.record import AgentLifecycle

DRAW_EVERY = 0.25
"""Seconds between two drawings at the least."""
LOOK_EVERY = 1.0
"""Seconds between two looks at ages and logs while nothing is told."""
MOST_OVER = 200
"""Loops that ended which the table knows of; more do not fit on a screen."""
ROOM_FOR_A_KEY = 4
"""Columns at the right that stay free."""
Row = tuple[str, str, str, str, str]
HEADS: Row = ("AGENT", "ATTEMPT", "STATE", "SINCE", "LAST WORDS, OR WHAT IT WAITS FOR")
STATE = HEADS.index("STATE")


class View(Protocol):
    """Someone who shows what loops do."""

    def attach(self, engine: Engine) -> None:
        """Begin, now that the engine is there."""
        ...

    def news(self, news: News) -> None:
        """Take note of a committed decision."""
        ...

    def note(self, text: str, agent_id: str = "") -> None:
        """Tell a line."""
        ...

    def over(self, record: AgentLifecycle) -> None:
        """Take note that the loop of a lifecycle ended."""
        ...

    async def close(self) -> None:
        """Leave the terminal as it was."""
        ...


def choose(stream: TextIO, environ: Mapping[str, str], *, plain: bool) -> View:
    """Return the live view where a terminal can show it, else plain lines."""
    live = not plain and coloured(stream, environ)
    return LiveView(stream) if live else PlainView(stream)


class PlainView:
    """One dated line per fact."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream

    def attach(self, engine: Engine) -> None:
        """Begin."""

    def news(self, news: News) -> None:
        """Tell a fact if it means something to people."""
        for text in telling.facts(news):
            self.note(text, news.agent_id)

    def note(self, text: str, agent_id: str = "") -> None:
        """Tell a line."""
        who = f"{agent_id}: " if agent_id else ""
        # A closed terminal must not end the loops that it watched.
        with contextlib.suppress(OSError):
            self._stream.write(f"{time.strftime('%H:%M:%S')} {who}{safe(text, lines=True)}\n")
            self._stream.flush()

    def over(self, record: AgentLifecycle) -> None:
        """Say nothing: the last fact said it."""

    async def close(self) -> None:
        """Leave nothing behind."""


class LiveView:
    """A table with one line per loop, and above it the facts as they come."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        from rich.console import Console  # noqa: PLC0415  # heavy, and only for terminals

        self._console: Console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._engine: Engine | None = None
        self._live: Live | None = None
        self._drawing: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._shown: list[Row] = []
        self._over: dict[str, AgentLifecycle] = {}
        self._waits: dict[str, tuple[State, dict[str, object]]] = {}
        self._words: LastWords | None = None

    def attach(self, engine: Engine) -> None:
        """Begin."""
        from rich.live import Live  # noqa: PLC0415  # as above

        self._engine = engine
        self._words = LastWords(engine.parts.clock.now)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False,
            redirect_stderr=False,
        )  # fmt: skip
        self._live.start()
        self._drawing = asyncio.get_running_loop().create_task(self._draw(), name="live view")

    def news(self, news: News) -> None:
        """Tell a fact if it means something to people; the table follows."""
        for text in telling.facts(news):
            self.note(text, news.agent_id)
        if news.agent_id in self._over:
            # People go on with what no loop runs any more: they accept, reject, send back.
            self._over[news.agent_id] = news.record
        self._changed.set()

    def note(self, text: str, agent_id: str = "") -> None:
        """Tell a line above the table."""
        from rich.text import Text  # noqa: PLC0415  # as above

        line = Text(time.strftime("%H:%M:%S "), style="dim")
        if agent_id:
            line.append(f"{agent_id}: ", style="bold")
        line.append(safe(text, lines=True), style="default not dim")
        with contextlib.suppress(OSError):
            # Folded, not cut: the end of a line is often what to do.
            self._console.print(line, overflow="fold")

    def over(self, record: AgentLifecycle) -> None:
        """Keep the last state of a loop that ended; of many, that of the latest."""
        self._over.pop(record.agent_id, None)
        self._over[record.agent_id] = record
        if len(self._over) > MOST_OVER:
            oldest = next(iter(self._over))
            del self._over[oldest]
            self._waits.pop(oldest, None)
        self._changed.set()

    async def close(self) -> None:
        """Take the table away; a final one follows elsewhere."""
        if self._drawing is not None:
            self._drawing.cancel()
            await asyncio.gather(self._drawing, return_exceptions=True)
        if self._live is not None:
            with contextlib.suppress(OSError):
                self._live.stop()

    # --- drawing ------------------------------------------------------------------------------

    async def _draw(self) -> None:
        while True:
            rows = self._rows()
            if rows != self._shown and self._live is not None:
                self._shown = rows
                with contextlib.suppress(OSError):
                    self._live.update(self._table(rows), refresh=True)
            await asyncio.sleep(DRAW_EVERY)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY - DRAW_EVERY):
                    await self._changed.wait()
            self._changed.clear()

    def _rows(self) -> list[Row]:
        """Return the rows that the screen has room for, in the order of the list."""
        engine = self._engine
        if engine is None:
            return []
        running = {owner.case.agent_id: owner.case.record for owner in engine.owners()}
        records = sorted(
            {**self._over, **running}.values(),
            key=lambda record: (record.agent_id not in running, _rank(record.work)),
        )
        room = max(3, self._console.size.height - 6)
        now = engine.parts.clock.now()
        shown = [(record.cursor, self._row(record, now)) for record in records[:room]]
        before = self._before([row for _, row in shown])
        fitting = list[tuple[int, Row]]()
        for cursor, row in shown:
            lines = self._lines(row, before)
            if fitting and len(lines) > room:
                break
            room -= len(lines)
            fitting.append((cursor, (*row[:-1], "\n".join(lines))))
        rows = [row for _, row in sorted(fitting)]
        if left := len(records) - len(rows):
            rows.append(("...", "", f"{left} more", "", "`loopwright ps` lists all"))
        return rows

    def _before(self, rows: list[Row]) -> int:
        """Return how many columns there are before the last."""
        others = zip(*(row[:-1] for row in (HEADS, *rows)), strict=True)
        return sum(max(map(columns, each)) + 2 for each in others)

    def _lines(self, row: Row, before: int) -> list[str]:
        """Return the last column in lines; only of what an agent says one is enough."""
        room = max(self._width - before, 8)
        if row[STATE] in (WORKING, STOPPING):
            return [cut(row[-1], room)]
        return wrapped(row[-1], room)

    @property
    def _width(self) -> int:
        # The terminal writes ^C behind the last line; it must not wrap there.
        return max(self._console.width - ROOM_FOR_A_KEY, 1)

    def _row(self, record: AgentLifecycle, now: float) -> Row:
        state = record.work
        inner = state.inner if isinstance(state, Suspended) else state
        attempt = ""
        if inner is not None:
            spawned = inner.tally.spawn_count
            attempt = str(inner.tally.attempt if isinstance(inner, ACTIVE) else spawned or "")
        since = getattr(state, "since", record.updated_at)
        last = "" if state is None else self._last(record, state, now)
        return record.agent_id, attempt, word_on(record), span(now - since), last

    def _last(self, record: AgentLifecycle, state: State, now: float) -> str:
        known = self._waits.get(record.agent_id)
        if known is None or known[0] is not state:
            known = (state, asdict(state))
            self._waits[record.agent_id] = known
        kind, work = type(state).__name__, known[1]
        if waits := waiting_for(kind, work, now, span):
            return one_line(f"waits for {waits}", telling.MOST)
        if isinstance(state, (Working, Stopping)):
            return self._last_words(record.agent_id, state.tally)
        return one_line(ended_with(kind, work) or record.error or "", telling.MOST)

    def _last_words(self, agent_id: str, tally: Tally) -> str:
        owner = self._engine.owner(agent_id) if self._engine is not None else None
        if self._engine is None or self._words is None or owner is None:
            return ""
        log = self._engine.parts.paths.log(agent_id, tally.attempt)
        return self._words.of(owner.case.agent, tally.attempt, tally.program, log)

    def _table(self, rows: list[Row]) -> RenderableType:
        from rich.table import Table  # noqa: PLC0415  # as above
        from rich.text import Text  # noqa: PLC0415  # as above

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), width=self._width)
        for head in HEADS[:-1]:
            table.add_column(head, no_wrap=True, header_style="dim")
        table.add_column(HEADS[-1], no_wrap=True, overflow="ellipsis", ratio=1, header_style="dim")
        for agent_id, attempt, state, since, last in rows:
            table.add_row(
                Text(agent_id, style="bold"),
                attempt,
                Text(state, style=STATE_COLOURS.get(state, "")),
                since,
                Text(last),
            )
        return table


def _rank(state: State | None) -> int:
    """Show first what moves, then what waits."""
    return 0 if isinstance(state, ACTIVE) else 1
