"""Scripts are played turn by turn, many at once, with each program's own tools, and recorded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.models.asking import FORMS, SHELLS, ask, heard, offer, send, signed
from tests.models.script import Call, Hang, Say, Shell, Write
from tests.models.server import ModelServer, Request, model_server

__all__ = ["model_server"]

every_form = pytest.mark.parametrize("form", FORMS)


def test_many_scripts_are_played_at_once_by_path_and_by_key(model_server: ModelServer) -> None:
    played = [model_server.play(*(Say(f"{n}.{turn}") for turn in range(3))) for n in range(24)]

    def all_turns(number: int) -> list[str]:
        form = FORMS[number % 4]
        url = "" if number % 2 else model_server.url
        asked = (ask(form, played[number], url=url) for _ in range(3))
        return [heard(form, each).text for each in asked]

    with ThreadPoolExecutor(12) as pool:
        told = list(pool.map(all_turns, range(24)))
    assert told == [[f"{n}.{turn}" for turn in range(3)] for n in range(24)]
    assert all(each.left == 0 and each.problems == [] for each in played)
    assert all(request.own_key for each in played for request in each.requests)


@every_form
def test_a_request_is_recorded_without_its_credentials(
    model_server: ModelServer, form: str
) -> None:
    played = model_server.play(Say("Hello."))
    ask(form, played)
    [request] = played.requests
    assert request.path.startswith("/v1")
    assert request.headers["content-type"] == "application/json"
    assert (request.body["model"], request.offered) == ("m", (SHELLS[form],))
    assert (request.credential in signed(form, ""), request.own_key) == (True, True)
    assert played.key not in repr(request)


def test_another_key_is_noticed(model_server: ModelServer) -> None:
    played, other = model_server.play(Say("Hello.")), model_server.play()
    ask("chat", other, url=played.url)
    [request] = played.requests
    assert (request.credential, request.own_key) == ("authorization", False)


def test_whoever_has_no_script_is_told_so(model_server: ModelServer) -> None:
    reply = send("POST", f"{model_server.url}/v1/messages", json={})
    assert reply.status_code == 404
    assert "/v1/messages" in model_server.lost


@every_form
def test_what_offers_no_tools_is_aside_and_takes_no_turn(
    model_server: ModelServer, form: str
) -> None:
    played = model_server.play(Say("The answer."))
    assert heard(form, ask(form, played, [])).text == "A scripted title"
    assert heard(form, ask(form, played)).text == "The answer."
    assert [each.turn for each in played.requests] == [None, 0]
    plain = model_server.play(Say("The answer."), toolless=True)
    assert heard(form, ask(form, plain, [])).text == "The answer."


def test_a_turn_may_depend_on_the_request(model_server: ModelServer) -> None:
    def seen(request: Request) -> Say:
        return Say(f"{request.form} {request.body['model']} {'stream' in request.words}")

    assert heard("chat", ask("chat", model_server.play(seen))).text == "chat m True"


def test_a_script_that_raises_is_a_problem(model_server: ModelServer) -> None:
    def raises(request: Request) -> Say:
        return Say(request.body["no such key"])

    played = model_server.play(raises)
    with pytest.raises(httpx.RemoteProtocolError):
        ask("chat", played)
    assert played.problems == ["turn 0: KeyError('no such key')"]


def test_a_script_that_is_over_says_so(model_server: ModelServer) -> None:
    played = model_server.play(Say("One."))
    ask("chat", played)
    assert "cannot go on" in heard("chat", ask("chat", played)).text
    assert played.problems == ["the script was over: turn 1 was asked for"]


def test_a_tool_that_is_not_offered_is_a_problem(model_server: ModelServer) -> None:
    played = model_server.play(Shell("true"), Call("report_breakpoint"))
    for _ in range(2):
        assert heard("chat", ask("chat", played, offer("chat", read={}))).calls == []
    assert [each.split(",")[0] for each in played.problems] == [
        "no shell is offered",
        "report_breakpoint is not offered",
    ]


@pytest.mark.parametrize(
    "name", ["mcp__ralph__report_breakpoint", "mcp_ralph_report_breakpoint", "report_breakpoint"]
)
def test_a_tool_of_a_server_is_called_by_the_last_part_of_its_name(
    model_server: ModelServer, name: str
) -> None:
    played = model_server.play(Call("report_breakpoint", {"type": "question"}))
    tools = offer("anthropic", Read={}, **{f"x{name}s": {}, name: {}})
    found = heard("anthropic", ask("anthropic", played, tools))
    assert found.calls == [(name, {"type": "question"})]


def test_a_tool_in_a_namespace_is_called_with_it(model_server: ModelServer) -> None:
    inner = offer("responses", report_breakpoint={})
    tools = [{"type": "namespace", "name": "mcp__ralph", "tools": inner}]
    played = model_server.play(Call("report_breakpoint", {"type": "blocked"}))
    found = heard("responses", ask("responses", played, tools))
    assert found.calls == [("mcp__ralph.report_breakpoint", {"type": "blocked"})]
    assert played.requests[0].offered == ("mcp__ralph__report_breakpoint",)


def test_a_tool_that_must_be_searched_for_is_searched_first(model_server: ModelServer) -> None:
    played = model_server.play(Call("report_breakpoint", {"type": "blocked"}), Say("Done."))
    search = {"ToolSearch": {"properties": {"query": {"type": "string"}}, "required": ["query"]}}
    hidden = offer("anthropic", **search)
    shown = offer("anthropic", **search, mcp__ralph__report_breakpoint={})
    found = [heard("anthropic", ask("anthropic", played, each)) for each in (hidden, shown, shown)]
    assert [each.calls for each in found] == [
        [("ToolSearch", {"query": "report_breakpoint"})],
        [("mcp__ralph__report_breakpoint", {"type": "blocked"})],
        [],
    ]
    lost = model_server.play(Call("report_breakpoint"))
    for _ in range(2):
        ask("anthropic", lost, hidden)
    assert lost.problems == ["turn 0: the search did not bring the tool"]


def test_a_file_is_written_with_the_program_s_own_tool(model_server: ModelServer) -> None:
    schema = {"properties": {"filePath": {}, "content": {}}, "required": ["filePath", "content"]}
    listed = {"properties": {"command": {"type": "array"}}, "required": ["command"]}
    patch = [{"type": "custom", "name": "apply_patch", "format": {}}]
    part = Write("a b.txt", "one\ntwo\n")
    tries = [
        ("chat", offer("chat", write=schema)),
        ("responses", patch),
        ("responses", offer("responses", shell=listed)),
    ]
    played = model_server.play(part, part, part)
    calls = [heard(form, ask(form, played, tools)).calls for form, tools in tries]
    assert calls == [
        [("write", {"filePath": "a b.txt", "content": "one\ntwo\n"})],
        [
            (
                "apply_patch",
                "*** Begin Patch\n*** Add File: a b.txt\n+one\n+two\n*** End Patch",
            )
        ],
        [("shell", {"command": ["bash", "-lc", "printf %s 'one\ntwo\n' > 'a b.txt'"]})],
    ]


def test_waiting_for_a_turn_ends_with_it_or_with_its_patience(model_server: ModelServer) -> None:
    played = model_server.play(Hang())
    with pytest.raises(TimeoutError, match="1 turns were not asked for"):
        played.wait(1, within=0.01)
    assert played.settle(within=0) == []
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, "chat", played, timeout=0.3)
        assert [each.turn for each in played.wait(1)] == [0]
        with pytest.raises(TimeoutError, match="still told"):
            played.settle(within=0.01)
        assert isinstance(asking.exception(), httpx.ReadTimeout)
