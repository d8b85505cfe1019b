"""What a person types: `up --engine temporal` in one clone, `worker` in others of one remote."""

from __future__ import annotations

import copy
import re
import signal
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestrator.loopkit import BLOCK, DONE, World, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tests.orchestrator.loopkit import Live

pytestmark = pytest.mark.timeout(400)
LEASE = 3
PATIENCE = 90.0


class Machines:
    """A bare remote, the clone of the coordinator, and clones of workers."""

    def __init__(self, folder: Path, address: str) -> None:
        self.world = World(folder)
        self.bare = folder / "bare.git"
        self.world.git("clone", "-q", "--bare", ".", str(self.bare))
        self.world.git("remote", "add", "origin", str(self.bare))
        self.env: dict[str, Any] = {
            "LOOPWRIGHT_TEMPORAL_ADDRESS": address,
            "LOOPWRIGHT_LEASE": str(LEASE),
        }

    def clone(self, name: str) -> World:
        there = copy.copy(self.world)
        there.repo = self.world.folder / name
        if not there.repo.exists():
            self.world.git("clone", "-q", str(self.bare), str(there.repo))
        return there

    @contextmanager
    def worker(self, name: str, *more: str) -> Iterator[Live]:
        with self.clone(name).live("worker", "--name", name, *more, **self.env) as live:
            live.says(f"worker {name} waits for work")
            yield live

    def coordinator(self, *args: str) -> AbstractContextManager[Live]:
        return self.world.live("up", *args, "--engine", "temporal", **self.env)

    def has_ended(self, live: Live, code: int = 0) -> None:
        until(lambda: live.process.poll() is not None, self.logs, PATIENCE)
        assert live.process.wait(1) == code, self.logs()

    def logs(self) -> str:
        logs = sorted(self.world.folder.glob("*.err"))
        return "\n".join(f"== {each.name}\n{each.read_text()[-3000:]}" for each in logs)

    def printed(self, name: str) -> str:
        """Return what agents of a worker printed."""
        logs = (self.world.folder / name / ".loopwright" / "logs").rglob("*.log")
        return "".join(each.read_text() for each in logs)

    def rows(self) -> dict[str, dict[str, Any]]:
        listed = self.world.json("ps", "--all")["lifecycles"]
        return {row["task_id"]: row for row in listed}


def done_by(name: str, gate: Path | None = None) -> dict[str, Any]:
    """Return an agent that fails once, or waits for a file; then it commits one and is done."""
    steps: list[object] = [{"write": {"path": f"{name}.txt", "text": "yes"}}]
    if gate is not None:
        steps += [{"wait_file": {"path": str(gate), "s": 300}}]
    steps += [{"commit": name}, DONE]
    return {"attempts": {**({} if gate else {"1": [{"exit": 1}]}), "default": steps}}


@pytest.fixture
def machines(tmp_path: Path, temporal_address: str) -> Machines:
    return Machines(tmp_path, temporal_address)


def test_tasks_are_done_by_workers_and_accepted_where_the_records_are(machines: Machines) -> None:
    world, names = machines.world, ("T001", "T002")
    plan = world.plan_of(
        {name: done_by(name) for name in names},
        {"T001": {"verify": ["test -e T001.txt"]},
         "T002": {"verify": ["test -e T002.txt"], "label": "gpu"}},
    )  # fmt: skip
    with ExitStack() as stack:
        workers = [
            stack.enter_context(machines.worker("a")),
            stack.enter_context(machines.worker("b", "--label", "gpu")),
        ]
        with machines.coordinator(plan) as up:
            machines.has_ended(up)
        for worker in workers:
            worker.signal(signal.SIGTERM)
        for worker in workers:
            machines.has_ended(worker, 143)
            assert "drained" in worker.err
    rows = machines.rows()
    assert {row["state"] for row in rows.values()} == {"done"}
    assert rows["T001"]["worker"] in ("a", "b")
    assert rows["T002"]["worker"] == "b"
    assert [rows[name]["retry_count"] for name in names] == [1, 1]
    world.call("accept", *names)
    assert [world.git("show", f"HEAD:{name}.txt") for name in names] == ["yes", "yes"]


