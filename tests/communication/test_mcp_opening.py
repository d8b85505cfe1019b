"""What is answered before the protocol's package is loaded is what the package would answer."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from communication.mcp.handshake import FREE_VERSIONS, VERSIONS, Opening
from communication.mcp.lines import LineReader
from communication.mcp.server import serve

if TYPE_CHECKING:
    from pathlib import Path

    from communication.mcp.tools import Toolbox

    Talk = list[dict[str, Any]]

CLIENT = {"name": "test", "version": "1"}
OURS = "io.modelcontextprotocol/"
MODERN = {
    f"{OURS}protocolVersion": FREE_VERSIONS[0],
    f"{OURS}clientInfo": CLIENT,
    f"{OURS}clientCapabilities": {"roots": {"listChanged": True}},
}
BEGUN = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def ask(identity: object, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def hello(version: str = VERSIONS[-1], identity: object = 0, **more: Any) -> dict[str, Any]:
    given = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT, **more}
    return ask(identity, "initialize", **given)


FREE: Talk = [
    ask("discover", "server/discover", _meta=MODERN),
    ask(0, "tools/list", _meta=MODERN),
]


def answers(tools: Toolbox, folder: Path, talk: Talk, *, opened: bool) -> tuple[Talk, bool]:
    """Return what is answered, and whether the package was needed for it."""
    (folder / "in").write_text("".join(f"{json.dumps(each)}\n" for each in talk))
    stdin = os.open(folder / "in", os.O_RDONLY)
    stdout = os.open(folder / "out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        lines = LineReader(stdin)
        said = Opening(lines, stdout, "1.0").run() if opened else []
        if said is not None:
            serve(tools, lines, stdout, version="1.0", said=said)
    finally:
        os.close(stdin)
        os.close(stdout)
    found = [json.loads(line) for line in (folder / "out").read_text().splitlines()]
    return sorted(found, key=lambda each: str(each["id"])), said is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_first_words_are_those_of_the_package(
    tools: Toolbox, tmp_path: Path, version: str
) -> None:
    rich = {
        "capabilities": {"roots": {"listChanged": True}, "elicitation": {}},
        "clientInfo": {**CLIENT, "title": "Test"},
    }
    listed = {"jsonrpc": "2.0", "id": "b", "method": "tools/list"}
    noted = ask("c", "tools/list", _meta={"progressToken": 1})
    talk = [hello(version, **rich), BEGUN, listed, noted, ask("d", "ping")]
    ours, needed = answers(tools, tmp_path, talk, opened=True)
    theirs, _ = answers(tools, tmp_path, talk, opened=False)
    assert not needed
    assert [each["id"] for each in ours] == [0, "b", "c", "d"]
    assert ours == theirs


def test_the_first_words_without_a_greeting_are_those_of_the_package(
    tools: Toolbox, tmp_path: Path
) -> None:
    ours, needed = answers(tools, tmp_path, FREE, opened=True)
    theirs, _ = answers(tools, tmp_path, FREE, opened=False)
    assert not needed
    assert [each["id"] for each in ours] == [0, "discover"]
    assert ours == theirs


CALL = ask("call", "tools/call", name="get_context", arguments={})
ODD: dict[str, Talk] = {
    "a call after the greeting": [hello(), BEGUN, CALL],
    "a call before the program is ready": [hello(), CALL],
    "a call without a greeting": [CALL],
    "a version that is not known": [hello("1999-01-01"), BEGUN, CALL],
    "a version that is no text": [hello(identity=1, protocolVersion=5), CALL],
    "no greeting at all": [ask("x", "tools/list")],
    "a call without any greeting": [*FREE, ask("x", "tools/call", name="no", _meta=MODERN)],
    "a greeting where there was none": [*FREE, hello(identity=1), CALL],
    "a version to come": [
        ask("d", "server/discover", _meta={**MODERN, f"{OURS}protocolVersion": "2031-01-01"})
    ],
    "no abilities": [
        ask("d", "server/discover", _meta={f"{OURS}protocolVersion": FREE_VERSIONS[0]})
    ],
    "a newer form after a greeting": [hello(), BEGUN, ask("x", "tools/list", _meta=MODERN)],
    "two greetings": [hello(), BEGUN, hello(identity=1), CALL],
    "a greeting by nobody": [hello(clientInfo={"name": "x"}), CALL],
    "a greeting of strange abilities": [hello(capabilities=[]), CALL],
    "a greeting with a strange id": [hello(identity=1.5), CALL],
    "a page of the list": [hello(), BEGUN, ask("x", "tools/list", cursor="2")],
    "are you there": [hello(), BEGUN, ask("p", "ping"), CALL],
    "what nobody knows": [hello(), BEGUN, ask("u", "no/such", a=1), CALL],
}


@pytest.mark.parametrize("name", ODD)
def test_whatever_else_is_said_is_left_to_the_package(
    tools: Toolbox, tmp_path: Path, name: str
) -> None:
    ours, needed = answers(tools, tmp_path, ODD[name], opened=True)
    theirs, _ = answers(tools, tmp_path, ODD[name], opened=False)
    assert needed
    assert ours == theirs
    assert {str(each["id"]) for each in ours} <= {str(each.get("id")) for each in [*ODD[name], {}]}
