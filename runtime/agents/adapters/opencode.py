"""OpenCode: how it is started, and what `opencode run --format json` says.

Its traps: there is no last event, the end is the exit; tokens and money come per step; a full
context and a broken stream are tried again for ever, with text of its own in between; a refused
permission is told on standard error alone and exits 0; it hears neither INT nor HUP; while it tries
again, or waits as long as a provider asks, only its own log tells, so that is asked for.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, ClassVar

from runtime.agents import events as ev
from runtime.agents.adapter import Adapter, McpForm, McpWay, Stop, When
from runtime.agents.outcome import LIMITED, Ending, Tokens, UsageScope
from runtime.agents.parsing import error_signs
from runtime.agents.parsing import fields as f
from runtime.agents.parsing.parser import NOTHING, Events, Handler, Parser
from runtime.agents.parsing.reset_times import epoch, reset_time, retry_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runtime.agents.adapter import LaunchRequest

_NAMES = {
    "ContextOverflowError": Ending.CONTEXT_OVERFLOW,
    "ProviderAuthError": Ending.AUTH,
    "ProviderModelNotFoundError": Ending.MODEL,
    "MessageAbortedError": Ending.KILLED,
}
_REFUSALS = re.compile(r"permission requested|auto-?reject|rejected permission", re.IGNORECASE)
_REJECTED = re.compile(r"rejected permission|a rule which prevents you from using")
_LOG_HEAD = re.compile(rb"timestamp=\S{1,40} level=ERROR ")
_LOG_SAID = b'error.error="'
_LOG_CLASS = re.compile(r"AI_\w{1,60}: ")
_LOG_SIGNS = (b'message="stream error"', b" small=false ")
"""A request for the work itself failed. Those for titles and summaries are `small`."""
_OVERFLOWS = 3
"""Full contexts in a row after which shortening it is seen not to help."""
_MORE = "tool-calls"
_THOUSAND = 1000.0


class OpencodeParser(Parser):
    """Reads `--format json`."""

    program = "opencode"
    login = "Run `opencode auth login`, or pass the provider's key on."
    quiet = frozenset({b"reasoning"})

    _reason = ""
    _overflows = 0

    def _glance(self, kind: bytes, line: bytes) -> bool:
        if kind == b"text" and self._session:
            if b'"synthetic":true' not in line:
                self._keep(line)
            return True
        if kind == b"tool_use" and self._session and b'"status":"completed"' in line:
            if self._stuck_on_denial:
                return False
            self._call()
            return True
        return False

    def _words_of(self, fields: f.Fields) -> str:
        return f.text(f.section(fields, "part"), "text")

    def _read(self, kind: str, fields: f.Fields) -> Iterable[ev.Event] | None:
        found = super()._read(kind, fields)
        session = f.text(fields, "sessionID")
        if found is None or self._session or not session:
            return found
        return (ev.Started(session, ""), *found)

    def _step(self, fields: f.Fields) -> Events:
        del fields
        self._reason = ""
        return NOTHING

    def _text(self, fields: f.Fields) -> Events:
        part = f.section(fields, "part")
        return NOTHING if part.get("synthetic") is True else (ev.Text(f.text(part, "text")),)

    def _tool(self, fields: f.Fields) -> Events:
        part = f.section(fields, "part")
        state = f.section(part, "state")
        code = f.number(f.section(state, "metadata"), "exit")
        ok = f.text(state, "status") == "completed" and code in (None, 0)
        identity, name = f.text(part, "callID"), f.text(part, "tool")
        about = self._about(name, f.section(state, "input"))
        told = f.text(state, "output") or f.text(state, "error")
        said = "" if ok else self._failure_of(told)
        call = ev.ToolCall(identity, name, about=about)
        found = (call, ev.ToolResult(identity, ok, code, said))
        if f.text(state, "status") == "error" and _REJECTED.search(f.text(state, "error")):
            return (*found, ev.Denied(name, identity))
        return found

    def _step_done(self, fields: f.Fields) -> Events:
        part = f.section(fields, "part")
        self._reason = f.text(part, "reason")
        return (ev.Usage(UsageScope.STEP, _tokens(part), f.amount(part, "cost")),)

    def _odd(self, line: bytes) -> Events:
        message = _logged(line.rstrip())
        if not message:
            return super()._odd(line)
        retry = ev.Retry(error_signs.judged(message) or Ending.NETWORK, message)
        self._note(retry)
        return (retry,)

    def _error(self, fields: f.Fields) -> Events:
        self._reason = ""
        failed = self._failed(f.section(fields, "error"), fields)
        if failed.ending is not Ending.CONTEXT_OVERFLOW:
            return (failed,)
        again = self._trouble is not None and self._trouble.ending is failed.ending
        self._overflows = self._overflows + 1 if again else 1
        if self._overflows < _OVERFLOWS:
            return (failed,)
        return (failed, ev.Retry(failed.ending, failed.message, self._overflows))

    def _failed(self, error: f.Fields, fields: f.Fields) -> ev.Failed:
        data = f.section(error, "data")
        message = f.text(data, "message") or f.text(error, "name")
        body = f.section(f.parsed(f.text(data, "responseBody")) or {}, "error")
        status = f.number(data, "statusCode")
        code = f.text(body, "code") or f.text(body, "type")
        ending = _NAMES.get(f.text(error, "name")) or error_signs.judged(message, status, code)
        if ending is None and data.get("isRetryable") is True:
            ending = Ending.NETWORK
        reset = self._reset_of(data, message, fields) if ending in LIMITED else None
        return ev.Failed(ending or Ending.ERROR, message, status, reset)

    def _reset_of(self, data: f.Fields, message: str, fields: f.Fields) -> float | None:
        """Return when the limit ends, reckoned from when the error came."""
        at = epoch(f.amount(fields, "timestamp")) or self._now()
        headers = {
            name.lower(): value
            for name, value in f.section(data, "responseHeaders").items()
            if isinstance(value, str)
        }
        millis = headers.get("retry-after-ms", "")
        if millis.isascii() and millis.isdigit():
            return at + int(millis[:12]) / _THOUSAND
        told = headers.get("anthropic-ratelimit-unified-reset", "")
        if told.isascii() and told.isdigit():
            return epoch(float(told[:16]))
        found = retry_after(headers.get("retry-after", ""), at)
        return found if found is not None else reset_time(message, at, self._zone)

    def _judge(
        self, code: int | None, signal: int | None, stderr: str, ours: Ending | None
    ) -> tuple[Ending, str]:
        if self._reason and self._reason != _MORE and not self._trouble_lasts(code):
            self._final = ev.Finished(ok=True)
        return super()._judge(code, signal, stderr, ours)

    def _trouble_lasts(self, code: int | None) -> bool:
        """Tell whether an error before the last step still counts: not where it ended well."""
        return code != 0 and self._trouble is not None

    def _quiet_end(self, stderr: str) -> tuple[Ending, str]:
        if self._stuck_on_denial and self._denied:
            return self._success(ev.Finished(ok=True))
        # It did not finish, or no step would be open: what it wrote may be asked.
        refused = [line for line in stderr.splitlines() if _REFUSALS.search(line)]
        if refused and self._trouble is None:
            return Ending.DENIED, refused[-1]
        return super()._quiet_end(stderr)

    handlers: ClassVar[Mapping[str, Handler]] = {
        "step_start": _step,
        "text": _text,
        "tool_use": _tool,
        "step_finish": _step_done,
        "error": _error,
    }


def _logged(line: bytes) -> str:
    """Return why a request for the work failed, as its log has it; '' for any other line."""
    known = _LOG_HEAD.match(line) and all(sign in line for sign in _LOG_SIGNS)
    _, found, said = line.rpartition(_LOG_SAID)
    if not known or not found or not said.endswith(b'"'):
        return ""
    told = said[:-1].decode("utf-8", "replace")
    kind = _LOG_CLASS.match(told)
    return told[kind.end() :] if kind else told


def _tokens(part: f.Fields) -> Tokens:
    tokens, cache = f.section(part, "tokens"), f.section(part, "tokens", "cache")
    plain, out = f.count(tokens, "input"), f.count(tokens, "output")
    read, thought = f.count(cache, "read"), f.count(tokens, "reasoning")
    total = f.count(tokens, "total") or plain + out + read + f.count(cache, "write") + thought
    return Tokens(plain, out, read, thought, total)


def _env(request: LaunchRequest) -> dict[str, str]:
    settings: dict[str, object] = {"autoupdate": False, "share": "disabled"}
    if (server := request.mcp) is not None:
        entry = {"type": "local", "command": list(server.command), "enabled": True}
        settings["mcp"] = {server.name: entry | {"environment": dict(server.env)}}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(settings)}


ADAPTER = Adapter(
    name="opencode",
    title="OpenCode",
    parser=OpencodeParser,
    tested=("1.18.33",),
    programs=("opencode",),
    argv=(
        *("run", "--format", "json"),
        *("--print-logs", "--log-level", "ERROR"),
        # What a person's own settings deny stays denied; "allow" for everything would undo that.
        When("unattended", ("--auto",)),
        When("model", ("-m", "{model}")),
        When("resume", ("--session", "{resume}")),
    ),
    config_env={
        "XDG_CONFIG_HOME": "{config_folder}/config",
        "XDG_DATA_HOME": "{config_folder}/data",
        "XDG_STATE_HOME": "{config_folder}/state",
        "XDG_CACHE_HOME": "{config_folder}/cache",
    },
    passes=("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"),
    keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    settings_env=_env,
    mcp=McpForm(way=McpWay.ENV, tool="{server}_{tool}"),
    tells_tokens=True,
    tells_cost=True,
    stop=Stop(("TERM",), grace=2.0),
    login=OpencodeParser.login,
    install="npm install -g opencode-ai",
)
