"""What all parsers share: fast reading of lines, the totals of a run, and its outcome.

A parser gets the lines that a program writes, and says at the end how it ended. It uses the
program's own events first, then its exit code, then, for a failed run only, its standard error. It
must not read files, ask a clock or decide what comes next.
"""

from __future__ import annotations

import signal as signals
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from runtime.agents import events as ev
from runtime.agents.outcome import ADVICE, LIMITED, Ending, RunOutcome, UsageScope
from runtime.agents.parsing import error_signs, tool_calls
from runtime.agents.parsing import fields as f
from runtime.agents.parsing.reset_times import reset_time
from runtime.agents.parsing.run_totals import WORDS, RunTotals

if TYPE_CHECKING:
    from datetime import tzinfo

Clock: TypeAlias = Callable[[], float]
Events: TypeAlias = tuple[ev.Event, ...]
Handler: TypeAlias = Callable[[Any, f.Fields], Iterable[ev.Event] | None]
"""A parser's method for one kind of event; it returns None for an unknown event."""
NOTHING: Events = ()

_HEAD = b'{"type":"'
_AT = len(_HEAD)
_ENDS = (b"}", b"}\n")
_STRAY_LINES = 40
_STRAY_ROOM = 1000
_FATAL = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS"})
_SHELL_SIGNAL = 128
_ENDING_SIGNALS = frozenset({*range(1, 12), 13, 14, 15, 24, 25, 31})
"""Those that end a process by default; the same on Linux and macOS."""
_NOT_RUN = (126, 127)
_DOUBTED = frozenset({Ending.HANG, Ending.TIMEOUT, Ending.LOOP, Ending.MAX_TURNS})
"""Reasons of the runner that say less than what the program reported before."""
_BY_HAND = frozenset({Ending.KILLED, Ending.CRASH, Ending.ERROR})


class ParserFactory(Protocol):
    """Makes a parser for one run."""

    def __call__(self, now: Clock, zone: tzinfo | None = None, *, live: bool = True) -> Parser:
        """Return a fresh parser.

        `now` is used for times without a date; `zone` is the program's local one (None: the
        machine's). Without `live` no events are made that only live views need, which is much
        faster; the outcome is the same.
        """
        ...


