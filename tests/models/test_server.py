"""The model server tells every API in its own form, and goes wrong as it is told to."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.models.asking import FORMS, NO_TLS, SHELLS, ask, heard, send
from tests.models.script import Answer, Fault, Hang, Say, Shell, Usage, answer
from tests.models.server import ModelServer, model_server, refusing

__all__ = ["model_server"]

every_form = pytest.mark.parametrize("form", FORMS)


@every_form
@pytest.mark.parametrize("stream", [True, False])
def test_a_text_and_a_shell_command_are_told_in_each_form(
    model_server: ModelServer, form: str, *, stream: bool
) -> None:
    usage = Usage(input=500, output=70, cached=300, reasoning=20)
    played = model_server.play(
        answer("I will — ünder way.", Shell("echo hi > note"), usage=usage), "Done."
    )
    first = heard(form, ask(form, played, stream=stream), stream=stream)
    assert first.text == "I will — ünder way."
    called = {"command": "echo hi > note", "description": "scripted"}
    assert first.calls == [(SHELLS[form], called)]
    assert first.tokens == {"read": 500, "cached": 300, "written": 70}
    second = heard(form, ask(form, played, stream=stream), stream=stream)
    assert (second.text, second.calls) == ("Done.", [])
    assert [(each.form, each.turn, each.outcome) for each in played.requests] == [
        (form, 0, "200"),
        (form, 1, "200"),
    ]
    assert played.problems == []


@every_form
@pytest.mark.parametrize("stream", [True, False])
def test_the_end_of_an_answer_is_told_in_each_form(
    model_server: ModelServer, form: str, *, stream: bool
) -> None:
    played = model_server.play(
        Say("All."),
        Shell("true"),
        answer("So lo", ending="max_tokens"),
        answer("I cannot.", ending="refusal"),
    )
    found = [heard(form, ask(form, played, stream=stream), stream=stream) for _ in range(4)]
    assert [each.ending for each in found] == {
        "anthropic": ["end_turn", "tool_use", "max_tokens", "refusal"],
        "responses": ["completed", "completed", "max_output_tokens", "completed"],
        "chat": ["stop", "tool_calls", "length", "stop"],
        "gemini": ["STOP", "STOP", "MAX_TOKENS", "SAFETY"],
    }[form]
    assert (found[3].refusal or found[3].text) == "I cannot."
    assert bool(found[3].refusal) == (form in {"responses", "chat"})


FAULTS: dict[str, dict[str, tuple[int, str]]] = {
    "anthropic": {
        "rate_limit": (429, "rate_limit_error"),
        "usage_limit": (429, "rate_limit_error"),
        "quota": (400, "credit balance is too low"),
        "auth": (401, "authentication_error"),
        "forbidden": (403, "permission_error"),
        "server_error": (500, "api_error"),
        "overloaded": (529, "overloaded_error"),
        "context": (400, "prompt is too long"),
        "model": (404, "not_found_error"),
    },
    "responses": {
        "rate_limit": (429, "rate_limit_exceeded"),
        "usage_limit": (429, "usage_limit_reached"),
        "quota": (429, "insufficient_quota"),
        "auth": (401, "invalid_api_key"),
        "forbidden": (403, "unsupported_country"),
        "server_error": (500, "server_error"),
        "overloaded": (503, "server_is_overloaded"),
        "context": (400, "context_length_exceeded"),
        "model": (404, "model_not_found"),
    },
    "gemini": {
        "rate_limit": (429, "GenerateRequestsPerMinute"),
        "usage_limit": (429, "GenerateRequestsPerDay"),
        "quota": (429, "billing details"),
        "auth": (401, "UNAUTHENTICATED"),
        "forbidden": (403, "PERMISSION_DENIED"),
        "server_error": (500, "INTERNAL"),
        "overloaded": (503, "UNAVAILABLE"),
        "context": (400, "input token count"),
        "model": (404, "NOT_FOUND"),
    },
}
FAULTS["chat"] = FAULTS["responses"]


@pytest.mark.parametrize(
    ("form", "kind"), [(form, kind) for form in FORMS for kind in FAULTS[form]]
)
def test_a_fault_is_told_in_each_form(model_server: ModelServer, form: str, kind: Any) -> None:
    status, word = FAULTS[form][kind]
    played = model_server.play(
        Fault(kind), Fault(kind, status=599, message="mine", headers={"x-own": "1"})
    )
    plain, changed = ask(form, played), ask(form, played)
    assert (plain.status_code, word in plain.text) == (status, True)
    assert "retry-after" not in plain.headers
    assert changed.status_code == 599
    assert changed.json()["error"]["message"] == "mine"
    assert changed.headers["x-own"] == "1"
    assert [each.outcome for each in played.turns] == [str(status), "599"]


def test_when_a_limit_ends_is_told_as_each_api_tells_it(model_server: ModelServer) -> None:
    at = 1_795_000_000
    limited = Fault("rate_limit", retry_after=30, resets_at=at)
    planned = Fault("usage_limit", resets_at=at)

    def both(form: str) -> list[httpx.Response]:
        played = model_server.play(limited, planned)
        return [ask(form, played), ask(form, played)]

    first, second = both("anthropic")
    assert first.headers["retry-after"] == "30"
    assert first.headers["anthropic-ratelimit-requests-reset"] == "2026-11-18T11:06:40Z"
    assert second.headers["anthropic-ratelimit-unified-status"] == "rejected"
    assert second.headers["anthropic-ratelimit-unified-reset"] == str(at)
    assert second.headers["anthropic-ratelimit-unified-5h-utilization"] == "1.0"
    for form in ("responses", "chat"):
        first, second = both(form)
        assert first.headers["retry-after"] == "30"
        assert first.headers["x-ratelimit-reset-requests"] == "30s"
        assert second.json()["error"]["resets_at"] == at
    first, second = both("gemini")
    assert {"30s"} == {
        each["retryDelay"] for each in first.json()["error"]["details"] if "retryDelay" in each
    }
    assert "retryDelay" not in second.text


def test_a_wrong_key_of_gemini_is_a_bad_request(model_server: ModelServer) -> None:
    reply = ask("gemini", model_server.play(Fault("auth", status=400)))
    assert reply.status_code == 400
    assert "API_KEY_INVALID" in reply.text


@every_form
def test_a_cut_stream_ends_without_its_end(model_server: ModelServer, form: str) -> None:
    played = model_server.play(answer("Half of this", broken="cut"), again=Say("Whole."))
    with pytest.raises(httpx.RemoteProtocolError):
        ask(form, played)
    assert played.turns[0].outcome == "cut"
    assert heard(form, ask(form, played)).text == "Whole."


@every_form
def test_a_short_stream_ends_well_but_too_soon(model_server: ModelServer, form: str) -> None:
    played = model_server.play(answer("Half of this", broken="short"), again=Say("Whole."))
    reply = ask(form, played)
    found = heard(form, reply)
    assert (reply.status_code, found.ending, found.error) == (200, "", None)
    assert found.text in "Half of this"
    assert heard(form, ask(form, played)).text == "Whole."
    assert [each.outcome for each in played.turns] == ["short", "200"]


@every_form
@pytest.mark.parametrize("broken", ["cut", "short"])
def test_a_broken_document_is_cut(model_server: ModelServer, form: str, broken: Any) -> None:
    played = model_server.play(answer("Half of this", broken=broken))
    with pytest.raises(httpx.RemoteProtocolError):
        ask(form, played, stream=False)


@every_form
def test_an_error_can_come_in_the_middle_of_a_stream(model_server: ModelServer, form: str) -> None:
    played = model_server.play(answer("Half of this", broken=Fault("overloaded")))
    reply = ask(form, played)
    found = heard(form, reply)
    assert reply.status_code == 200
    assert "overloaded" in str(found.error)
    assert found.ending == ""
    assert found.text in "Half of this"


@every_form
@pytest.mark.parametrize("hung", [Hang(), answer("Half of this", broken="hang")])
def test_a_hung_answer_lasts_until_the_program_gives_up(
    model_server: ModelServer, form: str, hung: Hang | Answer
) -> None:
    played = model_server.play(hung, Say("Then."))
    with pytest.raises(httpx.ReadTimeout):
        ask(form, played, timeout=0.1)
    assert heard(form, ask(form, played)).text == "Then."
    assert [each.outcome for each in played.settle()] == ["abandoned", "200"]


@every_form
def test_a_slow_answer_comes_in_many_pieces(model_server: ModelServer, form: str) -> None:
    text = "Told slowly, a few letters at a time."
    quick = ask(form, model_server.play(Say(text)))
    slow = ask(form, model_server.play(answer(text, every=0.005)))
    assert heard(form, slow).text == heard(form, quick).text == text
    assert slow.text.count("data: ") >= quick.text.count("data: ") + 4
    assert slow.elapsed.total_seconds() >= 0.005


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
    with pytest.raises(httpx.ConnectError):
        ask("chat", played)


def test_a_network_that_is_down_refuses(model_server: ModelServer) -> None:
    with refusing() as url, pytest.raises(httpx.ConnectError):
        ask("chat", model_server.play(), url=url)


def test_a_connection_is_kept_for_the_next_request(model_server: ModelServer) -> None:
    played = model_server.play(Fault("overloaded"), Say("One."), Say("Two."), toolless=True)
    with httpx.Client(trust_env=False, verify=NO_TLS) as client:
        url = f"{played.url}/v1/chat/completions"
        found = [
            client.post(url, json={"stream": True}).extensions["network_stream"] for _ in range(3)
        ]
        ports = {each.get_extra_info("client_addr") for each in found}
    assert len(ports) == 1


def test_chunked_bodies_and_expectations_are_read(model_server: ModelServer) -> None:
    played = model_server.play(Say("Read."), toolless=True)

    def pieces() -> Any:
        yield b'{"model": "m", '
        yield b'"stream": false}'

    reply = send(
        "POST",
        f"{played.url}/v1/chat/completions",
        content=pieces(),
        headers={"expect": "100-continue"},
    )
    assert reply.json()["choices"][0]["message"]["content"] == "Read."


def test_tokens_are_counted_for_whoever_asks(model_server: ModelServer) -> None:
    played = model_server.play()
    for path, name in (
        ("/v1/messages/count_tokens", "input_tokens"),
        ("/v1beta/models/m:countTokens", "totalTokens"),
    ):
        assert send("POST", f"{played.url}{path}", json={}).json()[name] > 0
    assert send("GET", f"{played.url}/v1/models").status_code == 404
    assert [each.outcome for each in played.requests] == ["beside"] * 3
