"""Claude Code: how it is started, and what its stream-json says.

Its traps: `subtype` is "success" on API errors; one answer comes as several events with the same
message id; money counts the session after a resume; what runs in the background wakes it for a
further turn, which ends with a result of its own; an interrupt exits 0; tools of a server are
hidden behind a search unless that is turned off.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar

from runtime.agents import events as ev
from runtime.agents.adapter import SERVER_ARGS, Adapter, McpForm, McpServer, McpWay, Stop, When
from runtime.agents.outcome import Ending, Tokens, UsageScope
from runtime.agents.parsing import error_signs
from runtime.agents.parsing import fields as f
from runtime.agents.parsing.parser import NOTHING, Events, Handler, Parser
from runtime.agents.parsing.reset_times import epoch, reset_time
from runtime.agents.parsing.run_totals import ID, OPEN, added

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runtime.agents.adapter import LaunchRequest

_REASONS = {
    "prompt_too_long": Ending.CONTEXT_OVERFLOW,
    "max_turns": Ending.MAX_TURNS,
    "budget_exhausted": Ending.BUDGET,
    "aborted_streaming": Ending.KILLED,
    "aborted_tools": Ending.KILLED,
}
_SUBTYPES = {"error_max_turns": Ending.MAX_TURNS, "error_max_budget_usd": Ending.BUDGET}
_SILENT = frozenset(
    {
        *("task_progress", "task_updated", "background_tasks_changed"),
        *("status", "notification", "compact_boundary"),
    }
)
_ASLEEP = "ScheduleWakeup"
_TOOL_USE = b'"type":"tool_use"'
_ERROR = b'"is_api_error_message":true'
_MAIN = b'"parent_tool_use_id":null'
_SERVERS = "mcp-servers.json"


class ClaudeParser(Parser):
    """Reads `--output-format stream-json --verbose`."""

    program = "claude"
    login = "Run `claude` and log in, or `claude setup-token`, or pass ANTHROPIC_API_KEY on."
    quiet = frozenset({b"stream_event", b"keep_alive", b"control_request", b"control_response"})

    _message = ""
    _last_call = ""
    _asleep = False
    _within = False
    """Whether the event at hand is of an agent that this one started."""
    _so_far: ev.Usage | None = None
    """What all turns until the latest result used."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # the very arguments of Parser
        self._background: dict[str, None] = {}

    @property
    def tools_running(self) -> int:
        """How many tools have begun and not ended, those in the background included."""
        return len(self._open.keys() | self._background.keys())

    @property
    def waits(self) -> bool:
        """Whether it is woken: by its own work in the background, or later."""
        return self._asleep or super().waits

    def _go_on(self) -> None:
        if not self._within:  # those continue while it waits for them, its turn being over
            super()._go_on()

    def _glance(self, kind: bytes, line: bytes) -> bool:
        if kind == b"user":
            if self._stuck_on_denial:
                return False
            self._progress(tool=True)
            return True
        if kind == b"assistant" and _TOOL_USE not in line and _ERROR not in line:
            if not self._message or self._message.encode("utf-8", "replace") not in line[:200]:
                return False  # the first of an answer; it has the usage
            if _MAIN in line:
                self._within = False
                self._keep(line)
            return True
        return False

    def _words_of(self, fields: f.Fields) -> str:
        return "".join(
            f.text(block, "text") for block in f.sections(f.section(fields, "message"), "content")
        )

    def _limit(self, fields: f.Fields) -> Events:
        info = f.section(fields, "rate_limit_info")
        reached = f.text(info, "status") == "rejected"
        until, used = epoch(f.amount(info, "resetsAt")), f.amount(info, "utilization")
        return (ev.Limit(reached, until, f.text(info, "rateLimitType"), used),)

    def _system(self, fields: f.Fields) -> Events | None:
        subtype = f.text(fields, "subtype")
        match subtype:
            case "init":
                self._asleep = self._within = False
                return (ev.Started(f.text(fields, "session_id"), f.text(fields, "model")),)
            case "api_retry":
                return (_retry(fields),)
            case "permission_denied":
                return (ev.Denied(f.text(fields, "tool_name"), f.text(fields, "tool_use_id")),)
            case "task_started" | "task_notification":
                return self._task(subtype, fields)
            case "background_tasks_changed" if fields.get("tasks") == []:
                self._background.clear()
        known = subtype in _SILENT or subtype.startswith("hook_")
        return NOTHING if known else None

    def _task(self, subtype: str, fields: f.Fields) -> Events:
        identity = f.text(fields, "tool_use_id")
        if subtype == "task_notification":
            self._background.pop(identity, None)
        elif fields.get("is_backgrounded") is True:
            self._send_behind(identity)
        return NOTHING

    def _send_behind(self, identity: str) -> None:
        if len(identity) <= ID and len(self._background) < OPEN:
            self._background[identity] = None

    def _assistant(self, fields: f.Fields) -> Iterator[ev.Event]:
        message = f.section(fields, "message")
        self._within = bool(f.text(fields, "parent_tool_use_id"))
        if fields.get("is_api_error_message") is True:
            yield self._api_error(fields, self._words_of(fields))
            return
        identity = f.text(message, "id")
        if (usage := f.section(message, "usage")) and (not identity or identity != self._message):
            self._message = identity
            yield ev.Usage(UsageScope.STEP, tokens_of(usage))
        for block in f.sections(message, "content"):
            kind = f.text(block, "type")
            if kind == "text" and not self._within:
                yield ev.Text(f.text(block, "text"))
            elif kind == "tool_use":
                yield self._tool(block)

    def _tool(self, block: f.Fields) -> ev.ToolCall:
        name, identity = f.text(block, "name"), f.text(block, "id")
        given = f.section(block, "input")
        behind = given.get("run_in_background") is True
        if behind:
            self._send_behind(identity)
        self._asleep, self._last_call = name == _ASLEEP, identity
        return ev.ToolCall(identity, name, behind, self._about(name, given))

    def _results(self, fields: f.Fields) -> Iterator[ev.Event]:
        for block in f.sections(f.section(fields, "message"), "content"):
            if f.text(block, "type") == "tool_result":
                ok = block.get("is_error") is not True
                if not ok:
                    self._background.pop(f.text(block, "tool_use_id"), None)
                said = "" if ok else self._failure_of(block.get("content"))
                yield ev.ToolResult(f.text(block, "tool_use_id"), ok, said=said)

    def _api_error(self, fields: f.Fields, message: str) -> ev.Failed:
        ending = _class_of(
            f.text(fields, "error"),
            f.number(fields, "api_error_status"),
            f.text(fields, "api_error") or f.text(fields, "api_error_type"),
            message,
        )
        info = f.section(fields, "api_error_params", "rate_limit_info")
        reset = epoch(f.amount(info, "resetsAt")) or reset_time(message, self._now(), self._zone)
        return ev.Failed(
            ending or Ending.ERROR, message, f.number(fields, "api_error_status"), reset
        )

    def _result(self, fields: f.Fields) -> Iterator[ev.Event]:
        for denial in f.sections(fields, "permission_denials"):
            tool, identity = f.text(denial, "tool_name"), f.text(denial, "tool_use_id")
            if identity not in self._denied and identity == self._last_call:
                yield ev.Denied(tool, identity)
            self._remember_denied(identity, tool)
        for usage in usages(fields):
            yield self._since_the_start(usage)
        reason = f.text(fields, "terminal_reason")
        subtype = f.text(fields, "subtype")
        ok = fields.get("is_error") is not True and not subtype.startswith("error")
        if ok and f.text(fields, "result"):
            self._say(ev.Text(f.text(fields, "result")))  # it was an event before
        if not ok and (failure := self._final_failure(fields, reason, subtype)) is not None:
            yield failure
        elif ok and f.text(fields, "stop_reason") == "refusal":
            ok = False
            yield ev.Failed(Ending.REFUSED, "the model refused")
        yield ev.Finished(ok, "" if ok else reason or subtype)

    def _since_the_start(self, usage: ev.Usage) -> ev.Usage:
        """Add up what results tell: each counts from the one before it, but for a session's."""
        if usage.scope is not UsageScope.RUN:
            return usage
        self._so_far = usage if self._so_far is None else added(self._so_far, usage)
        return self._so_far

    def _final_failure(self, fields: f.Fields, reason: str, subtype: str) -> ev.Failed | None:
        """Return what the last event says more than the error before it."""
        errors = fields.get("errors")
        told = (
            [each for each in errors if isinstance(each, str)] if isinstance(errors, list) else []
        )
        message = f.text(fields, "result") or "; ".join(told)
        ending = _REASONS.get(reason) or _SUBTYPES.get(subtype)
        if ending is not None:
            return ev.Failed(ending, message)
        if self._failure is not None:
            return None
        if subtype == "error_during_execution" and reason == "completed":
            return ev.Failed(Ending.NETWORK, f"the answer of the model was cut off: {message}")
        return self._api_error(fields, message)

    def _success(self, done: ev.Finished) -> tuple[Ending, str]:
        ending, detail = super()._success(done)
        if ending is Ending.COMPLETED and self._background:
            return (
                Ending.WAITING,
                "it ended its turn while work of its own ran in the background",
            )
        if ending is Ending.COMPLETED and self._asleep:
            return Ending.WAITING, "it ended its turn to be woken later"
        return ending, detail

    handlers: ClassVar[Mapping[str, Handler]] = {
        "assistant": _assistant,
        "user": _results,
        "result": _result,
        "system": _system,
        "rate_limit_event": _limit,
    }


