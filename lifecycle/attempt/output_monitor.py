"""Reads what a running agent's program reports while it runs, and how it ended.

Reads the attempt's log from where its output begins, a bounded part at a time, and keeps what the
adapter's parser makes of it. It decides nothing: it says what rules out that the attempt leads
anywhere, and how the program's own words judge its end. An adapter may be anybody's: where its
parser fails, the line counts as garbled, and the end is judged by exit code and signal alone.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.machine.budget import Spent, cost_of
from lifecycle.machine.events import AgentReport
from runtime.agents.adapters.command import CommandParser
from runtime.agents.events import Retry, ToolCall
from runtime.agents.outcome import HOPELESS, OURS, Ending, with_breakpoint
from runtime.agents.parsing.fields import line_of
from runtime.agents.parsing.lines import LineCutter
from runtime.logs.files import size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from runtime.agents.adapter import Adapter
    from runtime.agents.outcome import RunOutcome, Tokens
    from runtime.agents.parsing.parser import Clock, Parser

READ_AT_ONCE = 4 << 20
"""Bytes per look: a flood must not hold up the other loops."""
LATE_AT_MOST = 16 << 20
"""Bytes of what is unread at the end that are looked at: only who floods leaves more, and the other
loops wait meanwhile."""
_CHUNK = 1 << 18
_TAIL = 1 << 16
"""Of the log of a program that writes no events, where its last line is looked for."""
HOPELESS_AFTER = 120.0
"""Seconds that a program may continue after an error that a retry does not fix."""
BRIEFLY = 60.0
"""Seconds for which a program may wait by itself until a limit passes."""
TROUBLED_AFTER = 300.0
"""Seconds that a program may keep asking a provider in trouble, or without a network: waiting is
ours, and holds no process."""
LINGERS_AFTER = 60.0
"""Seconds that a program may live on, in silence, after its turn is over."""
ENDS_WITHIN = 30.0
"""Seconds that a program has to end its turn once its agent signalled: most tell only then what
they used and what was said last."""


class Caps(NamedTuple):
    """How much a program may report in one attempt; 0 for no limit."""

    events: int = 0
    tool_calls: int = 0


NO_CAPS = Caps()
PASSING = frozenset({Ending.OVERLOADED, Ending.NETWORK})
"""Trouble that a program rightly tries to overcome by itself, for a while."""


class EndNow(NamedTuple):
    """Why the attempt must be ended now: it cannot succeed."""

    ended: Ending
    text: str
    reset_at: float | None = None
    advice: str = ""


class Monitor:
    """One attempt's output, read while it is written."""

    def __init__(  # noqa: PLR0913, PLR0917  # what there is to know of a run, in this order
        self,
        adapter: Adapter,
        log: Path,
        start: int,
        now: Clock,
        caps: Caps = NO_CAPS,
        model: str = "",
        price: Mapping[str, float] | None = None,
    ) -> None:
        self._adapter, self._price = adapter, price
        self._parser = _parser_of(adapter, now)
        self._structured = type(self._parser).structured
        self._log, self._at, self._start = log, start, start
        self._now, self._caps = now, caps
        self._model = model
        self._cutter = LineCutter()
        self._file: int | None = None
        self._events = self._calls = 0
        self._moved_at = now()
        self._trouble: Ending | None = None
        self._trouble_since = self._tried_at = 0.0
        self._told = False
        self._held: Callable[[], None] | None = None
        self._held_until = 0.0

    # --- while it lives -----------------------------------------------------------------------

    def listen(self) -> EndNow | None:
        """Read what was written since; say, once, if that rules out that the attempt succeeds."""
        if not self._structured:
            return None
        self._read(READ_AT_ONCE)
        self._release_signal()
        if self._told:
            return None
        end_now = self._too_much() or self._retrying_hopelessly() or self._lingers()
        self._told = end_now is not None
        return end_now

    def defer_signal(self, pass_on: Callable[[], None]) -> None:
        """Pass a breakpoint on once the turn is over, or after `ENDS_WITHIN`; a later one instead.

        Nothing is lost when the program ends before: its mailbox is looked at once more.
        """
        if not self._structured:
            pass_on()
            return
        if self._held is None:
            self._held_until = self._now() + ENDS_WITHIN
        self._held = pass_on

    def _release_signal(self) -> None:
        held = self._held
        # One whose turn is over is about to exit: where it does not, the time runs out.
        if held is not None and self._now() >= self._held_until:
            self._held = None
            held()

    def ignore_time(self, seconds: float) -> None:
        """Leave out a time in which the program could not work."""
        self._moved_at += seconds
        self._trouble_since += seconds
        self._tried_at += seconds
        self._held_until += seconds

    @property
    def tools_running(self) -> int:
        """How many tools have begun and not ended."""
        return self._parser.tools_running

    def spent(self) -> Spent:
        """Return what the program says it used so far; the dollars by its price, if it has one."""
        tokens, cost = self._parser.used()
        cost = self._cost(tokens, cost)
        return Spent(tokens=tokens.total if tokens else 0, cost_usd=cost or 0.0)

    def _cost(self, tokens: Tokens | None, told: float | None) -> float | None:
        if told is not None or tokens is None or self._price is None:
            return told
        return cost_of(self._price, tokens, input_holds_cached=self._adapter.input_holds_cached)

    def _too_much(self) -> EndNow | None:
        caps = self._caps
        if caps.tool_calls and self._calls > caps.tool_calls:
            return EndNow(Ending.LOOP, f"more than {caps.tool_calls} tool calls (max_tool_calls)")
        if caps.events and self._events > caps.events:
            return EndNow(Ending.LOOP, f"more than {caps.events} events (max_events)")
        return None

    def _retrying_hopelessly(self) -> EndNow | None:
        """Judge the program's own retry loop, and errors after which it continues all the same."""
        trouble, now = self._parser.trouble, self._now()
        if trouble is None:
            self._trouble = None
            return None
        if self._trouble is not trouble.ending:
            self._trouble, self._trouble_since = trouble.ending, now
        lasted = now - self._trouble_since
        if trouble.ending in HOPELESS:
            over = self._retries_for_nothing(trouble.ending, now) or lasted >= HOPELESS_AFTER
        else:
            # Up to its latest try: since then it may be getting a long answer.
            tried = self._tried_at - self._trouble_since
            over = trouble.ending in PASSING and tried >= TROUBLED_AFTER
        if not over:
            return None
        judged = self._judged(None, None, trouble.ending)
        return EndNow(judged.outcome, judged.detail, judged.reset_at, judged.what_to_do)

    def _retries_for_nothing(self, ending: Ending, now: float) -> bool:
        """Tell whether its retries cannot succeed; those for a limit that soon passes can."""
        if not self._parser.retries:
            return False
        return ending is not Ending.RATE_LIMIT or self._parser.waits_until(now) > now + BRIEFLY

    def _lingers(self) -> EndNow | None:
        parser = self._parser
        # What still works for it wakes it; the limits on idle programs and tools hold meanwhile.
        if not parser.finished or parser.waits or self._now() - self._moved_at < LINGERS_AFTER:
            return None
        judged = with_breakpoint(self._judged(0, None, None), found=False)
        text = f"its turn was over, but its process stayed. {judged.detail}".rstrip()
        return EndNow(judged.outcome, text, judged.reset_at, judged.what_to_do)

    # --- at its end ---------------------------------------------------------------------------

    def finish(
        self, code: int | None, signal: int | None, ours: Ending | None, *, spoke: bool
    ) -> AgentReport | None:
        """Read the rest and say how it ended; None where the program has nothing to say."""
        try:
            if self._structured:
                with contextlib.suppress(OSError):  # what was read until then is judged
                    self._read_out()
                return self._report(with_breakpoint(self._judged(code, signal, ours), found=spoke))
            if spoke or (code == 0 and signal is None):
                return None
            return self._report(self._plainly(code, signal, ours))
        finally:
            self.close()

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _report(self, outcome: RunOutcome) -> AgentReport:
        """Fill in model and cost where the program does not name them."""
        report = report_of(replace(outcome, cost_usd=self._cost(outcome.usage, outcome.cost_usd)))
        return report if report.model else replace(report, model=self._model)

    def _judged(self, code: int | None, signal: int | None, ours: Ending | None) -> RunOutcome:
        try:
            judged = self._parser.finish(code, signal, our_reason=ours)
        except Exception as problem:  # noqa: BLE001  # an adapter may be anybody's code
            plain = CommandParser(self._now).finish(code, signal, our_reason=ours)
            failed = f"its adapter failed to judge its output ({type(problem).__name__})"
            tokens, cost = self._parser.used()
            detail = f"{plain.detail}; {failed}" if plain.detail else failed
            return replace(plain, detail=detail, usage=tokens, cost_usd=cost)
        return replace(judged, outcome=Ending.ERROR) if judged.outcome in OURS else judged

    def _plainly(self, code: int | None, signal: int | None, ours: Ending | None) -> RunOutcome:
        """Judge a program that writes no events by its end alone, and quote its last line.

        Its output and its errors share the log, so any line may be the agent's own words.
        """
        judged, line = self._judged(code, signal, ours), self._last_line()
        if not line or ours is not None:
            return judged
        return replace(judged, detail=line if signal is None else f"{judged.detail}: {line}")

    def _read_out(self) -> None:
        self._read(READ_AT_ONCE)
        self._pass_over(LATE_AT_MOST)
        self._read(None)
        for line in self._cutter.end():
            self._take(line)
        self._parser.passed_over(self._cutter.too_long)

    def _read(self, most: int | None) -> None:
        """Read on; the file stays open, because at the end a shorter one takes its place."""
        file = self._open()
        if file is None:
            return
        left = most
        while left is None or left > 0:
            chunk = os.pread(file, _CHUNK if left is None else min(_CHUNK, left), self._at)
            if not chunk:
                return
            self._at += len(chunk)
            self._moved_at = self._now()
            for line in self._cutter.cut(chunk):
                self._events += 1
                self._take(line)
            if left is not None:
                left -= len(chunk)

    def _take(self, line: bytes) -> None:
        try:
            events = self._parser.feed(line)
        except Exception:  # noqa: BLE001  # an adapter may be anybody's code; the next line may be read
            self._parser.unreadable()
            return
        for event in events:
            if isinstance(event, ToolCall):
                self._calls += 1
            elif isinstance(event, Retry):
                self._tried_at = self._now()

    def _pass_over(self, kept: int) -> None:
        """Leave out the middle of what is unread; the line that is cut so counts as garbled."""
        file = self._open()
        if file is not None:
            self._at = max(self._at, os.fstat(file).st_size - kept)

    def _open(self) -> int | None:
        if self._file is None:
            with contextlib.suppress(OSError):
                self._file = os.open(
                    self._log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                )
        return self._file

    def _last_line(self) -> str:
        """Return the last line that says something, fit to be shown."""
        file = self._open() if size(self._log) > self._start else None
        if file is None:
            return ""
        try:
            end = os.fstat(file).st_size
            data = os.pread(file, _TAIL, max(self._start, end - _TAIL))
        except OSError:
            return ""
        said = (line_of(line.decode("utf-8", "replace")) for line in reversed(data.splitlines()))
        return next((line for line in said if line), "")


def _parser_of(adapter: Adapter, now: Clock) -> Parser:
    """Return what reads its output; what takes it for plain text where that cannot be made."""
    try:
        return adapter.parser(now)
    except Exception:  # noqa: BLE001  # an adapter may be anybody's code; its process lives already
        return CommandParser(now)


def report_of(outcome: RunOutcome) -> AgentReport:
    """Say in the machine's words how a program ended."""
    ending = Ending.NO_BREAKPOINT if outcome.outcome is Ending.COMPLETED else outcome.outcome
    usage = outcome.usage
    return AgentReport(
        ended=ending,
        detail=outcome.detail,
        advice=outcome.what_to_do,
        reset_at=outcome.reset_at,
        model=outcome.model,
        session_id=outcome.session_id,
        tokens=None if usage is None else usage.total,
        input_tokens=0 if usage is None else usage.input,
        output_tokens=0 if usage is None else usage.output,
        cached_tokens=0 if usage is None else usage.cached,
        cost_usd=outcome.cost_usd,
        tool_calls=outcome.tool_calls,
        denied=outcome.denied,
        last_words=outcome.last_words,
    )
