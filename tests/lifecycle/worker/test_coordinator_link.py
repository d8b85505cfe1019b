"""A worker with a clone of its own is seen at the coordinator, and so is what its attempts left."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from lifecycle.machine.states import Completed, Working
from lifecycle.plan import Task
from lifecycle.record import placed
from lifecycle.settings import Settings
from lifecycle.worker.build import worker_machine
from lifecycle.worker.coordinator_link import CoordinatorLink
from lifecycle.worker.upload import CoordinatorAddress
from lifecycle.worker.worker import Worker
from tests.lifecycle.worker.deciding import Decider
from tests.lifecycle.world import AGENT, DONE, World, commit, git
from tests.orchestrator.web.webkit import WORKER_TOKEN, site
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.machine.states import State
    from tests.orchestrator.web.webkit import Site


async def test_logs_summaries_and_gates_of_a_worker_are_read_at_the_coordinator(
    world: World, tmp_path: Path
) -> None:
    bare, clone = world.folder / "bare.git", world.folder / "clone"
    git(world.folder, "clone", "-q", "--bare", str(world.repo), str(bare))
    git(world.folder, "clone", "-q", str(bare), str(clone))
    agent = world.agent({1: [{"say": "hello from afar"}, *commit("one.txt"), DONE]})
    task = Task(id="T001", title="Calculator", verify=("echo the gate; test -e one.txt",))
    settings = Settings.model_validate({"retry_interval": 0.0, "canary": "off"})
    decider = Decider(task, agent, settings, git(bare, "rev-parse", "main"))
    (folder := tmp_path / "coordinator").mkdir()
    async with site(folder) as found:
        to = CoordinatorAddress(found.server.url, WORKER_TOKEN, "a")
        link = CoordinatorLink(
            to=to, version="1", labels=("linux",), lacks=("y" * 600,), grace=60.0
        )
        async with worker_machine(clone, name="a", settings=settings) as (machine, travel):
            worker = Worker(machine, tell=decider.tell, lease=60.0, travel=travel)
            await worker.start()
            try:
                async with link.opened(machine, worker):
                    await until(lambda: seen(found), "the coordinator heard of the worker")
                    await decider.visit(worker, "a.1", works)
                    await known_at(found, decider)
                    await decider.go_on(worker, lambda _: False)
                    assert isinstance(decider.state, Completed)
                    await worker.end("a.1")
                assert await found.store.workers.all() == ()  # it said goodbye
            finally:
                await worker.aclose()
                await decider.aclose()
        base = f"/api/v1/lifecycles/{AGENT}"
        assert "hello from afar" in (await found.client.get(f"{base}/attempts/1/log")).text
        assert "Calculator" in (await found.client.get(f"{base}/summaries/1")).text
        gate = found.engine.machine.paths.gate_log(AGENT, 1, 1)
        assert gate.read_text() == "the gate\n"


async def seen(found: Site) -> bool:
    """Tell whether the board has the worker."""
    return [each["name"] for each in (await found.get("/board"))["workers"]] == ["a"]


def works(state: State) -> bool:
    """Tell whether an agent works."""
    return isinstance(state, Working)


async def known_at(found: Site, decider: Decider) -> None:
    """Have the record at the coordinator, as it is once the worker has the first attempt."""
    record = copy.deepcopy(decider.copy.record)
    record.facts, record.work = placed(record.facts, "a", "a", 1), decider.state
    record.derive()
    await found.store.create(record)