def test_what_no_worker_can_take_is_told_with_what_is_missing(machines: Machines) -> None:
    world, told = machines.world, machines.world.folder / "told"
    plan = world.plan_of(
        {"T001": done_by("T001"), "T002": done_by("T002")}, {"T002": {"label": "gpu"}}
    )
    channel = f"[[notify]]\nname = 'f'\ncommand = ['sh', '-c', 'cat >> {told}']\n"
    config = world.folder / "config" / "loopwright" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(channel)
    machines.env["XDG_CONFIG_HOME"] = str(world.folder / "config")
    with machines.coordinator(plan) as up:
        up.says("no worker is up: begin one with `loopwright worker --name NAME`")

        def notified(*texts: str) -> bool:
            return told.exists() and all(each in told.read_text() for each in texts)

        label = "T002: no worker with the label gpu is up"
        until(lambda: notified("T001: no worker is up", label), machines.logs)
        with machines.worker("a"):
            up.says("agent-T002 waits: no worker with the label gpu is up")
            assert "no worker with the label gpu" in machines.rows()["T002"]["waiting_for"]
            why = world.call("show", "T002", "--why").stdout
            assert "begin one with `loopwright worker --name NAME --label gpu`" in why
            until(lambda: "no worker" not in machines.rows()["T001"]["waiting_for"], machines.logs)
            with machines.worker("b", "--label", "gpu"):
                machines.has_ended(up)
    assert {row["state"] for row in machines.rows().values()} == {"done"}


def test_after_kill_9_of_a_worker_its_task_goes_on_at_another(machines: Machines) -> None:
    world, gate = machines.world, machines.world.folder / "gate"
    plan = world.plan_of({"T001": done_by("T001", gate)})
    with ExitStack() as stack:
        workers = {name: stack.enter_context(machines.worker(name)) for name in ("a", "b")}
        up = stack.enter_context(machines.coordinator(plan))
        world.comes_to("Working")
        first = until(lambda: machines.rows()["T001"]["worker"], machines.logs)
        workers[first].process.kill()
        gate.touch()
        machines.has_ended(up)
    row = machines.rows()["T001"]
    assert (row["state"], row["retry_count"]) == ("done", 0)
    assert {first, row["worker"]} == {"a", "b"}


def test_ctrl_c_of_up_leaves_no_agent_alive_at_any_worker(machines: Machines) -> None:
    world, gate = machines.world, machines.world.folder / "gate"
    plan = world.plan_of({"T001": done_by("T001", gate)})
    with machines.worker("a") as worker:
        with machines.coordinator(plan) as up:
            world.comes_to("Working")
            agent = until(lambda: re.search(r"started \(pid (\d+)\)", up.err), machines.logs)[1]
            up.signal(signal.SIGINT)
            machines.has_ended(up, 130)
        assert not Path("/proc", agent).exists()
        until(lambda: "handed on" in worker.err, machines.logs)
        drained = machines.clone("a").call("worker", "--name", "a", "--drain")
        assert "has ended" in drained.stderr
        machines.has_ended(worker, 143)
    gate.touch()
    with machines.worker("a"), machines.coordinator(plan) as up:
        machines.has_ended(up)
    assert machines.rows()["T001"]["state"] == "done"


def test_without_a_coordinator_nobody_touches_what_a_worker_has(
    machines: Machines,
) -> None:
    world, gate = machines.world, machines.world.folder / "gate"
    plan = world.plan_of({"T001": done_by("T001", gate)})
    with machines.worker("a"):
        with machines.coordinator(plan) as up:
            world.comes_to("Working")
            agent = until(lambda: re.search(r"started \(pid (\d+)\)", up.err), machines.logs)[1]
            until(lambda: machines.rows()["T001"]["worker"], machines.logs)
            up.process.kill()
            up.process.wait()
        refused = world.call("stop", "T001", code=2)
        assert "worker a has agent-T001, and no coordinator is alive" in refused.stderr
        world.call("up", plan, code=None)  # which forgets to name the engine
        assert Path("/proc", agent).exists()
        with machines.coordinator() as up:
            gate.touch()
            machines.has_ended(up)
    row = machines.rows()["T001"]
    assert (row["state"], row["retry_count"], row["attempts"]) == ("done", 0, 1)