def _retry(fields: f.Fields) -> ev.Retry:
    error, status = f.text(fields, "error"), f.number(fields, "error_status")
    delay = f.amount(fields, "retry_delay_ms")
    return ev.Retry(
        _class_of(error, status, "", "") or Ending.NETWORK,
        f"{error} {status or ''}".strip(),
        f.count(fields, "attempt"),
        f.count(fields, "max_retries"),
        None if delay is None else delay / 1000,
    )


def _class_of(error: str, status: int | None, api_error: str, message: str) -> Ending | None:
    if error == "server_error" and status is None:
        # Its word for everything that is not the caller's fault, the way to the server included.
        return error_signs.CODES.get(api_error) or error_signs.by_words(message) or Ending.NETWORK
    known = error_signs.CODES.get(error.lower()) or error_signs.CODES.get(api_error.lower())
    return known or error_signs.judged(message, status, error)


def _files(request: LaunchRequest) -> dict[str, str]:
    if request.mcp is None:
        return {}
    server = request.mcp
    entry = {
        "type": "stdio",
        "command": server.command[0],
        "args": list(server.command[1:]),
        "env": dict(server.env),
    }
    return {_SERVERS: json.dumps({"mcpServers": {server.name: entry}})}


def _server_args(server: McpServer, request: LaunchRequest) -> tuple[str, ...]:
    del server
    return ("--mcp-config", f"{request.config_folder}/{_SERVERS}", "--strict-mcp-config")