class Parser(RunTotals):
    """Reads one run of one program."""

    program: ClassVar[str] = ""
    login: ClassVar[str] = "Log in with the agent's own program, or give it a key."
    quiet: ClassVar[frozenset[bytes]] = frozenset()
    """Kinds of events that can be ignored."""
    structured: ClassVar[bool] = True
    """Whether the program writes events; else its output is the agent's text."""
    handlers: ClassVar[Mapping[str, Handler]] = {}
    """The handler of each known kind of event."""
    exits: ClassVar[Mapping[int, Ending]] = {}
    """The meaning of the program's own exit codes."""

    def __init__(self, now: Clock, zone: tzinfo | None = None, *, live: bool = True) -> None:
        super().__init__()
        self._now, self._zone, self._live = now, zone, live
        self._stray: deque[bytes] = deque(maxlen=_STRAY_LINES)
        self._events = False
        self._unread = {"garbled": 0, "unknown": 0, "too_long": 0}

    # --- reading ------------------------------------------------------------------------------

    def feed(self, line: bytes) -> Events:
        """Read a line that the program wrote; return its events. Never raises."""
        kind = b""
        if line.startswith(_HEAD):
            kind = line[_AT : line.find(b'"', _AT)]
            whole = line.endswith(_ENDS)
            if whole and (kind in self.quiet or (not self._live and self._glance(kind, line))):
                self._events = True
                return NOTHING
        elif not line.strip():
            return NOTHING
        fields = f.parsed(line)
        if fields is None:
            return self._odd(line)
        self._events = True
        name = f.text(fields, "type")
        found = self._read(name, fields)
        if found is None:
            self._unread["unknown"] += 1
            return (ev.UnknownEvent(name, line),)
        events = tuple(found)
        for event in events:
            self._note(event)
        return events

    def unreadable(self) -> None:
        """Count a line whose reading raised an error."""
        self._unread["garbled"] += 1

    def passed_over(self, lines: int) -> None:
        """Record how many lines were too long to be read."""
        self._unread["too_long"] = lines

    def _glance(self, kind: bytes, line: bytes) -> bool:
        """Handle a line without parsing it, if that is enough; tell whether it was."""
        del kind, line
        return False

    def _read(self, kind: str, fields: f.Fields) -> Iterable[ev.Event] | None:
        """Return the events of a record; None if its kind is unknown."""
        handler = self.handlers.get(kind)
        return None if handler is None else handler(self, fields)

    def _words_of(self, fields: f.Fields) -> str:
        """Return the agent's text in an event that `_glance` kept."""
        del fields
        return ""

    def _about(self, name: str, given: f.Fields) -> str:
        """Return what a tool call is about, if somebody looks."""
        return tool_calls.about(name, given) if self._live else ""

    def _failure_of(self, output: object) -> str:
        """Return the end of what a failed tool said, if somebody looks."""
        return tool_calls.failure(output) if self._live else ""

    def _odd(self, line: bytes) -> Events:
        """Keep a line that is not an event: most likely an error message."""
        if b'":' in line or line.lstrip()[:1] in b'{["':
            self._unread["garbled"] += 1  # a piece of an event, with anybody's text in it
        else:
            self._stray.append(line[:_STRAY_ROOM])
        return (ev.UnknownEvent("", line),)

    # --- the verdict --------------------------------------------------------------------------

    def finish(
        self,
        exit_code: int | None,
        signal: int | None = None,
        stderr_tail: str = "",
        our_reason: Ending | None = None,
    ) -> RunOutcome:
        """Return how the run ended.

        A negative exit code is a signal, as subprocess has it. `our_reason` is why the runner
        ended the program, None if it did not.
        """
        if exit_code is not None:
            exit_code, signal = self._parted(exit_code, signal)
        ending, detail = self._judge(exit_code, signal, stderr_tail, our_reason)
        reset_at = self._reset if ending in LIMITED else None
        if ending in LIMITED and reset_at is None:
            reset_at = reset_time(detail, self._now(), self._zone)
        tokens, money = self._used(lambda each: each.tokens), self._used(lambda each: each.cost_usd)
        return RunOutcome(
            outcome=ending,
            reset_at=reset_at,
            session_id=f.line_of(self._session, 200),
            model=f.line_of(self._model, 200),
            usage=tokens.tokens if tokens else None,
            usage_scope=_as_told(tokens),
            cost_usd=money.cost_usd if money else None,
            cost_scope=_as_told(money),
            last_words=f.tidy(self._last_words(), WORDS),
            tool_calls=self._calls,
            denied=tuple(dict.fromkeys(f.line_of(name, 100) for name in self._denied.values())),
            detail=f.line_of(detail),
            what_to_do=self._advice(ending),
            notes={name: times for name, times in self._unread.items() if times},
        )

    def _parted(self, code: int, signal: int | None) -> tuple[int | None, int | None]:
        """Return either an exit code or a signal; shells add 128 to a signal."""
        if code < 0:
            return None, -code
        if code not in self.exits and code - _SHELL_SIGNAL in _ENDING_SIGNALS:
            return None, code - _SHELL_SIGNAL
        return (code, None) if signal is None else (None, signal)

    def _judge(
        self, code: int | None, signal: int | None, stderr: str, ours: Ending | None
    ) -> tuple[Ending, str]:
        trouble, done = self._trouble, self._final
        if ours is not None and ours not in _DOUBTED:
            return ours, trouble.message if trouble else ""
        if done is not None and not (done.ok and code and ours is None):
            return self._success(done) if done.ok else self._told_failure(done, stderr, ours)
        if trouble is not None and (code or signal or ours):
            return trouble.ending, trouble.message
        return (ours, "") if ours is not None else self._by_exit(code, signal, stderr)

    def _by_exit(self, code: int | None, signal: int | None, stderr: str) -> tuple[Ending, str]:
        """Judge a run that no event explains."""
        if signal is not None:
            return _by_signal(signal)
        if code is None:
            return Ending.CRASH, "its exit was not observed"
        return self._by_code(code, stderr) if code else self._quiet_end(stderr)

    def _success(self, done: ev.Finished) -> tuple[Ending, str]:
        """Judge a turn that the program calls good, by its own events alone."""
        if self._stuck_on_denial and self._denied:
            return (
                Ending.DENIED,
                f"not permitted: {', '.join(dict.fromkeys(self._denied.values()))}",
            )
        return Ending.COMPLETED, done.reason

    def _told_failure(
        self, done: ev.Finished, stderr: str, ours: Ending | None
    ) -> tuple[Ending, str]:
        """Judge a turn that the program calls bad."""
        failure = self._failure
        if failure is None:
            ending, line = error_signs.by_last_lines(stderr)
            failure = ev.Failed(ending or Ending.ERROR, line or done.reason)
        if ours is not None and failure.ending in _BY_HAND:
            return ours, failure.message
        return failure.ending, failure.message or done.reason

    def _quiet_end(self, stderr: str) -> tuple[Ending, str]:
        """Judge an end with exit code 0 without a last event."""
        del stderr
        if self._trouble is not None:
            return self._trouble.ending, self._trouble.message
        if self._events:
            return (
                Ending.CRASH,
                f"{self.program} ended in the middle of its turn, with exit code 0",
            )
        if self._stray:
            return Ending.COMPLETED, f"{self.program} wrote plain text instead of events"
        return Ending.ERROR, f"{self.program} ended without any output, with exit code 0"

    def _by_code(self, code: int, stderr: str) -> tuple[Ending, str]:
        """Judge a failure that no event explains: by its own codes, by words, by the rest."""
        ending, line = error_signs.by_last_lines(f"{self._strays()}\n{stderr}")
        own = self.exits.get(code)
        if own is not None:
            return own, line or f"{self.program} ended with exit code {code}"
        if ending is not None:
            return ending, line
        if code in _NOT_RUN:
            return Ending.ENVIRONMENT, line or f"exit code {code}: it could not be run"
        return self._unexplained(code, line)

    def _unexplained(self, code: int, line: str) -> tuple[Ending, str]:
        if self._events and self._final is None:
            return (
                Ending.CRASH,
                line or f"it ended in the middle of its turn, with exit code {code}",
            )
        return Ending.ERROR, line or f"it ended with exit code {code} and without a message"

    def _strays(self) -> str:
        return b"\n".join(self._stray).decode("utf-8", "replace") if self.structured else ""

    def _last_words(self) -> str:
        if not self._words:
            if not self._said and not self._events:
                return b"\n".join(self._stray).decode("utf-8", "replace")
            return self._said
        found = (f.parsed(line) for line in self._words)
        return self._said + "".join(self._words_of(each) for each in found if each is not None)

    def _advice(self, ending: Ending) -> str:
        text = ADVICE[ending].replace("{login}", self.login)
        return text.replace("{program}", self.program or "the program")


def _as_told(usage: ev.Usage | None) -> UsageScope:
    """Name the scope of a count; the sum of all steps is that of the run."""
    return (
        UsageScope.SESSION
        if usage is not None and usage.scope is UsageScope.SESSION
        else UsageScope.RUN
    )


def _by_signal(signal: int) -> tuple[Ending, str]:
    name = _name(signal) or f"signal {signal}"
    return (Ending.CRASH if name in _FATAL else Ending.KILLED), f"ended by {name}"


def _name(signal: int) -> str:
    try:
        return signals.Signals(signal).name
    except ValueError:
        return ""
