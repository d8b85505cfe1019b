"""Totals of one run, collected from its events in bounded memory.

Owns the bookkeeping of a parser. It must not judge how the run ended.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from runtime.agents import events as ev
from runtime.agents.outcome import Ending, Tokens, UsageScope

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = 4000
"""Characters of the agent's last words that are kept."""
_WORD_LINES = 200
_LONG_LINE = 1 << 15
"""Bytes of a line whose text alone fills the words that are kept."""
OPEN = 1000
"""Limit on the running tools that are tracked."""
ID = 1000
"""Characters of an id or a name that are kept; real ones are far shorter."""
_TOOLS = 50


class RunTotals:
    """What is known about a run so far."""

    def __init__(self) -> None:
        self._session = self._model = ""
        self._final: ev.Finished | None = None
        self._failure: ev.Failed | None = None
        self._trouble: ev.Failed | None = None
        """The current error, if known; cleared once the program makes progress."""
        self._retried, self._delay = False, 0.0
        self._reset: float | None = None
        self._said = ""
        self._words: deque[bytes] = deque(maxlen=_WORD_LINES)
        self._calls = 0
        self._open: dict[str, str] = {}
        """Tools that run."""
        self._denied: dict[str, str] = {}
        self._stuck_on_denial = False
        self._steps: ev.Usage | None = None
        self._totals: dict[UsageScope, ev.Usage] = {}

    @property
    def tools_running(self) -> int:
        """How many tools are running, including those in the background."""
        return len(self._open)

    @property
    def waits(self) -> bool:
        """Whether it continues by itself, even after the end of its turn."""
        return self.tools_running > 0

    @property
    def finished(self) -> bool:
        """Whether the program says that its turn is over."""
        return self._final is not None

    @property
    def trouble(self) -> ev.Failed | None:
        """The current error, if known; None once the program got past it."""
        return self._trouble

    @property
    def retries(self) -> bool:
        """Whether the current error comes from the program's own retry loop."""
        return self._trouble is not None and self._retried

    def waits_until(self, now: float) -> float:
        """Return when the program retries, or the limit ends, if it says so."""
        return max(self._reset or 0.0, now + self._delay)

    def used(self) -> tuple[Tokens | None, float | None]:
        """Return tokens and dollars used so far, if the program reports them."""
        tokens, money = self._used(lambda each: each.tokens), self._used(lambda each: each.cost_usd)
        return tokens.tokens if tokens else None, money.cost_usd if money else None

    def _note(self, event: ev.Event) -> None:
        if (noting := self._NOTES.get(type(event))) is not None:
            noting(self, event)

    def _on_text(self, event: ev.Text) -> None:
        self._go_on()
        self._say(event)
        self._progress()

    def _go_on(self) -> None:
        """Note activity: if its turn was over, a new one has started."""
        self._final = None

    def _on_call(self, event: ev.ToolCall) -> None:
        self._call(event.call_id, event.name)

    def _on_result(self, event: ev.ToolResult) -> None:
        self._open.pop(event.call_id, None)
        if event.ok:
            self._stuck_on_denial = False
        self._progress(tool=True)

    def _on_start(self, event: ev.Started) -> None:
        self._go_on()
        self._session = event.session_id or self._session
        self._model = event.model or self._model

    def _on_retry(self, event: ev.Retry) -> None:
        self._trouble = ev.Failed(event.ending, event.message)
        self._retried, self._delay = True, event.delay or 0.0

    def _on_failure(self, event: ev.Failed) -> None:
        self._failure = self._trouble = event
        self._retried = False
        self._reset = event.reset_at or self._reset

    def _on_limit(self, event: ev.Limit) -> None:
        self._reset = (event.reset_at if event.reached else None) or self._reset

    def _on_denial(self, event: ev.Denied) -> None:
        self._remember_denied(event.call_id or event.tool, event.tool)
        self._stuck_on_denial = True

    def _remember_denied(self, identity: str, tool: str) -> None:
        if len(self._denied) < _TOOLS:
            self._denied.setdefault(identity[:ID], tool[:ID])

    def _on_finish(self, event: ev.Finished) -> None:
        self._final = event

    def _say(self, event: ev.Text) -> None:
        self._words.clear()
        said = self._said + event.text if event.part else event.text
        self._said = said if len(said) <= 2 * WORDS else said[:WORDS] + said[-WORDS:]

    def _keep(self, line: bytes, *, part: bool = False) -> None:
        """Keep a line with the agent's words; it is parsed only if they are the last ones."""
        if not part or len(line) > _LONG_LINE:
            self._words.clear()
            self._said = ""
        self._go_on()
        self._words.append(line)
        self._progress()

    def _call(self, call_id: str = "", name: str = "", times: int = 1) -> None:
        self._go_on()
        self._calls += times
        if call_id and len(call_id) <= ID and len(self._open) < OPEN:
            self._open[call_id] = name[:ID]
        self._progress(tool=True)

    def _progress(self, *, tool: bool = False) -> None:
        """Clear an earlier error: the program has got past it.

        After a full context only a tool call counts; text may be the summary it makes.
        """
        trouble = self._trouble
        if trouble is not None and (tool or trouble.ending is not Ending.CONTEXT_OVERFLOW):
            self._trouble = self._failure = None

    def _count(self, usage: ev.Usage) -> None:
        if usage.scope is not UsageScope.STEP:
            if usage.scope is UsageScope.RUN:
                self._steps = None  # it counts them, too
            before = self._totals.get(usage.scope)
            self._totals[usage.scope] = _merged(before, usage)
        elif self._steps is None:
            self._steps = usage
        else:
            self._steps = added(self._steps, usage)

    def _used(self, wanted: Callable[[ev.Usage], Tokens | float | None]) -> ev.Usage | None:
        """Return the best usage: of this run, else of the session, else the sum of steps."""
        run = self._totals.get(UsageScope.RUN)
        if run is not None and self._steps is not None:
            run = added(run, self._steps)
        ranked = (run, self._totals.get(UsageScope.SESSION), self._steps)
        return next((each for each in ranked if each and wanted(each) is not None), None)

    _NOTES: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        ev.Text: _on_text,
        ev.ToolCall: _on_call,
        ev.ToolResult: _on_result,
        ev.Started: _on_start,
        ev.Usage: _count,
        ev.Retry: _on_retry,
        ev.Failed: _on_failure,
        ev.Limit: _on_limit,
        ev.Denied: _on_denial,
        ev.Finished: _on_finish,
    }


def _merged(before: ev.Usage | None, usage: ev.Usage) -> ev.Usage:
    if before is None:
        return usage
    cost = before.cost_usd if usage.cost_usd is None else usage.cost_usd
    return ev.Usage(usage.scope, usage.tokens or before.tokens, cost)


def added(one: ev.Usage, two: ev.Usage) -> ev.Usage:
    """Return the sum of two usages of the same scope; a value in only one is kept."""
    tokens = one.tokens + two.tokens if one.tokens and two.tokens else one.tokens or two.tokens
    costs = [each.cost_usd for each in (one, two) if each.cost_usd is not None]
    return ev.Usage(one.scope, tokens, round(sum(costs), 12) if costs else None)
