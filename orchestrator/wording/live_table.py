"""The table of a live terminal: one line per loop, and above it the facts as they come.

Costs nothing while nothing changes: it is drawn at most four times a second, and only if a cell is
different. Must not decide what a fact is called: that is `live_lines` and `states`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lifecycle.machine.states import ACTIVE, Stopping, Suspended, Working
from lifecycle.state_words import STOPPING, WORKING, word_on
from orchestrator.terminal.text import columns, cut, one_line, safe, span, wrapped
from orchestrator.wording import live_lines
from orchestrator.wording.doing import AgentActivity
from orchestrator.wording.states import COLOURS, ended_with, waiting_for

if TYPE_CHECKING:
    from rich.console import RenderableType

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed

DRAW_EVERY = 0.25
"""Seconds between two drawings at the least."""
LOOK_EVERY = 1.0
"""Seconds between two readings of ages and logs while no fact arrives."""
MOST_OVER = 200
"""Loops that ended which the table knows of; more do not fit on a screen."""
ROOM_FOR_A_KEY = 4
"""Columns at the right that stay free."""
Row = tuple[str, str, str, str, str]
HEADS: Row = ("AGENT", "ATTEMPT", "STATE", "SINCE", "LAST OUTPUT, OR WHAT IT WAITS FOR")
STATE = HEADS.index("STATE")


class LiveTable:
    """A table with one line per loop, and above it the facts as they come."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._console: Console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._engine: LocalEngine | None = None
        self._live: Live | None = None
        self._drawing: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._shown: list[Row] = []
        self._over: dict[str, AgentLifecycle] = {}
        self._activity: AgentActivity | None = None

    def attach(self, engine: LocalEngine) -> None:
        """Begin."""
        self._engine = engine
        self._activity = AgentActivity(engine)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False,
            redirect_stderr=False,
        )  # fmt: skip
        self._live.start()
        self._drawing = asyncio.get_running_loop().create_task(self._draw(), name="live view")

    def news(self, news: Committed) -> None:
        """Tell a fact if it means something to people; the table follows."""
        for text in live_lines.lines(news):
            self.note(text, news.agent_id)
        if news.agent_id in self._over:
            # People act on lifecycles that no loop runs any more: accept, reject, send back.
            self._over[news.agent_id] = news.record
        self._changed.set()

    def note(self, text: str, agent_id: str = "") -> None:
        """Tell a line above the table."""
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
        running = {name: case.record for name, case in engine.running().items()}
        records = sorted(
            {**self._over, **running}.values(),
            key=lambda record: (record.agent_id not in running, _rank(record.work)),
        )
        room = max(3, self._console.size.height - 6)
        now = engine.shared.clock.now()
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
            begun = inner.tally.attempts
            attempt = str(inner.tally.attempt if isinstance(inner, ACTIVE) else begun or "")
        since = getattr(state, "since", record.updated_at)
        last = "" if state is None else self._last(record, state, now)
        return record.agent_id, attempt, word_on(record), span(now - since), last

    def _last(self, record: AgentLifecycle, state: State, now: float) -> str:
        kind, work = type(state).__name__, vars(state)
        if waits := waiting_for(kind, work, now, span):
            return one_line(f"waits for {waits}", live_lines.MOST)
        if isinstance(state, (Working, Stopping)):
            return "" if self._activity is None else self._activity.doing(record.agent_id).text
        return one_line(ended_with(kind, work) or record.error or "", live_lines.MOST)

    def _table(self, rows: list[Row]) -> RenderableType:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), width=self._width)
        for head in HEADS[:-1]:
            table.add_column(head, no_wrap=True, header_style="dim")
        table.add_column(HEADS[-1], no_wrap=True, overflow="ellipsis", ratio=1, header_style="dim")
        for agent_id, attempt, state, since, last in rows:
            table.add_row(
                Text(agent_id, style="bold"),
                attempt,
                Text(state, style=COLOURS.get(state, "")),
                since,
                Text(last),
            )
        return table


def _rank(state: State | None) -> int:
    """Show first what moves, then what waits."""
    return 0 if isinstance(state, ACTIVE) else 1