def test_a_second_ctrl_c_ends_a_worker_at_once(machines: Machines) -> None:
    world = machines.world
    stubborn = {"attempts": {"default": [{"ignore_term": {}}, {"say": "deaf"}, {"hang": {}}]}}
    plan = world.plan_of({"T001": stubborn})
    machines.env["LOOPWRIGHT_STOP_GRACE"] = "300"
    with machines.worker("a") as worker, machines.coordinator(plan) as up:
        world.comes_to("Working")
        agent = until(lambda: re.search(r"started \(pid (\d+)\)", up.err), machines.logs)[1]
        until(lambda: "deaf" in machines.printed("a"), machines.logs)
        worker.signal(signal.SIGINT)
        worker.says("draining")

        def ended() -> bool:
            if worker.process.poll() is None:
                worker.signal(signal.SIGINT)
            return worker.process.poll() is not None

        until(ended, machines.logs)
        assert worker.process.wait(1) == 130, machines.logs()
        assert not Path("/proc", agent).exists()
        up.process.kill()


def test_people_are_heard_while_the_remote_cannot_be_reached(machines: Machines) -> None:
    world, away = machines.world, machines.bare.with_name("away.git")
    agent = {"attempts": {"1": [BLOCK], "default": [{"commit": "T001"}, DONE]}}
    plan = world.plan_of({"T001": agent})
    with machines.worker("a"), machines.coordinator(plan) as up:
        world.comes_to("Blocked")
        machines.bare.rename(away)
        world.call("unblock", "T001", "it is there")
        up.says("waiting and retrying")
        world.call("pause", "T001")
        world.comes_to("Suspended")
        world.call("resume", "T001")
        world.comes_to("BackingOff")
        up.signal(signal.SIGINT)
        machines.has_ended(up, 130)
        with machines.coordinator(plan) as again:
            again.says("waiting and retrying")
            world.call("pause", "T001")
            world.comes_to("Suspended")
            away.rename(machines.bare)
            world.call("resume", "T001")
            machines.has_ended(again)
    row = machines.rows()["T001"]
    assert (row["state"], row["retry_count"]) == ("done", 0)


REFUSALS = {
    "no address of a server": ({"LOOPWRIGHT_TEMPORAL_ADDRESS": ""}, "needs temporal_address"),
    "no server": ({"LOOPWRIGHT_TEMPORAL_ADDRESS": "127.0.0.1:9"}, "no Temporal server answers"),
    "no namespace": ({"LOOPWRIGHT_TEMPORAL_NAMESPACE": "other"}, "has no namespace other"),
    "no remote": ({"LOOPWRIGHT_REMOTE": "upstream"}, 'no remote "upstream"'),
    "no variable": ({"LOOPWRIGHT_PASS_ENV": "OUR_KEY"}, "not set here: OUR_KEY"),
    "no program": ({"LOOPWRIGHT_COMMAND": "no-such-agent"}, "no-such-agent is not on PATH"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_worker_says_what_is_missing_and_begins_nothing(machines: Machines, case: str) -> None:
    given, said = REFUSALS[case]
    with machines.clone("a").live("worker", "--name", "a", **{**machines.env, **given}) as live:
        machines.has_ended(live, 2)
        assert said in live.err
        assert len(live.err.splitlines()) == 1


def test_a_clone_has_one_worker(machines: Machines) -> None:
    with machines.worker("a"):
        with machines.clone("a").live("worker", "--name", "b", **machines.env) as other:
            machines.has_ended(other, 75)
            assert "worker a" in other.err
        refused = machines.clone("a").call("worker", "--name", "b", "--drain", code=2)
        assert "is not worker b but worker a" in refused.stderr
