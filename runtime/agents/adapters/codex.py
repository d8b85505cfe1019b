"""Codex: how it is started, and what `codex exec --json` says.

Its traps: an error is only known by its words; an `error` event is not the end; usage counts the
whole thread after a resume; reset times are local times without a date; it waits for ever without
network and under a long Retry-After; an interrupt looks like a failure with exit code 1.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, ClassVar

from runtime.agents import events as ev
from runtime.agents.adapter import SERVER_ARGS, Adapter, McpForm, McpServer, McpWay, Stop, When
from runtime.agents.outcome import LIMITED, Ending, Tokens, UsageScope
from runtime.agents.parsing import error_signs, tool_calls
from runtime.agents.parsing import fields as f
from runtime.agents.parsing.parser import NOTHING, Events, Handler, Parser
from runtime.agents.parsing.reset_times import reset_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.agents.adapter import LaunchRequest

_AGAIN = re.compile(r"Reconnecting\.\.\. (?:(\d{1,6})/(\d{1,6})\b)?")
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
_FORBIDDEN = re.compile(rb"ERROR codex_core::tools::router: .*\bRejected\(")
"""A command that a rule of the user forbids: no event tells of it, only its own log."""
_STRAY = 1000
_ROOM = 4000
"""Characters of a message that are looked at for what stands at its end."""
_ADDRESS = re.compile(r",? url: https?://\S+(?:, [\w-]+(?: id)?: \S+)*$")
_NOT_TOOLS = frozenset({"agent_message", "reasoning", "error", "todo_list", "plan"})
_BIG = (b"command_execution", b"mcp_tool_call")
_DECLINED = b'"status":"declined"'
_ITEM = re.compile(rb'\{"type":"item\.\w+","item":\{"id":"(\w+)","type":"(\w+)"')


class CodexParser(Parser):
    """Reads `codex exec --json`."""

    program = "codex"
    login = "Run `codex login`, or pass CODEX_API_KEY on."
    quiet = frozenset({b"item.updated"})

    def _glance(self, kind: bytes, line: bytes) -> bool:
        item = _ITEM.match(line)
        if item is None:
            return False
        if item[2] == b"agent_message" and kind == b"item.completed":
            self._keep(line)
            return True
        if item[2] not in _BIG or _DECLINED in line or self._stuck_on_denial:
            return False
        identity = item[1].decode("utf-8", "replace")
        if kind == b"item.started":
            self._call(identity)
            return True
        known = self._open.pop(identity, None) is not None
        self._progress(tool=True)
        return known

    def _words_of(self, fields: f.Fields) -> str:
        return f.text(f.section(fields, "item"), "text")

    def _odd(self, line: bytes) -> Events:
        if not _FORBIDDEN.search(line[:_STRAY]):
            return super()._odd(line)
        denied = ev.Denied("command_execution")
        self._note(denied)
        return (denied,)

    def _thread(self, fields: f.Fields) -> Events:
        return (ev.Started(f.text(fields, "thread_id"), ""),)

    def _turn(self, fields: f.Fields) -> Events:
        del fields
        self._final = None
        return NOTHING

    def _turn_done(self, fields: f.Fields) -> Events:
        return (
            ev.Usage(UsageScope.SESSION, _tokens(f.section(fields, "usage"))),
            ev.Finished(ok=True),
        )

    def _turn_failed(self, fields: f.Fields) -> Events:
        failed = self._failed(f.text(f.section(fields, "error"), "message"))
        return (failed, ev.Finished(ok=False, reason=failed.message))

    def _error(self, fields: f.Fields) -> Events:
        message = f.text(fields, "message")
        again = _AGAIN.match(message)
        if again is None:
            return (self._failed(message),)
        ending = _class_of(message[again.end() :]) or Ending.NETWORK
        return (ev.Retry(ending, message, int(again[1] or 0), int(again[2] or 0)),)

    def _failed(self, message: str) -> ev.Failed:
        ending = _class_of(message) or Ending.ERROR
        reset = reset_time(message, self._now(), self._zone) if ending in LIMITED else None
        return ev.Failed(ending, _worded(message), _status(message), reset)

    def _item_started(self, fields: f.Fields) -> Events:
        item = f.section(fields, "item")
        kind = f.text(item, "type")
        if kind in _NOT_TOOLS:
            return NOTHING
        return (self._call_of(kind, item),)

    def _item_completed(self, fields: f.Fields) -> Events:
        item = f.section(fields, "item")
        kind, identity = f.text(item, "type"), f.text(item, "id")
        if kind == "agent_message":
            return (ev.Text(f.text(item, "text")),)
        if kind in _NOT_TOOLS:
            return NOTHING
        code = f.number(item, "exit_code")
        ok = f.text(item, "status") not in ("failed", "declined") and code in (None, 0)
        said = "" if ok else self._failure_of(item.get("aggregated_output"))
        result = ev.ToolResult(identity, ok, code, said)
        denied = (ev.Denied(_tool_name(kind, item), identity),)
        results = (result, *denied) if f.text(item, "status") == "declined" else (result,)
        # Some tools, such as changes of files, are only told when they are done.
        known = identity in self._open
        return results if known else (self._call_of(kind, item), *results)

    def _call_of(self, kind: str, item: f.Fields) -> ev.ToolCall:
        name, given = _tool_name(kind, item), f.section(item, "arguments") or item
        about = self._about(kind, given)
        if not about and (paths := [f.text(each, "path") for each in f.sections(item, "changes")]):
            about = tool_calls.of_files(paths) if self._live else ""
        return ev.ToolCall(f.text(item, "id"), name, about=about)

    def _unexplained(self, code: int, line: str) -> tuple[Ending, str]:
        if code == 1 and self._open and self._final is None:
            return Ending.KILLED, "it ended while a tool ran, as on an interrupt"
        return super()._unexplained(code, line)

    handlers: ClassVar[Mapping[str, Handler]] = {
        "thread.started": _thread,
        "turn.started": _turn,
        "turn.completed": _turn_done,
        "turn.failed": _turn_failed,
        "error": _error,
        "item.started": _item_started,
        "item.completed": _item_completed,
    }


def _class_of(message: str) -> Ending | None:
    body = f.parsed(message) or {}
    error = f.section(body, "error")
    code = f.text(error, "code") or f.text(error, "type")
    return error_signs.judged(f.text(error, "message") or message, _status(message), code)


def _worded(message: str) -> str:
    """Return the words of a body of JSON; others without the address and ids at their end."""
    told = f.text(f.section(f.parsed(message) or {}, "error"), "message")
    return told or _ADDRESS.sub("", message[:_ROOM])


def _status(message: str) -> int | None:
    found = _STATUS.search(message)
    return int(found[1]) if found else None


def _tool_name(kind: str, item: f.Fields) -> str:
    if kind == "mcp_tool_call":
        return f"{f.text(item, 'server')}.{f.text(item, 'tool')}"
    return kind


def _tokens(usage: Mapping[str, object]) -> Tokens:
    fields = dict(usage)
    read, written = f.count(fields, "input_tokens"), f.count(fields, "output_tokens")
    cached, thought = (
        f.count(fields, "cached_input_tokens"),
        f.count(fields, "reasoning_output_tokens"),
    )
    return Tokens(read, written, cached, thought, read + written)


def _server_args(server: McpServer, request: LaunchRequest) -> tuple[str, ...]:
    """Return settings in TOML, of which JSON's strings and lists are a part.

    `required` makes it wait for a server that is slow to start, instead of leaving it out.
    """
    del request
    base = f"mcp_servers.{server.name}"
    settings = {
        "command": json.dumps(server.command[0]),
        "args": json.dumps(list(server.command[1:])),
        "required": "true",
        **{f"env.{name}": json.dumps(value) for name, value in server.env.items()},
    }
    return tuple(
        part for key, value in settings.items() for part in ("-c", f"{base}.{key}={value}")
    )


ADAPTER = Adapter(
    name="codex",
    title="Codex",
    parser=CodexParser,
    tested=("0.169.0",),
    programs=("codex",),
    argv=(
        "exec",
        When("resume", ("resume", "{resume}")),
        *("--json", "--skip-git-repo-check"),
        When("unattended", ("--dangerously-bypass-approvals-and-sandbox",)),
        When("model", ("-m", "{model}")),
        SERVER_ARGS,
        "-",
    ),
    config_env={"CODEX_HOME": "{config_folder}"},
    passes=("CODEX_HOME",),
    keys=("CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    mcp=McpForm(way=McpWay.ARGV, tool="mcp__{server}__{tool}", argv=_server_args),
    tells_tokens=True,
    input_holds_cached=True,
    stop=Stop(("TERM",), grace=2.0),
    login=CodexParser.login,
    install="npm install -g @openai/codex",
)
