"""What only people may do is refused to agents and gates, however they ask, and to nobody else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.cli.main import main
from tests.orchestrator.loopkit import BIN, DONE, World, until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import Live

LOOPWRIGHT = BIN / "loopwright"
POST = """\
import json, sys, urllib.error, urllib.request
base, token, agent, answer = sys.argv[1:]
asked = urllib.request.Request(
    f"{base}/api/v1/lifecycles/{agent}/accept", data=b"{}", method="POST",
    headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
try:
    said = urllib.request.urlopen(asked, timeout=20).status
except urllib.error.HTTPError as problem:
    said = f"{problem.code} {problem.read().decode()}"
open(answer, "w").write(str(said))
"""
WAYS = {
    "as it is": "{command}",
    "without its environment": "env -i HOME=/ {command}",
    "as a daemon": (
        "env -i HOME=/ {python} -c 'import os, sys\n"
        "if os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
        'os.system(sys.argv[1])\' "{command}; echo \\$? > {code}"; '
        "while [ ! -s {code} ]; do sleep 0.05; done; sh -c 'exit '$(cat {code})"
    ),
}


@pytest.fixture
def finished(world: World) -> World:
    """Return a repository in which one task waits to be accepted."""
    agent = world.script("first", [{"write": "first.txt"}, {"commit": "First"}, DONE])
    world.call("run", "First", "--command", agent)
    assert world.row()["work_kind"] == "Completed"
    return world


def _asking(world: World, way: str = "as it is", order: str = "accept agent-T001") -> str:
    """Return a shell line that gives an order and writes down how that ended."""
    command = f"{LOOPWRIGHT} {order} --repo {world.repo}"
    code = world.folder / "daemon"
    asked = WAYS[way].format(command=command, python=sys.executable, code=code)
    return f"({asked}) > {world.folder}/said 2>&1; echo $? > {world.folder}/code"


def _came_to(world: World) -> tuple[str, str]:
    code = (world.folder / "code").read_text().strip()
    return code, (world.folder / "said").read_text()


def _server(live: Live) -> tuple[str, str]:
    """Return address and token of the API that a command serves."""
    live.says("its token in")
    told = live.err.split("the API is at ")[1].split(", its token in ")
    return told[0], Path(told[1].split("\n")[0]).read_text().strip()


def _refusals(world: World) -> list[str]:
    return [entry["action"] for entry in world.json("audit") if entry["outcome"] == "refused"]


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_accepts_nobodys_work(finished: World, way: str) -> None:
    world = finished
    steps = [{"run": ["sh", "-c", _asking(world, way)]}, {"commit": "x"}, DONE]
    world.call("run", "Second", "--command", world.script("second", steps))
    code, said = _came_to(world)
    assert "only a person" in said
    assert code == "2"
    assert world.row()["work_kind"] == "Completed"
    assert not (world.repo / "first.txt").exists()
    assert "accept" in _refusals(world)
    assert ("use a new terminal" in said) is (way == "as it is")


def test_inside_a_sandbox_it_is_said_that_the_records_cannot_be_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_SPAWN_ID", "agent-T001.1.1.x")
    for order in (("show", "agent-T001"), ("guide", "agent-T001", "more")):
        done = world.call(*order, code=2)
        assert "cannot be seen from inside the sandbox" in done.stderr, order


def test_a_gate_accepts_nobodys_work(finished: World) -> None:
    world = finished
    agent = world.script("second", [{"commit": "x"}, DONE])
    asking = f"cd / && env -i sh -c '{_asking(world)}'"
    world.call("run", "Second", "--command", agent, "--verify", asking)
    code, said = _came_to(world)
    assert (code, "only a person" in said) == ("2", True)
    assert world.row()["work_kind"] == "Completed"


ORDERS = (
    "reject agent-T001",
    "guide agent-T001 more",
    "import work.json",
    "pr merge 1",
    "settings approve",
    "add something --command true",
    "up",
    "summary approve agent-T001",
    "instances terminate agent-T002",
)
LOOKS = ("show agent-T001", "ps", "pr list", "settings", "audit")


def test_an_agent_gives_no_order_of_a_person_and_may_look(finished: World) -> None:
    world = finished
    steps = []
    for order in (*ORDERS, *LOOKS):
        told = f"{world.folder}/{order.replace(' ', '-')}"
        line = f"mv {world.folder}/code {told}.code; mv {world.folder}/said {told}.said"
        steps.append({"run": ["sh", "-c", f"{_asking(world, order=order)}; {line}"]})
    agent = world.script("second", [*steps, {"commit": "x"}, DONE])
    world.call("run", "Second", "--command", agent)
    for order in (*ORDERS, *LOOKS):
        name = order.replace(" ", "-")
        code, said = ((world.folder / f"{name}.{kind}").read_text() for kind in ("code", "said"))
        assert code.strip() == ("2" if order in ORDERS else "0"), said
        assert "only a person" in said or order in LOOKS
    assert len(world.json("ps", "--all")["lifecycles"]) == 2
    assert {order.split()[0] for order in ORDERS} - set(_refusals(world)) == {"up"}
    assert "run" in _refusals(world)


def test_a_test_suite_that_runs_loopwright_elsewhere_works_in_a_gate(
    finished: World, tmp_path: Path
) -> None:
    world = finished
    (tmp_path / "inner").mkdir()
    inner = World(tmp_path / "inner")
    agent = inner.script("agent", [{"write": "in.txt"}, {"commit": "In"}, DONE])
    suite = (
        f"cd {inner.repo} && {LOOPWRIGHT} run inside --command '{agent}' && "
        f"{LOOPWRIGHT} accept agent-T001"
    )
    outer = world.script("second", [{"commit": "x"}, DONE])
    world.call("run", "Second", "--command", outer, "--verify", suite, "--max-retries", "0")
    assert world.row("agent-T002")["work_kind"] == "Completed"
    assert (inner.repo / "in.txt").exists()


def test_a_person_may_even_inside_of_another_program(finished: World) -> None:
    assert main(["accept", "agent-T001", "--repo", str(finished.repo)]) == 0


def test_the_api_takes_no_order_of_an_agent(finished: World) -> None:
    world = finished
    asked, answer = world.folder / "asked", world.folder / "answer"
    line = (
        f"while [ ! -s {asked} ]; do sleep 0.05; done; "
        f"env -i {sys.executable} -c '{POST}' $(cat {asked}) {answer}"
    )
    steps = [{"run": ["sh", "-c", line]}, {"commit": "x"}, DONE]
    command = json.dumps(world.script("second", steps).split())
    plan = world.plan(f'[agents.default]\ncommand = {command}\n[[tasks]]\nid = "T002"\n')
    with world.live("up", plan, "--port", "0") as live:
        url, token = _server(live)
        asked.write_text(f"{url} {token} agent-T001")
        told = until(lambda: answer.exists() and answer.read_text(), "the API answered the agent")
        assert told.startswith("403")
        assert "person" in told
        live.ends(0)
    assert world.row()["work_kind"] == "Completed"
    assert "accept" in _refusals(world)
