"""Puts the reports of an agent's program into words, for people who read a log.

Reads the program's own lines through its adapter. Judges nothing; a line that is not a report is
shown as it is, and reports that tell a person nothing are left out. What went wrong begins with
`TROUBLE`, so that it can be shown in a colour.
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
from runtime.agents.parsing.tool_calls import is_shell

if TYPE_CHECKING:
    from runtime.agents.adapter import Adapter
    from runtime.agents.parsing.parser import Clock

TROUBLE = "! "
"""Begins each line about something that went wrong."""
COMMAND = "$ "
"""Begins each line with a command that the agent runs."""
_DOES = {
    **dict.fromkeys(("edit", "multiedit", "notebookedit", "replace", "file_change"), "Edit"),
    **dict.fromkeys(("str_replace", "apply_patch", "patch"), "Edit"),
    **dict.fromkeys(("write", "write_file", "create", "create_file"), "Write"),
    **dict.fromkeys(("read", "read_file", "view", "notebookread"), "Read"),
    **dict.fromkeys(("grep", "grep_search", "search_file_content", "codesearch"), "Search"),
    **dict.fromkeys(("glob", "ls", "list", "list_directory"), "List"),
    **dict.fromkeys(("webfetch", "web_fetch", "fetch"), "Fetch"),
    **dict.fromkeys(("websearch", "web_search", "google_web_search"), "Search the web"),
}
"""What tools do, by their names in small letters; of all programs, as these names differ little."""
_TO_FILES = ("Edit", "Write", "Read", "List")
_KEPT = 1000
"""Characters of a text that goes on; its last line is what the agent says at the moment."""


def call_words(call: ToolCall, folder: str = "", *, prompt: str = "Bash: ") -> str:
    """Say in a line what a tool call does: `Bash: npm test`, `Edit src/x.py`.

    Files in `folder` are named as seen from there.
    """
    about = call.about.replace(f"{folder.rstrip('/')}/", "") if folder else call.about
    if is_shell(call.name) and about:
        return f"{prompt}{about}"
    does = _DOES.get(call.name.lower(), call.name)
    if not about:
        return does
    return f"{does} {about}" if does in _TO_FILES else f"{does}: {about}"


class ReadableOutput:
    """One attempt's output, retold piece by piece."""

    def __init__(self, adapter: Adapter, now: Clock, folder: str = "") -> None:
        self._parser = adapter.parser(now)
        self._cutter = LineCutter()
        self._folder = folder
        """Where the agent works; its files are named as seen from there."""
        self._names: dict[str, str] = {}
        """Tools that run, and what they do."""
        self._line = ""
        self._said = ""
        self._open = False
        """The text before may continue."""
        self._silent = True
        """Nothing was printed since the turn began, or since its last words."""
        self._last_words = ""

    @property
    def doing(self) -> str:
        """What the agent does, or what it said last; not made safe for a terminal."""
        return self._line

    def take(self, chunk: bytes) -> str:
        """Return these bytes in words."""
        return self._told(self._cutter.cut(chunk))

    def end(self) -> str:
        """Return the last bytes in words, and end the line."""
        told = self._told(self._cutter.end())
        return told + ("\n" if self._open else "")

    def pieces(self, line: bytes) -> list[tuple[Event, str]]:
        """Return what one whole line reports, each with its words; not joined to other text."""
        found = list[tuple[Event, str]]()
        for event in self._parser.feed(line):
            if isinstance(event, Text):
                self._silent = False
                found.append((event, event.text))
            elif isinstance(event, Finished):
                found.append((Text(""), self._close(event).strip("\n")))
            else:
                found.append((event, self._words(event)))
        return [(event, words) for event, words in found if words]

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
        self._note(event, words)
        before, self._open = "\n" if self._open else "", False
        return f"{before}{words}\n"

    def _close(self, event: Finished) -> str:
        """Return an agent's last words where its program reports them only at the turn's end."""
        words = self._parser.finish(0 if event.ok else 1).last_words
        told = self._text(Text(words)) if self._silent and words != self._last_words else ""
        self._silent, self._last_words = True, words
        return told

    def _text(self, event: Text) -> str:
        self._said = ((self._said if event.part else "") + event.text)[-_KEPT:]
        lines = [line for line in self._said.splitlines() if line.strip()]
        self._line = lines[-1] if lines else self._line
        before = "\n" if self._open and not event.part else ""
        self._open = not event.text.endswith("\n")
        return before + event.text

    def _note(self, event: Event, words: str) -> None:
        """Keep what the agent does; the end of a tool does not say what it does next."""
        if isinstance(event, ToolCall):
            self._line = call_words(event, self._folder)
        elif not isinstance(event, ToolResult):
            lines = words.strip().splitlines()
            self._line = lines[-1].removeprefix(TROUBLE) if lines else self._line

    def _words(self, event: Event) -> str:  # noqa: PLR0911  # one line per report reads best
        match event:
            case Started(model=model):
                return f"[starts{f' with {model}' if model else ''}]"
            case ToolCall(call_id=call):
                self._names[call] = call_words(event, self._folder)
                return call_words(event, self._folder, prompt=COMMAND)
            case ToolResult(call_id=call, ok=ok, exit_code=code, said=said):
                name = self._names.pop(call, "a tool")
                return "" if ok else _failed(name, code, said)
            case Denied(tool=tool):
                return f"{TROUBLE}not permitted: {tool}"
            case Retry(ending=ending, message=message):
                return f"{TROUBLE}asks again: {ending}{f', {message}' if message else ''}"
            case Limit(reached=True, window=window):
                return f"{TROUBLE}usage limit reached{f': {window}' if window else ''}"
            case Failed(ending=ending, message=message):
                return f"{TROUBLE}{ending}{f': {message}' if message else ''}"
            case UnknownEvent(kind="", line=line):
                if line.lstrip().startswith(b'{"'):
                    return "[a report that cannot be read]"
                return line.decode("utf-8", "replace")
            case _:
                return ""


def _failed(name: str, code: int | None, said: str) -> str:
    """Return a failure in lines, each marked."""
    head = f"failed{'' if code is None else f' with exit code {code}'}: {name}"
    lines = (line for line in said.splitlines() if line.strip())
    return "\n".join(f"{TROUBLE}{line}" for line in (head, *lines))