ADAPTER = Adapter(
    name="claude",
    title="Claude Code",
    parser=ClaudeParser,
    tested=("2.1.326",),
    programs=("claude",),
    version_pattern=r"(\d+\.\d+\.\d+\S*)",
    argv=(
        "-p",
        *("--output-format", "stream-json", "--verbose"),
        When("unattended", ("--dangerously-skip-permissions",)),
        When("model", ("--model", "{model}")),
        When("resume", ("--resume", "{resume}")),
        When("session_id", ("--session-id", "{session_id}")),
        When("max_turns", ("--max-turns", "{max_turns}")),
        SERVER_ARGS,
    ),
    env={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
    root_env={"IS_SANDBOX": "1"},
    config_env={"CLAUDE_CONFIG_DIR": "{config_folder}"},
    passes=("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"),
    keys=(
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
        *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
    ),
    files=_files,
    mcp=McpForm(
        way=McpWay.FILE,
        tool="mcp__{server}__{tool}",
        argv=_server_args,
        env={"ENABLE_TOOL_SEARCH": "false"},
    ),
    tells_tokens=True,
    tells_cost=True,
    stop=Stop(("TERM",), grace=2.0),
    login=ClaudeParser.login,
    install="npm install -g @anthropic-ai/claude-code",
)


def tokens_of(usage: Mapping[str, object]) -> Tokens:
    """Return what one answer took, as the provider counts it."""
    fields = dict(usage)
    read = f.count(fields, "cache_read_input_tokens")
    made = f.count(fields, "cache_creation_input_tokens")
    plain, out = f.count(fields, "input_tokens"), f.count(fields, "output_tokens")
    thought = f.count(f.section(fields, "output_tokens_details"), "thinking_tokens")
    return Tokens(plain, out, read, thought, plain + out + read + made)


def usages(fields: f.Fields) -> Iterator[ev.Usage]:
    """Return what was used and cost since the result before; of older ones the session's cost."""
    since = fields.get("model_usage_since_last_result")
    if isinstance(since, dict):
        per_model = [each for each in since.values() if isinstance(each, dict)]
        tokens = sum((_of_model(each) for each in per_model), Tokens())
        yield ev.Usage(
            UsageScope.RUN, tokens, sum(f.amount(each, "costUSD") or 0.0 for each in per_model)
        )
        return
    if usage := f.section(fields, "usage"):
        yield ev.Usage(UsageScope.RUN, tokens_of(usage))
    if (cost := f.amount(fields, "total_cost_usd")) is not None:
        yield ev.Usage(UsageScope.SESSION, None, cost)


def _of_model(each: f.Fields) -> Tokens:
    plain, out = f.count(each, "inputTokens"), f.count(each, "outputTokens")
    read, made = f.count(each, "cacheReadInputTokens"), f.count(each, "cacheCreationInputTokens")
    return Tokens(plain, out, read, f.count(each, "thinkingTokens"), plain + out + read + made)
