"""`loopwright serve` and the server beside `loopwright up`, as processes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from orchestrator.control.open_store import runner_of
from orchestrator.web.bound_server import bound, is_loopback
from tests.orchestrator.loopkit import ASK, DONE, World, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.orchestrator.loopkit import Live

ROOT = Path(__file__).resolve().parents[3]
MUCH_LONGER = 20.0
"""Seconds: more than it takes on a busy machine, less than any client would keep it."""
ANYWHERE = "0.0.0.0"  # noqa: S104  # that it is refused is what is tested


class Served:
    """A `loopwright serve` that runs, and a client with its token."""

    def __init__(self, live: Live, told: dict[str, Any], client: httpx.Client) -> None:
        self.live, self.told, self.client = live, told, client

    def get(self, path: str) -> Any:
        return self.client.get(f"/api/v1{path}").raise_for_status().json()

    def post(self, path: str, body: Any) -> Any:
        return self.client.post(f"/api/v1{path}", json=body).raise_for_status().json()

    def comes_to(self, kind: str, agent: str) -> None:
        def there() -> bool:
            return bool(self.get(f"/lifecycles/{agent}")["lifecycle"]["work"]["kind"] == kind)

        until(there, f"{agent} is {kind}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the token a place of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def _out(live: Live) -> str:
    return live.out


@contextmanager
def served(world: World, *args: str) -> Iterator[Served]:
    """Serve on any free port."""
    with world.live("serve", "--port", "0", "--json", *args) as live:
        told = json.loads(until(lambda: live.out.rstrip().endswith("}") and live.out, "it serves"))
        token = told.get("token") or (world.folder / "config/loopwright/token").read_text().strip()
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=told["url"], headers=headers, trust_env=False) as client:
            yield Served(live, told, client)


def test_it_goes_on_with_what_is_unfinished_stays_and_takes_more(world: World, home: Path) -> None:
    agent = world.script("agent", {"attempts": {"1": [ASK], "default": [DONE]}})
    world.settings(f"command = {json.dumps(agent.split())}\nstop_grace = 0.3\n")
    world.json("add", "Do it", "--name", "first")
    with served(world) as serve:
        assert serve.told["pid"] == serve.live.process.pid
        assert serve.told["token_file"] == str(home / "loopwright/token")
        assert serve.told["token_place"] == serve.told["token_file"]
        assert "token" not in serve.told
        assert (runner_of(world.repo) or {})["url"] == serve.told["url"]
        assert serve.live.out.count("\n") == 1
        serve.comes_to("AwaitingHuman", "first")
        serve.post("/lifecycles/first/answer", {"text": "green"})
        serve.comes_to("Completed", "first")
        serve.post("/lifecycles", {"text": "More", "name": "second"})
        serve.comes_to("AwaitingHuman", "second")
        assert serve.live.process.poll() is None
        busy = world.call("serve", "--port", "0", code=75)
        assert "another runner (loopwright serve" in busy.stderr
        serve.live.signal(signal.SIGTERM)
        serve.live.ends(143)
    assert world.row("second")["work_kind"] == "AwaitingHuman"


def test_it_prints_its_address_and_shows_the_token_only_when_asked(
    world: World, home: Path
) -> None:
    for args, shown in (((), False), (("--show-token",), True)):
        with world.live("serve", "--port", "0", *args) as live:
            line = until(partial(_out, live), "it serves")
            assert line.startswith("http://127.0.0.1:")
            assert str(home) in line
            assert ((home / "loopwright/token").read_text().strip() in line) is shown
            live.signal(signal.SIGINT)
            live.ends(130)


def test_it_stops_within_two_seconds_of_term_whoever_is_connected(world: World, home: Path) -> None:
    agent = world.script("agent", [{"say": "x" * 1000}, {"hang": {}}])
    world.settings(f"command = {json.dumps(agent.split())}\nstop_grace = 0.3\n")
    with served(world) as serve:
        serve.post("/lifecycles", {"text": "Hang", "name": "hangs"})
        serve.comes_to("Working", "hangs")
        port = int(serve.told["url"].rpartition(":")[2])
        token = (home / "loopwright/token").read_text().strip()
        signed = (
            f"host: localhost\r\nauthorization: Bearer {token}\r\naccept: text/event-stream\r\n"
        )
        begun = (
            f"GET /api/v1/lifecycles/hangs/events HTTP/1.1\r\n{signed}\r\n",
            f"GET /api/v1/events HTTP/1.1\r\n{signed}\r\n",
            "GET /healthz HTTP/1.1\r\nhost: loc",
            "POST /hooks/github HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\nx",
            "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
            "",
        )
        sockets = []
        for text in begun * 3:
            made = socket.create_connection(("127.0.0.1", port))
            made.sendall(text.encode())
            sockets.append(made)
        sockets[0].settimeout(10)
        assert b"text/event-stream" in sockets[0].recv(4096)
        began = time.monotonic()
        serve.live.signal(signal.SIGTERM)
        for made in sockets:
            made.settimeout(10)
            try:
                while made.recv(65_536):
                    pass
            except ConnectionError:
                pass
            made.close()
        assert time.monotonic() - began < MUCH_LONGER
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port))
        serve.live.ends(143)
        assert time.monotonic() - began < MUCH_LONGER
    assert world.row("hangs")["work_kind"] == "BackingOff"


@pytest.mark.parametrize("host", [ANYWHERE, "::", "192.0.2.1", "example.invalid"])
@pytest.mark.usefixtures("home")
def test_an_address_that_others_reach_needs_a_token_given_on_purpose(
    world: World, host: str
) -> None:
    refused = world.call("serve", "--host", host, "--port", "0", code=2)
    assert "--token-file" in refused.stderr
    assert refused.stdout == ""


def test_with_a_token_given_on_purpose_it_listens_for_others_but_answers_to_names_it_knows(
    world: World, home: Path
) -> None:
    file = world.folder / "given"
    file.write_text("a-token-that-was-given-on-purpose\n")
    file.chmod(0o600)
    world.settings('allowed_hosts = ["loop.example"]\n')
    with served(world, "--host", ANYWHERE, "--token-file", str(file), "--show-token") as serve:
        port = serve.told["url"].rpartition(":")[2]
        for host, status in (
            ("loop.example", 200),
            (ANYWHERE, 200),
            ("127.0.0.1", 200),
            ("evil.example", 421),
        ):
            answer = serve.client.get(
                f"http://127.0.0.1:{port}/api/v1/lifecycles", headers={"host": f"{host}:{port}"}
            )
            assert answer.status_code == status
    assert not home.exists()


def test_the_token_of_the_variable_is_used_and_handed_to_nobody(world: World, home: Path) -> None:
    seen = world.folder / "seen"
    agent = world.script("agent", [{"run": ["sh", "-c", f"env > {seen}"]}, DONE])
    world.settings(
        f'command = {json.dumps(agent.split())}\npass_env = ["LOOPWRIGHT_TOKEN", "PATH"]\n'
    )
    world.json("add", "Do it", "--name", "first")
    token = "a-token-of-the-variable-0123456789"  # noqa: S105  # opens nothing but this
    with world.live("serve", "--port", "0", LOOPWRIGHT_TOKEN=token) as live:
        line = until(lambda: live.out, "it serves")
        assert token not in line + live.err
        headers = {"authorization": f"Bearer {token}"}
        answer = httpx.get(f"{line.split()[0]}/api/v1/lifecycles", headers=headers, trust_env=False)
        assert answer.status_code == 200
        world.comes_to("Completed", "first")
    assert "PATH=" in seen.read_text()
    assert token not in seen.read_text()
    assert not home.exists()


@pytest.mark.usefixtures("home")
def test_a_port_that_is_taken_is_told_and_nothing_begins(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        world.settings('command = ["true"]\n')
        world.json("add", "Do it", "--name", "first")
        refused = world.call("serve", "--port", port, code=2)
        assert "--port" in refused.stderr
        assert world.row("first")["spawn_count"] == 0
        assert "is not a valid port" in world.call("serve", "--port", "70000", code=2).stderr
        told = world.call("up", "--port", port, code=2)
        assert port in told.stderr


def test_up_serves_beside_its_loops_and_ends_with_them(world: World, home: Path) -> None:
    agent = world.script("agent", {"attempts": {"1": [ASK], "default": [DONE]}})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        world.settings(f"command = {json.dumps(agent.split())}\nport = {port}\n")
        world.json("add", "Do it", "--name", "first")
        with world.live("up", serves=True) as live:
            live.says("the API is at ")
            assert f"Port {port} is in use" in live.err
            url = live.err.partition("the API is at ")[2].partition(",")[0]
            token = (home / "loopwright/token").read_text().strip()
            headers = {"authorization": f"Bearer {token}"}
            with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
                world.comes_to("AwaitingHuman", "first")
                path = "/api/v1/lifecycles/first/answer"
                assert client.post(path, json={"text": "x"}).status_code == 200
                live.ends(0)


def test_up_goes_on_without_a_server_where_none_can_be(world: World, home: Path) -> None:
    world.settings('command = ["true"]\n')
    (home / "loopwright").mkdir(parents=True)
    (home / "loopwright/token").write_text("seen-by-everybody-0123456789")
    (home / "loopwright/token").chmod(0o644)
    plan = world.plan(
        f"[agents.default]\ncommand = {json.dumps(world.script('agent', [DONE]).split())}\n"
        '[[tasks]]\nid = "A"\n'
    )
    done = world.call("up", plan)
    assert "No API is served" in done.stderr
    assert "chmod 600" in done.stderr
    assert "agent-A" in done.stdout
    assert "No API" not in world.call("up", plan, "--no-server").stderr


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("[::1]", True),
        ("localhost", True), (ANYWHERE, False), ("::", False), ("10.0.0.1", False),
        ("localhost.example", False), ("", False), ("127.0.0.1.nip.io", False),
    ],
)  # fmt: skip
def test_only_what_cannot_be_reached_from_elsewhere_counts_as_local(
    host: str,
    local: bool,  # noqa: FBT001  # a table
) -> None:
    assert is_loopback(host) is local


def test_no_command_but_a_server_pays_for_one() -> None:
    code = (
        "import sys\n"
        "import orchestrator.cli.run_loops, orchestrator.web.bound_server\n"
        "from orchestrator.cli.commands import ps, run, serve, up\n"
        "found = {'fastapi', 'uvicorn', 'starlette', 'httptools'} & set(sys.modules)\n"
        "sys.exit(', '.join(found) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_address_is_taken_from_the_moment_it_is_found_free() -> None:
    with bound("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            bound("127.0.0.1", port)


@pytest.mark.usefixtures("home")
def test_a_link_that_is_printed_signs_in_and_new_ones_are_made_for_other_roles(
    world: World,
) -> None:
    world.settings('command = ["true"]\n')
    with served(world) as serve:
        shown = world.call("serve", "--link", "--role", "viewer").stdout.strip()
        for link, role in ((serve.told["link"], "admin"), (shown, "viewer")):
            assert link.startswith(serve.told["url"])
            page = httpx.get(link, headers={"accept": "text/html"}, trust_env=False)
            assert f"once, as {role}" in page.text
        token = world.call("serve", "--role-token", "ci").stdout.strip()
        reader = {"authorization": f"Bearer {token}"}
        address = f"{serve.told['url']}/api/v1/lifecycles"
        assert httpx.get(address, headers=reader, trust_env=False).status_code == 200
        refused = httpx.post(address, headers=reader, json={"text": "x"}, trust_env=False)
        assert refused.json()["error"]["code"] == "role"
        # That of workers opens what is theirs, and nothing else.
        workers = {
            "authorization": f"Bearer {world.call('serve', '--worker-token').stdout.strip()}"
        }
        seen = f"{serve.told['url']}/api/worker/seen"
        assert httpx.put(seen, headers=workers, json={}, trust_env=False).status_code == 422
        assert httpx.put(seen, headers=reader, json={}, trust_env=False).status_code == 401
        assert httpx.get(address, headers=workers, trust_env=False).status_code == 401
    lost = world.call("serve", "--link", code=2)
    assert "no server is alive" in lost.stderr
