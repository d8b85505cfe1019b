"""A small client of each API, to see what a real one would get."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.models.conversation import Conversation

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Made once, as httpx takes long to make one."""
FORMS = ("anthropic", "responses", "chat", "gemini")
SHELL = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
    "required": ["command", "description"],
}
SHELLS = {
    "anthropic": "Bash",
    "responses": "shell_command",
    "chat": "bash",
    "gemini": "run_shell_command",
}


@dataclass
class Heard:
    """An answer as a client understands it."""

    text: str = ""
    refusal: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    ending: str = ""
    tokens: dict[str, int] = field(default_factory=dict)
    """read (with what was cached), cached, written."""
    error: Any = None
    """Of an event in the stream."""


def offer(form: str, **schemas: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Write tools as a request of this API holds them."""
    if form == "anthropic":
        return [{"name": name, "input_schema": each} for name, each in schemas.items()]
    named = [{"name": name, "parameters": each} for name, each in schemas.items()]
    if form == "responses":
        return [{"type": "function", **each} for each in named]
    if form == "chat":
        return [{"type": "function", "function": each} for each in named]
    return [{"functionDeclarations": named}]


def shell(form: str) -> list[dict[str, Any]]:
    """Return the offer of a shell, under the name it has there."""
    return offer(form, **{SHELLS[form]: SHELL})


def address(form: str, url: str, *, stream: bool = True) -> str:
    action = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return {
        "anthropic": f"{url}/v1/messages?beta=true",
        "responses": f"{url}/v1/responses",
        "chat": f"{url}/v1/chat/completions",
        "gemini": f"{url}/v1beta/models/m:{action}",
    }[form]


def signed(form: str, key: str) -> dict[str, str]:
    bearer = {"authorization": f"Bearer {key}"}
    own = {"anthropic": {"x-api-key": key}, "gemini": {"x-goog-api-key": key}}
    return own.get(form, bearer)


def ask(  # noqa: PLR0913  # what differs between tests
    form: str,
    played: Conversation,
    tools: list[dict[str, Any]] | None = None,
    *,
    stream: bool = True,
    url: str = "",
    timeout: float = 10,
) -> httpx.Response:
    """Send a request with tools, by default with a shell."""
    body = {"model": "m", "stream": stream, "tools": shell(form) if tools is None else tools}
    return send(
        "POST",
        address(form, url or played.url, stream=stream),
        json=body,
        headers=signed(form, played.key),
        timeout=timeout,
    )


def send(method: str, url: str, **how: Any) -> httpx.Response:
    """Send any request, on a connection of its own."""
    return httpx.request(method, url, verify=NO_TLS, trust_env=False, **how)


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.text.splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line.removeprefix("data: "))


def heard(form: str, response: httpx.Response, *, stream: bool = True) -> Heard:
    """Understand an answer."""
    found = Heard()
    reader = {"anthropic": _anthropic, "responses": _responses, "chat": _chat, "gemini": _gemini}
    for each in events(response) if stream else [response.json()]:
        if each.get("error"):
            found.error = each["error"]
        reader[form](each, found)
    return found


def _anthropic(each: dict[str, Any], found: Heard) -> None:
    if each["type"] == "content_block_start" and each["content_block"]["type"] == "tool_use":
        found.calls.append((each["content_block"]["name"], ""))
    if each["type"] == "content_block_delta":
        delta = each["delta"]
        found.text += delta.get("text", "")
        if "partial_json" in delta:
            name, so_far = found.calls[-1]
            found.calls[-1] = (name, so_far + delta["partial_json"])
    if each["type"] == "content_block_stop" and found.calls and found.calls[-1][1]:
        name, arguments = found.calls[-1]
        if isinstance(arguments, str):
            found.calls[-1] = (name, json.loads(arguments))
    if each["type"] == "message":
        for block in each["content"]:
            if block["type"] == "text":
                found.text += block["text"]
            else:
                found.calls.append((block["name"], block["input"]))
    if each["type"] in {"message", "message_delta"}:
        usage = each["usage"]
        cached = usage["cache_read_input_tokens"]
        found.ending = each.get("delta", each)["stop_reason"]
        found.tokens = {
            "read": usage["input_tokens"] + cached,
            "cached": cached,
            "written": usage["output_tokens"],
        }


def _responses(each: dict[str, Any], found: Heard) -> None:
    whole = each if each.get("object") == "response" else each.get("response", {})
    if each.get("type") == "response.output_text.delta":
        found.text += each["delta"]
    if each.get("type") == "response.refusal.delta":
        found.refusal += each["delta"]
    if each.get("type") == "response.output_item.done":
        _item(each["item"], found, texts=False)
    if each is whole:
        for item in each["output"]:
            _item(item, found, texts=True)
    if whole.get("error"):
        found.error = whole["error"]
    if whole.get("usage"):
        reason = whole["incomplete_details"] or {"reason": whole["status"]}
        found.ending = reason["reason"]
        found.tokens = {
            "read": whole["usage"]["input_tokens"],
            "cached": whole["usage"]["input_tokens_details"]["cached_tokens"],
            "written": whole["usage"]["output_tokens"],
        }


def _item(item: dict[str, Any], found: Heard, *, texts: bool) -> None:
    if item["type"] == "message" and texts:
        part = item["content"][0]
        found.text += part.get("text", "")
        found.refusal += part.get("refusal", "")
    elif item["type"] == "custom_tool_call":
        found.calls.append((item["name"], item["input"]))
    elif item["type"] == "function_call":
        space = f"{item['namespace']}." if "namespace" in item else ""
        found.calls.append((space + item["name"], json.loads(item["arguments"])))


def _chat(each: dict[str, Any], found: Heard) -> None:
    for choice in each.get("choices", ()):
        said = choice.get("delta") or choice.get("message") or {}
        found.text += said.get("content") or ""
        found.refusal += said.get("refusal") or ""
        for call in said.get("tool_calls", ()):
            function = call["function"]
            if "id" in call:
                found.calls.append((function["name"], ""))
            name, so_far = found.calls[-1]
            found.calls[-1] = (name, so_far + function["arguments"])
        found.ending = choice["finish_reason"] or found.ending
    if found.ending:
        found.calls = [
            (name, json.loads(each) if isinstance(each, str) else each)
            for name, each in found.calls
        ]
    if each.get("usage"):
        usage = each["usage"]
        found.tokens = {
            "read": usage["prompt_tokens"],
            "cached": usage["prompt_tokens_details"]["cached_tokens"],
            "written": usage["completion_tokens"],
        }


def _gemini(each: dict[str, Any], found: Heard) -> None:
    for candidate in each.get("candidates", ()):
        for part in candidate["content"]["parts"]:
            found.text += part.get("text", "")
            if "functionCall" in part:
                found.calls.append((part["functionCall"]["name"], part["functionCall"]["args"]))
        found.ending = candidate.get("finishReason", found.ending)
    if "usageMetadata" in each:
        usage = each["usageMetadata"]
        found.tokens = {
            "read": usage["promptTokenCount"],
            "cached": usage["cachedContentTokenCount"],
            "written": usage["candidatesTokenCount"] + usage["thoughtsTokenCount"],
        }
