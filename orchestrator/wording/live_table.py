"""The table of a live terminal: one line per loop, and above it the facts as they come.

Costs nothing while nothing changes: it is drawn at most four times a second, and only if a cell is
different. Must not decide what a fact is called: that is `live_lines` and `states`.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from typing import TYPE_CHECKING, TextIO

from lifecycle.machine.budget import dollars
from lifecycle.machine.states import ACTIVE, Stopping, Suspended, Working
from lifecycle.state_words import STOPPING, WORKING, word_on
from orchestrator.terminal.live_area import LiveArea
from orchestrator.terminal.text import (
    columns,
    cut,
    one_line,
    paint,
    safe,
    short_count,
    span,
    wrapped,
)
from orchestrator.wording import live_lines
from orchestrator.wording.doing import AgentActivity, Doing
from orchestrator.wording.states import COLOURS, ended_with, type_next, waiting_for

if TYPE_CHECKING:
    from collections.abc import Sequence

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
BESIDE = 6
"""Lines of a screen that are not for rows: the facts above, the head, what to type."""
Row = tuple[str, str, str, str, str, str, str]
HEADS: Row = ("AGENT", "ATTEMPT", "STATE", "SINCE", "TOKENS", "COST", "WHAT IT DOES OR WAITS FOR")
STATE, LAST = HEADS.index("STATE"), len(HEADS) - 1
ENOUGH = 28
"""Columns that the last column needs; with less, others are left out."""
LEFT_OUT = (("TOKENS",), ("TOKENS", "COST"), ("TOKENS", "COST", "ATTEMPT", "SINCE"))
"""What is left out of a narrow table, one after the other."""


class LiveTable:
    """A table with one line per loop, and above it the facts as they come."""

    def __init__(self, stream: TextIO = sys.stderr, *, coloured: bool = True) -> None:
        self._area = LiveArea(stream)
        self._coloured = coloured
        self._engine: LocalEngine | None = None
        self._drawing: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._over: dict[str, AgentLifecycle] = {}
        self._activity: AgentActivity | None = None

    def attach(self, engine: LocalEngine) -> None:
        """Begin."""
        self._engine = engine
        self._activity = AgentActivity(engine)
        self._area.open()
        loop = asyncio.get_running_loop()
        with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread
            loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
        self._drawing = loop.create_task(self._draw(), name="live view")

    def news(self, news: Committed) -> None:
        """Tell a fact if it means something to people; the table follows."""
        for text in live_lines.lines(news):
            self.note(text, news.agent_id)
        if news.agent_id in self._over:
            # People act on lifecycles that no loop runs any more: accept, reject, send back.
            self._over[news.agent_id] = news.record
        self.redraw()

    def redraw(self) -> None:
        """Draw the table again soon."""
        self._changed.set()

    def note(self, text: str, agent_id: str = "") -> None:
        """Tell a line above the table, wrapped: its end is often what to do."""
        hour, who = time.strftime("%H:%M:%S "), f"{agent_id}: " if agent_id else ""
        parts = f"{hour}{who}{safe(text, lines=True)}".expandtabs().split("\n")

        def in_lines(width: int) -> list[str]:
            first, *others = (line for part in parts for line in wrapped(part, width, links=True))
            if first.startswith(hour + who):
                first = first.removeprefix(hour + who)
                first = self._paint(hour, "dim") + self._paint(who, "bold") + first
            return [first, *others]

        self._area.print(in_lines)

    def over(self, record: AgentLifecycle) -> None:
        """Keep the last state of a loop that ended; of many, that of the latest."""
        self._over.pop(record.agent_id, None)
        self._over[record.agent_id] = record
        if len(self._over) > MOST_OVER:
            oldest = next(iter(self._over))
            del self._over[oldest]
        self.redraw()

    def forget(self, agent_id: str) -> None:
        """Take its row away."""
        self._over.pop(agent_id, None)
        self.redraw()

    async def close(self) -> None:
        """Take the table away; a final one follows elsewhere."""
        if self._drawing is not None:
            with contextlib.suppress(RuntimeError, ValueError):
                asyncio.get_running_loop().remove_signal_handler(signal.SIGWINCH)
            self._drawing.cancel()
            await asyncio.gather(self._drawing, return_exceptions=True)
        self._area.close()

    # --- drawing ------------------------------------------------------------------------------

    async def _draw(self) -> None:
        while True:
            self._area.show(self._lines_now)
            await asyncio.sleep(DRAW_EVERY)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY - DRAW_EVERY):
                    await self._changed.wait()
            self._changed.clear()

    def _lines_now(self) -> list[str]:
        """Return the table as the screen has room for it, in the order of the list."""
        engine = self._engine
        if engine is None:
            return []
        running = {name: case.record for name, case in engine.running().items()}
        everybody = [*{**self._over, **running}.values()]
        records = sorted(
            everybody, key=lambda record: (record.agent_id not in running, _rank(record.work))
        )
        if not records:
            return []
        ending = self._next(everybody)
        room = max(3, self._area.height - BESIDE - len(ending))
        now = engine.shared.clock.now()
        rows = [(record.cursor, self._row(record, now)) for record in records[:room]]
        shown = self._shown([row for _, row in rows])
        widths = [
            max(columns(row[at]) for row in (HEADS, *(row for _, row in rows))) for at in shown
        ]
        left = self._area.width - sum(widths[:-1]) - 2 * (len(widths) - 1)
        blocks = list[tuple[int, list[str]]]()
        for cursor, row in rows:
            lines = self._block(row, shown, widths, left)
            if blocks and len(lines) > room:
                break
            room -= len(lines)
            blocks.append((cursor, lines))
        head = "".join(HEADS[at].ljust(size + 2) for at, size in zip(shown, widths, strict=True))
        lines = [self._paint(cut(head.rstrip(), self._area.width), "dim")]
        lines += [line for _, block in sorted(blocks) for line in block]
        if more := len(records) - len(blocks):
            lines.append(f"... {more} more: `loopwright ps` lists all")
        return [*lines, *ending]

    def _next(self, records: Sequence[AgentLifecycle]) -> list[str]:
        """Return what to type next, as the last lines."""
        works = [
            (each.agent_id, type(each.work).__name__, vars(each.work))
            for each in sorted(records, key=lambda each: each.cursor)
            if each.work is not None
        ]
        lines = wrapped(type_next(works), self._area.width)
        return [self._paint(line, "bold") for line in lines]

    def _shown(self, rows: Sequence[Row]) -> list[int]:
        """Return which columns there is room for; one without a value is left out."""
        names = [
            name
            for at, name in enumerate(HEADS)
            if name in ("AGENT", HEADS[-1]) or any(row[at] for row in rows)
        ]
        kept = list[int]()
        for gone in ((), *LEFT_OUT):
            kept = [HEADS.index(name) for name in names if name not in gone]
            before = sum(max(columns(row[at]) for row in (HEADS, *rows)) + 2 for at in kept[:-1])
            if self._area.width - before >= ENOUGH:
                break
        return kept

    def _block(self, row: Row, shown: list[int], widths: list[int], left: int) -> list[str]:
        """Return a row in lines; only of what an agent says one line is enough."""
        cells = list[str]()
        for at, size in zip(shown[:-1], widths[:-1], strict=True):
            colour = "bold" if at == 0 else COLOURS.get(row[at], "") if at == STATE else ""
            pad = " " * (size - columns(row[at]) + 2)
            right = HEADS[at] in ("TOKENS", "COST")
            cell = self._paint(row[at], colour)
            cells.append(f"{pad[2:]}{cell}  " if right else f"{cell}{pad}")
        start = "".join(cells)
        indent = sum(size + 2 for size in widths[:-1])
        if left < ENOUGH // 2:  # it stands below the others
            indent, left = 2, max(self._area.width - 2, 8)
            parts = ["", *self._last_lines(row, left)] if row[LAST] else [""]
        else:
            parts = self._last_lines(row, left)
        first, *others = parts
        return [f"{start}{first}".rstrip(), *(" " * indent + part for part in others)]

    @staticmethod
    def _last_lines(row: Row, room: int) -> list[str]:
        if row[STATE] in (WORKING, STOPPING):
            return [cut(row[LAST], room)]
        return wrapped(row[LAST], room)

    def _row(self, record: AgentLifecycle, now: float) -> Row:
        state = record.work
        inner = state.inner if isinstance(state, Suspended) else state
        attempt = ""
        if inner is not None:
            begun = inner.tally.attempts
            attempt = str(inner.tally.attempt if isinstance(inner, ACTIVE) else begun or "")
        since = getattr(state, "since", record.updated_at)
        doing = Doing() if self._activity is None else self._activity.doing(record.agent_id)
        last = "" if state is None else self._last(record, state, doing, now)
        used = short_count(doing.tokens), dollars(doing.cost_usd) if doing.cost_usd else ""
        return (record.agent_id, attempt, word_on(record), span(now - since), *used, last)

    @staticmethod
    def _last(record: AgentLifecycle, state: State, doing: Doing, now: float) -> str:
        kind, work = type(state).__name__, vars(state)
        if waits := waiting_for(kind, work, now, span):
            return one_line(f"waits for {waits}", live_lines.MOST)
        if isinstance(state, (Working, Stopping)):
            return doing.text
        return one_line(ended_with(kind, work) or record.error or "", live_lines.MOST)

    def _paint(self, text: str, colour: str) -> str:
        return paint(text, colour, wanted=self._coloured)


def _rank(state: State | None) -> int:
    """Show first what moves, then what waits."""
    return 0 if isinstance(state, ACTIVE) else 1
