"""`loopwright mcp` as agents' programs use it: started, spoken to, left."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

import pytest

from communication.mailbox import Mailbox, ReadingKind
from communication.mcp.tool_schema import TOOLS
from runtime import proc_table
from tests.orchestrator.loopkit import BIN, PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.orchestrator.loopkit import World

AGENT = "agent-T001"
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
CLIENT = """\
import asyncio, os, sys
from communication.mcp.tools import passed_on
from mcp import Client, StdioServerParameters, stdio_client

async def main():
    server = StdioServerParameters(
        command=sys.argv[1], args=["mcp"], env=passed_on(os.environ)
    )
    async with Client(stdio_client(server)) as client:
        context = await client.call_tool("get_context", {})
        told = {"type": "task_complete", "summary": context.content[0].text.splitlines()[0]}
        answer = await client.call_tool("report_breakpoint", told)
        assert not answer.is_error, answer

asyncio.run(main())
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "LOOPWRIGHT_COMM_FILE": str(tmp_path / "communications.json"),
        "LOOPWRIGHT_AGENT_ID": AGENT,
        "LOOPWRIGHT_TASK_ID": "T001",
        "LOOPWRIGHT_SPAWN_ID": "spawn-7",
    }


class Served:
    """A server that a test speaks to line by line."""

    def __init__(self, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [str(BIN / "loopwright"), "mcp"],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def say(self, raw: bytes) -> None:
        self.stdin.write(raw + b"\n")
        self.stdin.flush()

    def hear(self) -> dict[str, Any]:
        ready, _, _ = select.select([self.stdout], [], [], PATIENCE)
        assert ready, "no answer came"
        answer: dict[str, Any] = json.loads(self.stdout.readline())
        return answer

    def ask(self, identity: int | str, method: str, **params: Any) -> dict[str, Any]:
        told = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
        self.say(json.dumps(told).encode())
        answer = self.hear()
        assert answer["id"] == identity
        return answer

    def begin(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask(0, "initialize", **HELLO)["result"]
        self.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return found

    def ended(self) -> tuple[int, str]:
        """Wait for its end; what is left on standard output must be nothing."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert out == b""
        return self.process.returncode, err.decode()


@contextlib.contextmanager
def begun(env: dict[str, str]) -> Iterator[Served]:
    with Served(env) as served:
        served.begin()
        yield served


def test_it_shows_its_tools_and_ends_with_standard_input(
    env: dict[str, str], tmp_path: Path
) -> None:
    with Served(env) as served:
        hello = served.begin()
        assert hello["serverInfo"]["name"] == "loopwright"
        assert "then stop" in hello["instructions"]
        tools = served.ask(1, "tools/list")["result"]["tools"]
        assert {tool["name"]: tool["inputSchema"] for tool in tools} == {
            name: tool.schema() for name, tool in TOOLS.items()
        }
        called = {"name": "report_breakpoint", "arguments": {"type": "task_complete"}}
        answer = served.ask("last", "tools/call", **called)["result"]
        assert answer["isError"] is False
        reading = _read(tmp_path)
        assert reading.kind is ReadingKind.SIGNAL, reading.problem
        # What was said before the end still counts.
        called["arguments"] = {"type": "blocked", "reason": "no key"}
        line = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": called}
        out, err = served.process.communicate(json.dumps(line).encode(), PATIENCE)
        assert (json.loads(out)["id"], served.process.returncode, err) == (3, 0, b"")
    word = _read(tmp_path).breakpoint
    assert word is not None
    assert (word.type, word.seq) == ("blocked", 2)


def _called(identity: int, tool: bytes, arguments: bytes) -> bytes:
    """Return a call as it is written; the arguments may be anything."""
    return (
        b'{"method":"tools/call","params":{"name":"%b","arguments":%b},"jsonrpc":"2.0","id":%d}'
        % (tool, arguments, identity)
    )


HOSTILE = (
    _called(1, b"ask_question", b'{"question":"\\ud800 \\u0000 \xff?"}'),
    _called(2, b"get_context", b"[]"),
    _called(3, b"report_progress", b'{"done":' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
    _called(4, b"report_progress", b'{"mission":"' + b"x" * 9_000_000 + b'"}'),
    b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":["x"]}}',
    b'{"jsonrpc":"2.0","id":6,"method":"tools/call"}',
    b'{"jsonrpc":"2.0","id":7,"method":"no/such"}',
    b'{"jsonrpc":"2.0","id":8,"method":8}',
    b'{"jsonrpc":"1.0","id":9,"method":"ping"}',
    _called(10, b"report_progress", b'{"mission":NaN,"' + b"k" * 100_000 + b'":1}'),
)


def test_whatever_comes_is_answered_and_the_server_lives_on(
    env: dict[str, str], tmp_path: Path
) -> None:
    with begun(env) as served:
        for line in HOSTILE:
            served.say(line)
        answers = {each["id"]: each for each in (served.hear() for _ in HOSTILE)}
        assert set(answers) == set(range(1, len(HOSTILE) + 1))
        assert answers[1]["result"]["isError"] is False
        assert all(len(json.dumps(each)) < 600 for each in answers.values())
        assert "must be an object" in answers[2]["error"]["message"]
        assert "deeper" in answers[3]["error"]["message"]
        assert "say less" in answers[4]["error"]["message"]
        assert answers[10]["result"]["isError"] is True
        for garbage in (b"\x00\xff garbage", b"[]", b"5", b'{"id":true}'):
            served.say(garbage)
            assert served.hear()["id"] is None
        assert served.ask(99, "ping")["result"] == {}
        code, told = served.ended()
        assert (code, "Traceback" in told) == (0, False), told
    word = _read(tmp_path).breakpoint
    assert word is not None
    assert word.question == "?  \N{REPLACEMENT CHARACTER}?"


def test_it_ends_with_its_parent_though_its_input_stays_open(env: dict[str, str]) -> None:
    inherited, kept = os.pipe()
    relay = (
        "import subprocess, sys, time\n"
        "served = subprocess.Popen(sys.argv[2:], stdin=int(sys.argv[1]))\n"
        "print(served.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    try:
        parent = subprocess.Popen(
            [sys.executable, "-S", "-c", relay, str(inherited), str(BIN / "loopwright"), "mcp"],
            env=env,
            pass_fds=[inherited],
            stdout=subprocess.PIPE,
        )
        assert parent.stdout is not None
        with parent:
            child = int(parent.stdout.readline())
            os.write(kept, _line(0, "initialize", **HELLO))
            assert parent.stdout.readline()
            parent.kill()
        until(lambda: _gone(child), "the server is gone")
    finally:
        os.close(inherited)
        os.close(kept)


def test_an_interrupt_ends_it_at_once(env: dict[str, str]) -> None:
    with begun(env) as served:
        served.process.send_signal(signal.SIGINT)
        assert served.ended() == (-signal.SIGINT, "")


def test_without_the_variables_it_says_what_to_do(env: dict[str, str]) -> None:
    del env["LOOPWRIGHT_SPAWN_ID"]
    with Served(env) as served:
        code, told = served.ended()
    assert code == 2
    assert "not set: LOOPWRIGHT_SPAWN_ID" in told
    assert "Traceback" not in told


def test_without_the_package_it_says_what_to_install(env: dict[str, str]) -> None:
    code = (
        "import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None; "
        "from orchestrator.cli.main import main; sys.exit(main(['mcp']))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'loopwright[mcp]'" in done.stderr


def test_nothing_heavy_is_loaded_before_a_tool_is_called(env: dict[str, str]) -> None:
    code = (
        "import sys; from orchestrator.cli.main import main; assert main(['mcp']) == 0; "
        "print(sorted({'mcp', 'pydantic', 'anyio', 'asyncio'} & set(sys.modules)), "
        "file=sys.stderr)"
    )
    listed = _line(0, "initialize", **HELLO) + _line(1, "tools/list")
    for said, loaded in ((listed, []), (listed + _line(2, "x/y"), ["anyio", "mcp"])):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code], env=env, input=said, capture_output=True, check=True
        )
        assert {json.loads(line)["id"] for line in done.stdout.splitlines()} >= {0, 1}
        assert set(ast.literal_eval(done.stderr.decode())) >= set(loaded)
        assert loaded or done.stderr == b"[]\n"


def test_an_agent_that_is_a_client_drives_a_loop(world: World) -> None:
    client = world.folder / "client.py"
    client.write_text(CLIENT)
    agent = world.script("agent", [{"run": [sys.executable, str(client), str(BIN / "loopwright")]}])
    result = world.json("run", "Do it", "--command", agent)
    assert (result["result_type"], result["spawn_count"]) == ("task_complete", 1)
    summaries = sorted((world.repo / ".loopwright" / "summaries").rglob("*.md"))
    first = summaries[0].read_text().splitlines()[0]
    assert result["summary"] == first, "the agent read its own summary"


def _read(tmp_path: Path) -> Any:
    path = tmp_path / "communications.json"
    return Mailbox(path).load().reading(AGENT, spawn_id="spawn-7", task_id="T001")


def _line(identity: int, method: str, **params: Any) -> bytes:
    told = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
    return json.dumps(told).encode() + b"\n"


def _gone(pid: int) -> bool:
    row = proc_table.read_row(pid)
    return row is None or row.dead
