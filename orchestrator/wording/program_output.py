"""Puts the reports of an agent's program into words, for people who read a log.

Reads the program's own lines through its adapter. Judges nothing; a line that is not a report is
shown as it is, and reports that tell a person nothing are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.agents.events import (
    Denied,
    Event,
    Failed,
    Finished,
    Limit,
    Retry,
    Started,
    Text,
    ToolCall,
    ToolResult,
    UnknownEvent,
)
from runtime.agents.parsing.lines import LineCutter

if TYPE_CHECKING:
    from runtime.agents.adapter import Adapter
    from runtime.agents.parsing.parser import Clock


class ReadableOutput:
    """One attempt's output, retold piece by piece."""

    def __init__(self, adapter: Adapter, now: Clock) -> None:
        self._parser = adapter.parser(now)
        self._cutter = LineCutter()
        self._names: dict[str, str] = {}
        """Tools that run."""
        self._open = False
        """The text before may continue."""
        self._silent = True
        """Nothing was printed since the turn began, or since its last words."""
        self._last_words = ""

    def take(self, chunk: bytes) -> str:
        """Return these bytes in words."""
        return self._told(self._cutter.cut(chunk))

    def end(self) -> str:
        """Return the last bytes in words, and end the line."""
        told = self._told(self._cutter.end())
        return told + ("\n" if self._open else "")

    def _told(self, lines: list[bytes]) -> str:
        return "".join(self._one(event) for line in lines for event in self._parser.feed(line))

    def _one(self, event: Event) -> str:
        if isinstance(event, Text):
            self._silent = False
            return self._text(event)
        if isinstance(event, Finished):
            return self._close(event)
        words = self._words(event)
        if not words:
            return ""
        before, self._open = "\n" if self._open else "", False
        return f"{before}{words}\n"

    def _close(self, event: Finished) -> str:
        """Return an agent's last words where its program reports them only at the turn's end."""
        words = self._parser.finish(0 if event.ok else 1).last_words
        told = self._text(Text(words)) if self._silent and words != self._last_words else ""
        self._silent, self._last_words = True, words
        return told

    def _text(self, event: Text) -> str:
        before = "\n" if self._open and not event.part else ""
        self._open = not event.text.endswith("\n")
        return before + event.text

    def _words(self, event: Event) -> str:  # noqa: PLR0911  # one line per report reads best
        match event:
            case Started(model=model):
                return f"[starts{f' with {model}' if model else ''}]"
            case ToolCall(call_id=call, name=name):
                self._names[call] = name
                return f"[calls {name}]"
            case ToolResult(call_id=call, ok=ok, exit_code=code):
                name = self._names.pop(call, "a tool")
                return "" if ok else f"[{name} failed{'' if code is None else f' with {code}'}]"
            case Denied(tool=tool):
                return f"[not permitted: {tool}]"
            case Retry(ending=ending, message=message):
                return f"[asks again: {ending}{f', {message}' if message else ''}]"
            case Limit(reached=True, window=window):
                return f"[usage limit reached{f': {window}' if window else ''}]"
            case Failed(ending=ending, message=message):
                return f"[{ending}{f': {message}' if message else ''}]"
            case UnknownEvent(kind="", line=line):
                if line.lstrip().startswith(b'{"'):
                    return "[a report that cannot be read]"
                return line.decode("utf-8", "replace")
            case _:
                return ""
