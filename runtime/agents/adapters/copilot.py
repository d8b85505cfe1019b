"""Copilot CLI: how it is started, and what its JSON says.

Its traps: signals end only its launcher, the real process and its tools live on; it reports no
tokens at the end; it has its own exit code in the last event.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from runtime.agents import events as ev
from runtime.agents.adapter import (
    SERVER_ARGS,
    Adapter,
    McpForm,
    McpServer,
    McpWay,
    Stop,
    Target,
    When,
)
from runtime.agents.outcome import LIMITED, Ending, Tokens, UsageScope
from runtime.agents.parsing import error_signs
from runtime.agents.parsing import fields as f
from runtime.agents.parsing.parser import NOTHING, Events, Handler, Parser
from runtime.agents.parsing.reset_times import reset_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.agents.adapter import LaunchRequest

_SERVERS = "mcp-config.json"
_REASONS = {
    "rate_limit": Ending.RATE_LIMIT,
    "transient_auth_error": Ending.AUTH,
    "forced_compaction": Ending.CONTEXT_OVERFLOW,
}


class CopilotParser(Parser):
    """Reads `--output-format json`."""

    program = "copilot"
    login = "Run `copilot` and `/login`, or pass COPILOT_GITHUB_TOKEN on."
    quiet = frozenset(
        {
            *(b"session.skills_loaded", b"session.mcp_servers_loaded", b"session.info"),
            *(b"session.background_tasks_changed", b"user.message", b"assistant.idle"),
            *(b"assistant.turn_start", b"assistant.turn_end", b"assistant.message_start"),
            *(b"assistant.message_delta", b"assistant.reasoning", b"assistant.reasoning_delta"),
            *(b"assistant.tool_call_delta", b"model.call_start", b"model.call_finished"),
            *(b"model.call_final_result", b"tool.shell_output", b"tool.execution_partial_result"),
        }
    )

    _status: int | None = None
    _last_error = ""

    def _glance(self, kind: bytes, line: bytes) -> bool:
        del line
        if kind == b"tool.execution_start":
            self._call()
        elif kind == b"tool.execution_complete":
            self._progress(tool=True)
        return kind in (b"tool.execution_start", b"tool.execution_complete")

    def _session_started(self, fields: f.Fields) -> Events:
        data = f.section(fields, "data")
        return (ev.Started(f.text(data, "sessionId"), f.text(data, "selectedModel")),)

    def _tools_updated(self, fields: f.Fields) -> Events:
        return (ev.Started("", f.text(f.section(fields, "data"), "model")),)

    def _message(self, fields: f.Fields) -> Events:
        said = f.text(f.section(fields, "data"), "content")
        return (ev.Text(said),) if said else NOTHING

    def _used_some(self, fields: f.Fields) -> Events:
        return (ev.Usage(UsageScope.STEP, _tokens(f.section(fields, "data"))),)

    def _tool(self, fields: f.Fields) -> Events:
        data = f.section(fields, "data")
        name = f.text(data, "toolName")
        about = self._about(name, f.section(data, "arguments"))
        return (ev.ToolCall(f.text(data, "toolCallId"), name, about=about),)

    def _tool_done(self, fields: f.Fields) -> Events:
        data = f.section(fields, "data")
        code = f.number(f.section(data, "shellExecution"), "exitCode")
        ok = data.get("success") is True
        told = f.text(f.section(data, "result"), "content") or f.section(data, "error").get(
            "message"
        )
        said = "" if ok and not code else self._failure_of(told)
        return (ev.ToolResult(f.text(data, "toolCallId"), ok, code, said),)

    def _call_failed(self, fields: f.Fields) -> Events:
        data = f.section(fields, "data")
        self._status = f.number(data, "statusCode")
        self._last_error = f.text(data, "errorMessage")
        return NOTHING

    def _again(self, fields: f.Fields) -> Events:
        reason = f.text(f.section(fields, "data"), "reason")
        return (ev.Retry(_REASONS.get(reason) or self._last() or Ending.NETWORK, reason),)

    def _error(self, fields: f.Fields) -> Events:
        return (self._failed(f.section(fields, "data")),)

    def _result(self, fields: f.Fields) -> Events:
        ok = f.number(fields, "exitCode") == 0
        return (ev.Started(f.text(fields, "sessionId"), ""), ev.Finished(ok))

    def _last(self) -> Ending | None:
        """Judge the last failed request."""
        body = f.parsed(self._last_error) or {}
        code = f.text(body, "code") or f.text(body, "type")
        return error_signs.judged(f.text(body, "message") or self._last_error, self._status, code)

    def _failed(self, data: f.Fields) -> ev.Failed:
        message, kind = f.text(data, "message"), f.text(data, "errorType")
        status = f.number(data, "statusCode") or self._status
        last = self._last()
        # What the provider said tells a used-up quota from a limit that passes.
        precise = last in (Ending.QUOTA, Ending.BILLING, Ending.CONTEXT_OVERFLOW)
        ending = last if precise else error_signs.judged(message, status, kind) or last
        reset = reset_time(message, self._now(), self._zone) if ending in LIMITED else None
        return ev.Failed(ending or Ending.ERROR, message, status, reset)

    handlers: ClassVar[Mapping[str, Handler]] = {
        "session.start": _session_started,
        "session.resume": _session_started,
        "session.tools_updated": _tools_updated,
        "assistant.message": _message,
        "assistant.usage": _used_some,
        "assistant.turn_retry": _again,
        "model.call_failure": _call_failed,
        "session.error": _error,
        "tool.execution_start": _tool,
        "tool.execution_complete": _tool_done,
        "result": _result,
    }


def _tokens(data: f.Fields) -> Tokens:
    read, out = f.count(data, "inputTokens"), f.count(data, "outputTokens")
    return Tokens(read, out, f.count(data, "cacheReadTokens"), 0, read + out)


def _files(request: LaunchRequest) -> dict[str, str]:
    if (server := request.mcp) is None:
        return {}
    entry = {
        "type": "local",
        "command": server.command[0],
        "args": list(server.command[1:]),
        "env": dict(server.env),
        "tools": ["*"],
    }
    return {_SERVERS: json.dumps({"mcpServers": {server.name: entry}})}


def _server_args(server: McpServer, request: LaunchRequest) -> tuple[str, ...]:
    del server
    return ("--additional-mcp-config", f"@{request.config_folder}/{_SERVERS}")


ADAPTER = Adapter(
    name="copilot",
    title="Copilot CLI",
    parser=CopilotParser,
    tested=("1.0.102",),
    programs=("copilot",),
    argv=(
        *("--no-color", "--output-format", "json"),
        When("unattended", ("--allow-all",)),
        When("model", ("--model", "{model}")),
        When("resume", ("--resume", "{resume}")),
        SERVER_ARGS,
    ),
    config_env={"XDG_CONFIG_HOME": "{config_folder}", "XDG_STATE_HOME": "{config_folder}/state"},
    passes=("COPILOT_GITHUB_TOKEN", "COPILOT_MODEL"),
    keys=(
        *("GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_TYPE"),
        *("COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN", "COPILOT_OFFLINE"),
    ),
    files=_files,
    mcp=McpForm(way=McpWay.FILE, tool="{server}-{tool}", argv=_server_args),
    stop=Stop(("TERM",), Target.GROUP, grace=2.0),
    login=CopilotParser.login,
    install="npm install -g @github/copilot",
)
