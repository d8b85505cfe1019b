"""The model server speaks each API, plays its scripts and goes wrong as it is told to.

Whether an answer is what the real programs take it for, they say themselves: see `real`.
"""

from __future__ import annotations

import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.models.script import Call, Fault, Hang, Say, Shell, answer
from tests.models.server import ModelServer, model_server, refusing

if TYPE_CHECKING:
    from tests.models.conversation import Conversation

__all__ = ["model_server"]

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Made once, as httpx takes long to make one."""
PATHS = {
    "anthropic": ("/v1/messages?beta=true", "x-api-key"),
    "responses": ("/v1/responses", "authorization"),
    "chat": ("/v1/chat/completions", "authorization"),
    "gemini": ("/v1beta/models/m:{action}", "x-goog-api-key"),
}
"""Of each API, where it is and the header of its key."""
SHELL = {"properties": {"command": {"type": "string"}}, "required": ["command", "why"]}
STATUS = {
    "anthropic": {"rate_limit": 429, "usage_limit": 429, "auth": 401, "overloaded": 529},
    "responses": {"rate_limit": 429, "usage_limit": 429, "auth": 401, "overloaded": 503},
    "chat": {"rate_limit": 429, "usage_limit": 429, "auth": 401, "overloaded": 503},
    "gemini": {"rate_limit": 429, "usage_limit": 429, "auth": 401, "overloaded": 503},
}
every_form = pytest.mark.parametrize("form", PATHS)


def offer(form: str, *names: str) -> list[dict[str, Any]]:
    """Write tools as a request of this API holds them."""
    if form == "anthropic":
        return [{"name": name, "input_schema": SHELL} for name in names]
    named = [{"name": name, "parameters": SHELL} for name in names]
    if form == "responses":
        return [{"type": "function", **each} for each in named]
    if form == "chat":
        return [{"type": "function", "function": each} for each in named]
    return [{"functionDeclarations": named}] if named else []


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
    path, header = PATHS[form]
    action = "streamGenerateContent?alt=sse" if stream else "generateContent"
    key = f"Bearer {played.key}" if header == "authorization" else played.key
    return httpx.post(
        f"{url or played.url}{path.format(action=action)}",
        json={
            "model": "m",
            "stream": stream,
            "tools": offer(form, "bash") if tools is None else tools,
        },
        headers={header: key},
        timeout=timeout,
        verify=NO_TLS,
        trust_env=False,
    )


@every_form
@pytest.mark.parametrize("stream", [True, False])
def test_texts_and_shell_commands_are_told_in_each_form_and_recorded_without_the_key(
    model_server: ModelServer, form: str, *, stream: bool
) -> None:
    played = model_server.play(answer("!", Shell("echo hi")), "?")
    first, second = (ask(form, played, stream=stream).text for _ in range(2))
    assert '"!"' in first
    assert '"bash"' in first
    assert stream or "echo hi" in first
    assert '"?"' in second
    assert [(each.turn, each.outcome) for each in played.requests] == [(0, "200"), (1, "200")]
    request = played.requests[0]
    assert (request.own_key, request.offered, played.problems) == (True, ("bash",), [])
    assert played.key not in repr(played.requests)


@every_form
def test_a_fault_has_the_status_of_its_api_and_the_words_of_the_script(
    model_server: ModelServer, form: str
) -> None:
    for kind, status in {**STATUS[form], "context": 400}.items():
        fault: Any = kind
        reply = ask(form, model_server.play(Fault(fault, message="mine", retry_after=30)))
        assert (reply.status_code, reply.headers["retry-after"]) == (status, "30")
        assert reply.json()["error"]["message"] == "mine"


@every_form
@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_answer_ends_in_its_middle_and_the_script_goes_on(
    model_server: ModelServer, form: str, *, stream: bool
) -> None:
    played = model_server.play(answer("Half of this", cut=True), again=Say("!"))
    with pytest.raises(httpx.RemoteProtocolError):
        ask(form, played, stream=stream)
    assert '"!"' in ask(form, played, stream=stream).text
    assert [each.outcome for each in played.turns] == ["cut", "200"]


def test_a_slow_answer_comes_in_many_pieces(model_server: ModelServer) -> None:
    text = "Told slowly, a few letters at a time."
    quick = ask("chat", model_server.play(text))
    slow = ask("chat", model_server.play(answer(text, every=0.005)))
    assert slow.text.count("data: ") >= quick.text.count("data: ") + 4


def test_a_hung_answer_lasts_until_the_program_gives_up(model_server: ModelServer) -> None:
    played = model_server.play(Hang(), Say("!"))
    with pytest.raises(httpx.ReadTimeout):
        ask("chat", played, timeout=0.1)
    assert '"!"' in ask("chat", played).text


def test_many_scripts_are_played_at_once(model_server: ModelServer) -> None:
    played = [model_server.play(*(f"{turn}" for turn in range(3))) for _ in range(24)]

    def all_turns(each: Conversation) -> bool:
        return all(f'"{turn}"' in ask("chat", each).text for turn in range(3))

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(all_turns, played))


def test_what_offers_no_tools_is_aside_and_takes_no_turn(model_server: ModelServer) -> None:
    played = model_server.play(Say("!"))
    assert '"!"' not in ask("chat", played, []).text
    assert '"!"' in ask("chat", played).text
    assert [each.turn for each in played.requests] == [None, 0]


def test_what_cannot_be_played_is_a_problem(model_server: ModelServer) -> None:
    played = model_server.play(Shell("true"), Call("report_breakpoint"))
    for _ in range(3):
        assert "cannot" in ask("chat", played, offer("chat", "read"), stream=False).text
    assert [each.split(",")[0] for each in played.problems] == [
        "no shell is offered",
        "report_breakpoint is not offered",
        "the script was over: turn 2 was asked for",
    ]


def test_a_tool_of_a_server_is_called_by_the_last_part_of_its_name(
    model_server: ModelServer,
) -> None:
    played = model_server.play(again=Call("report_breakpoint"))
    for name in ("mcp__ralph__report_breakpoint", "mcp_ralph_report_breakpoint"):
        tools = offer("anthropic", "Read", f"x{name}s", name)
        assert f'"{name}"' in ask("anthropic", played, tools, stream=False).text
    inner = offer("responses", "report_breakpoint")
    space = [{"type": "namespace", "name": "mcp__ralph", "tools": inner}]
    assert '"namespace": "mcp__ralph"' in ask("responses", played, space, stream=False).text


def test_a_server_ends_at_once_with_answers_under_way() -> None:
    with ThreadPoolExecutor(3) as pool:
        with ModelServer() as server:
            played = server.play(again=Hang())
            asking = [pool.submit(ask, "chat", played) for _ in range(3)]
            played.wait(3)
            began = time.monotonic()
        assert time.monotonic() - began < 5
        ends = [type(each.exception()) for each in asking]
    assert ends == [httpx.RemoteProtocolError] * 3


def test_a_network_that_is_down_refuses(model_server: ModelServer) -> None:
    with refusing() as url, pytest.raises(httpx.ConnectError):
        ask("chat", model_server.play(), url=url)
