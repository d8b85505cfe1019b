"""Gemini CLI: how it is started, and what its stream-json says.

Its traps: the exit code is the HTTP status cut to a byte; a broken stream and a loop exit 0; it
ignores signals to its own process; asked to end as a group it exits 0 in the middle of its turn.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, ClassVar

from runtime.agents import events as ev
from runtime.agents.adapter import Adapter, McpForm, McpWay, Stop, Target, When
from runtime.agents.outcome import LIMITED, Ending, Tokens, UsageScope
from runtime.agents.parsing import error_signs
from runtime.agents.parsing import fields as f
from runtime.agents.parsing.parser import NOTHING, Events, Handler, Parser
from runtime.agents.parsing.reset_times import reset_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runtime.agents.adapter import LaunchRequest

_HTTP = (400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529)
_BYTE = 0xFF
_API_ERROR = re.compile(r"^\[API Error: (.*?)\](?:\n.*)?$", re.DOTALL)
_TYPES = {
    "FatalTurnLimitedError": Ending.MAX_TURNS,
    "FatalAuthenticationError": Ending.AUTH,
    "FatalSandboxError": Ending.ENVIRONMENT,
    "FatalConfigError": Ending.ENVIRONMENT,
    "FatalCancellationError": Ending.KILLED,
    "TerminalQuotaError": Ending.QUOTA,
}
_BROKEN = re.compile(r"^(?:terminated|other side closed|aborted)$", re.IGNORECASE)
"""All that its HTTP client says of an answer that was cut off."""
_LOOP = "loop detected"
_ASSISTANT = b'"role":"assistant"'
_FORBIDDEN = "policy_violation"
_POLICY = b'"type":"policy_violation"'
_CALL = re.compile(rb'"tool_name":"([^"\\]+)","tool_id":"([^"\\]+)"')
_RESULT = re.compile(rb'"tool_id":"([^"\\]+)"')
_AUTO = "auto"
_DEFAULTS = "defaults.json"


def _exit_codes() -> dict[int, Ending]:
    told = {status & _BYTE: error_signs.by_status(status) for status in _HTTP}
    return {code: ending for code, ending in told.items() if ending is not None} | {
        41: Ending.AUTH,
        44: Ending.ENVIRONMENT,
        52: Ending.ENVIRONMENT,
        53: Ending.MAX_TURNS,
        130: Ending.KILLED,
    }


class GeminiParser(Parser):
    """Reads `--output-format stream-json`."""

    program = "gemini"
    login = "Run `gemini` and log in, or pass GEMINI_API_KEY on."
    exits = _exit_codes()

    _looped = False
    _texting = False

    def _glance(self, kind: bytes, line: bytes) -> bool:
        if kind == b"message":
            if _ASSISTANT in line:
                self._keep(line, part=self._texting)
                self._texting = True
            return True
        self._texting = False
        if kind == b"tool_use":
            return self._began(line)
        return kind == b"tool_result" and self._ended(line)

    def _began(self, line: bytes) -> bool:
        found = _CALL.search(line)
        if found is None:
            return False
        self._call(found[2].decode("utf-8", "replace"), found[1].decode("utf-8", "replace"))
        return True

    def _ended(self, line: bytes) -> bool:
        if self._stuck_on_denial or _POLICY in line:
            return False
        if (found := _RESULT.search(line)) is not None:
            self._open.pop(found[1].decode("utf-8", "replace"), None)
        self._progress(tool=True)
        return True

    def _words_of(self, fields: f.Fields) -> str:
        return f.text(fields, "content")

    def _read(self, kind: str, fields: f.Fields) -> Iterable[ev.Event] | None:
        found = super()._read(kind, fields)
        self._texting = kind == "message"
        if found is None and ("stats" in fields or "error" in fields):
            return self._whole(fields)
        return found

    def _init(self, fields: f.Fields) -> Events:
        return (ev.Started(f.text(fields, "session_id"), f.text(fields, "model")),)

    def _message(self, fields: f.Fields) -> Events:
        if f.text(fields, "role") != "assistant":
            return NOTHING
        return (ev.Text(f.text(fields, "content"), part=self._texting),)

    def _tool(self, fields: f.Fields) -> Events:
        name = f.text(fields, "tool_name")
        about = self._about(name, f.section(fields, "parameters"))
        return (ev.ToolCall(f.text(fields, "tool_id"), name, about=about),)

    def _tool_result(self, fields: f.Fields) -> Events:
        identity, kind = f.text(fields, "tool_id"), f.text(f.section(fields, "error"), "type")
        name = self._open.get(identity, "")
        ok = f.text(fields, "status") == "success"
        told = fields.get("output") or f.section(fields, "error").get("message")
        result = ev.ToolResult(identity, ok, said="" if ok else self._failure_of(told))
        return (result, ev.Denied(name or "a tool", identity)) if kind == _FORBIDDEN else (result,)

    def _error(self, fields: f.Fields) -> Events:
        message = f.text(fields, "message")
        if _LOOP in message.lower():
            self._looped = True
            return NOTHING
        if f.text(fields, "severity") == "warning":
            return NOTHING
        return (self._failed({"message": message}),)

    def _result(self, fields: f.Fields) -> Iterator[ev.Event]:
        stats = f.section(fields, "stats")
        if stats:
            yield ev.Usage(UsageScope.RUN, _tokens(stats))
            yield from self._busiest(stats)
        ok = f.text(fields, "status") == "success"
        error = f.section(fields, "error")
        if not ok and (error or self._failure is None):
            yield self._failed(error)
        yield ev.Finished(ok, "" if ok else f.text(error, "message"))

    def _whole(self, fields: f.Fields) -> Iterator[ev.Event]:
        """Read its other form of output, and how it tells of a failure there."""
        yield ev.Started(f.text(fields, "session_id"), "")
        if error := f.section(fields, "error"):
            yield self._failed(error)
            yield ev.Finished(ok=False)
            return
        yield ev.Text(f.text(fields, "response"))
        yield ev.Finished(ok=True)

    def _busiest(self, stats: f.Fields) -> Iterator[ev.Event]:
        """Name the model that did most, where the program chose by itself."""
        models = f.section(stats, "models")
        if self._model not in ("", _AUTO) or not models:
            return
        # The one that chooses among them comes first, and may have done as much.
        busy = max(
            reversed(models), key=lambda name: f.count(f.section(models, name), "total_tokens")
        )
        yield ev.Started("", busy)

    def _failed(self, error: f.Fields) -> ev.Failed:
        message = f.text(error, "message")
        inner = message
        if found := _API_ERROR.match(message):
            inner = found[1]  # what follows is advice, which speaks of quotas whatever happened
        body = f.section(f.parsed(inner) or {}, "error")
        words = f.text(body, "message") or inner
        status = f.number(body, "code") or f.number(error, "code")
        ending = _TYPES.get(f.text(error, "type")) or error_signs.judged(
            words, status, f.text(body, "status")
        )
        if ending is None and _BROKEN.match(words):
            return ev.Failed(
                Ending.NETWORK, f"the answer of the model was cut off: {words}", status
            )
        reset = None
        if ending in LIMITED:
            reset = reset_time(words, self._now(), self._zone)
        return ev.Failed(ending or Ending.ERROR, words, status, reset)

    def _judge(
        self, code: int | None, signal: int | None, stderr: str, ours: Ending | None
    ) -> tuple[Ending, str]:
        ending, detail = super()._judge(code, signal, stderr, ours)
        if ending is Ending.ERROR and code in self.exits:
            return self.exits[code], detail
        return ending, detail

    def _success(self, done: ev.Finished) -> tuple[Ending, str]:
        if self._looped:
            return Ending.LOOP, "it stopped by itself: it did the same again and again"
        return super()._success(done)

    def _quiet_end(self, stderr: str) -> tuple[Ending, str]:
        ending, detail = super()._quiet_end(stderr)
        if ending is Ending.CRASH:
            return Ending.KILLED, "it ended in the middle of its turn, as when told to end"
        return ending, detail

    handlers: ClassVar[Mapping[str, Handler]] = {
        "init": _init,
        "message": _message,
        "tool_use": _tool,
        "tool_result": _tool_result,
        "error": _error,
        "result": _result,
    }


def _tokens(stats: f.Fields) -> Tokens:
    models = f.section(stats, "models")
    thought = sum(f.count(f.section(models, name), "thoughts") for name in models)
    return Tokens(
        f.count(stats, "input_tokens"),
        f.count(stats, "output_tokens"),
        f.count(stats, "cached"),
        thought,
        f.count(stats, "total_tokens"),
    )


def _settings(request: LaunchRequest) -> dict[str, object]:
    settings: dict[str, object] = {}
    if request.private_config:
        settings["security"] = {"auth": {"selectedType": "gemini-api-key"}}
    if request.max_turns is not None:
        settings["model"] = {"maxSessionTurns": request.max_turns}
    if (server := request.mcp) is not None:
        entry = {"command": server.command[0], "args": list(server.command[1:]), "trust": True}
        settings["mcpServers"] = {server.name: entry | {"env": dict(server.env)}}
    return settings


def _files(request: LaunchRequest) -> dict[str, str]:
    """Return our settings where they would be read.

    Beside a user's own settings it takes more only from a file that root owns, in folders that root
    alone may write to. Anybody else's is passed over in silence, so it is not written.
    """
    settings = _settings(request)
    if not settings or not (request.private_config or request.as_root):
        return {}
    path = ".gemini/settings.json" if request.private_config else _DEFAULTS
    return {path: json.dumps(settings)}


def _env(request: LaunchRequest) -> dict[str, str]:
    """Name our file as the lowest layer of settings: the user's and the machine's stay above."""
    if _DEFAULTS not in _files(request):
        return {}
    return {"GEMINI_CLI_SYSTEM_DEFAULTS_PATH": f"{request.config_folder}/{_DEFAULTS}"}


ADAPTER = Adapter(
    name="gemini",
    title="Gemini CLI",
    parser=GeminiParser,
    tested=("0.61.0",),
    programs=("gemini",),
    argv=(
        *("--output-format", "stream-json"),
        When("unattended", ("--yolo",)),
        When("model", ("-m", "{model}")),
        When("resume", ("--resume", "{resume}")),
        When("session_id", ("--session-id", "{session_id}")),
    ),
    env={"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"},
    config_env={"GEMINI_CLI_HOME": "{config_folder}"},
    passes=("GEMINI_CLI_HOME", "GOOGLE_CLOUD_PROJECT"),
    keys=(
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
        *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS"),
    ),
    files=_files,
    settings_env=_env,
    mcp=McpForm(way=McpWay.FILE, tool="mcp_{server}_{tool}"),
    tells_tokens=True,
    input_holds_cached=True,
    hides_git_settings=True,
    stop=Stop(("TERM",), Target.GROUP, grace=2.0),
    login=GeminiParser.login,
    install="npm install -g @google/gemini-cli",
)
