"""What the coordinator hands over: what work builds on, what names mean, and what may be used."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import AsyncMock, Mock

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.budget import HOUR
from lifecycle.machine.states import (
    BackingOff,
    Blocked,
    Completed,
    Signal,
    Stopping,
    Verifying,
)
from lifecycle.owner.remote_owner import RemoteOwner
from lifecycle.perform.performer import Performer
from lifecycle.plan import Task
from lifecycle.record import AgentLifecycle, PendingEffect
from lifecycle.settings import Settings
from lifecycle.setup.plans import APPROVED
from lifecycle.worker.assigned_machine import assigned
from lifecycle.worker.branch_travel import BranchTravel, OutOfReachError
from lifecycle.worker.build import worker_machine
from runtime.agents.outcome import Ending
from runtime.remote.remote import PushOutcome
from tests.lifecycle.worker.deciding import worker_in
from tests.lifecycle.worker.shop import BRANCH, Coordinated, Shop, works
from tests.lifecycle.world import AGENT, HANG, World, git, says

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lifecycle.worker.worker import Worker

AS_EVE = ("-c", "user.name=Eve", "-c", "user.email=eve@example.org")


@asynccontextmanager
async def coordinated(
    world: World, shop: Shop, decider: Coordinated
) -> AsyncIterator[tuple[Coordinated, Worker]]:
    """Open the coordinator in the user's repository, and a worker in a clone of the remote."""
    world.git("remote", "add", "origin", str(shop.bare))
    told = decider.settings
    async with (
        worker_machine(world.repo, name="coordinator", settings=told) as (machine, travel),
        worker_in(shop.clone("one"), "one", decider) as worker,
    ):
        decider.machine, decider.travel = machine, travel
        yield decider, worker


def committed(world: World, name: str) -> str:
    (world.repo / name).write_text(f"{name}\n")
    world.git("add", name)
    world.git("commit", "-qm", name)
    return world.git("rev-parse", "HEAD")


async def test_what_the_work_builds_on_comes_along_from_the_coordinators_clone(
    world: World,
) -> None:
    joins = {"run": ["sh", "-c", "cat base.txt dep.txt > one.txt"]}
    waits = says("blocked", blocked_on=["other", "ci"], reason="waits")
    shop = Shop(world, {1: [joins, {"commit": "both"}, waits]})
    committed(world, "base.txt")
    world.git("checkout", "-qb", "dep")
    head = committed(world, "dep.txt")
    world.git("checkout", "-q", "main")
    task = Task(id="T001", title="Calculator", dependencies=["T000"])
    made = Coordinated(task, shop.decider.agent, shop.decider.settings, "")
    async with coordinated(world, shop, made) as (decider, worker):
        done = AgentLifecycle(agent_id="other", task="Before", task_id="T000")
        done.work, done.facts = Completed(summary="done", head=head), {"base_branch": "main"}
        done.derive()
        shared = decider.machine.shared
        await shared.store.create(done)
        shared.completed["T000"] = "Before"
        # What came along is on no branch there, so only a ref of ours can have brought it.
        assert git(shop.bare, "branch", "--contains", "main") == "* main"
        assert isinstance(await decider.visit(worker, "a.1"), Blocked)
    assert shop.there(f"{BRANCH}:one.txt") == "base.txt\ndep.txt"
    facts = decider.copy.record.facts
    assert (facts["base_branch"], facts["base_commit"]) == ("main", head)
    (taken,) = [each for each in decider.facts if isinstance(each, on.SnapshotTaken)]
    assert (taken.blocked_on, taken.tasks, taken.joined) == (("T000", "ci"), ("T000",), ("T000",))


async def test_an_attempt_is_ended_where_it_uses_up_a_budget(world: World) -> None:
    shop = Shop(world, {1: [HANG]})
    told = Settings(budget_hours=0.5 / HOUR)
    made = Coordinated(Task(id="T001", title="Calculator"), shop.decider.agent, told, "")
    async with coordinated(world, shop, made) as (decider, worker):
        await decider.visit(worker, "a.1", works)
        await decider.go_on(worker, lambda state: isinstance(state, Stopping))
        await decider.go_on(worker, lambda _: False)
    (doomed,) = [each for each in decider.facts if isinstance(each, on.AttemptDoomed)]
    assert doomed.ended is Ending.BUDGET
    assert doomed.text.startswith("budget of the lifecycle: ")


async def test_what_a_person_approves_of_a_workers_commit_goes_to_the_next_worker(
    world: World,
) -> None:
    shop = Shop(world, {})
    told = shop.decider.settings.model_copy(update={"setup": ("true",)})
    made = Coordinated(Task(id="T001", title="Calculator"), shop.decider.agent, told, "")
    async with coordinated(world, shop, made) as (decider, _):
        one = world.folder / "one"
        (one / "uv.lock").write_text("newer\n")
        git(one, "add", "uv.lock")
        git(one, *AS_EVE, "commit", "-qm", "newer")
        git(one, "push", "-q", "origin", f"HEAD:refs/heads/{BRANCH}")
        head = git(one, "rev-parse", "HEAD")
        asked = Verifying(word=Signal(type="task_complete"), head=head, setup_approved=True)
        decider.copy.record.work = BackingOff(until=0.0, why="approved", verify=asked)
        given = await decider.given("a.1")
    assert set(given.approved.values()) == {head}


async def test_a_set_up_that_a_person_approved_is_approved_on_every_worker(world: World) -> None:
    shop = Shop(world, {})
    agent, told = shop.decider.agent, shop.decider.settings
    made = Coordinated(Task(id="T001", title="Calculator"), agent, told, "")
    async with coordinated(world, shop, made) as (decider, _):
        commit = committed(world, "uv.lock")
        await decider.machine.shared.store.put(APPROVED, "inputs", {"commit": commit})
        given = await decider.given("a.1")
        clone = shop.clone("two")
        async with worker_machine(clone, name="two", settings=told) as (machine, travel):
            there = await assigned(machine, given)
            await travel.bring(given, given.local_copy(), latest=False)
            known = await there.shared.store.all(APPROVED)
    assert known == {"inputs": {"commit": commit}}
    assert git(clone, "cat-file", "-t", commit) == "commit"
    assert given.agent_id == AGENT


async def test_of_work_that_is_over_the_remote_keeps_saved_refs_alone(world: World) -> None:
    shop = Shop(
        world, {1: [{"run": ["touch", "one.txt"]}, {"commit": "one"}, says("task_complete")]}
    )
    committed(world, "base.txt")  # on no branch there
    task = Task(id="T001", title="Calculator", verify=("test -e one.txt",))
    made = Coordinated(task, shop.decider.agent, shop.decider.settings, "")
    async with coordinated(world, shop, made) as (decider, worker):
        assert isinstance(await decider.visit(worker, "a.1"), Completed)
        head = git(shop.bare, "rev-parse", BRANCH)
        assert refs_of(shop.bare) == {"heads", "given"}
        machine, travel = decider.machine, decider.travel
        owner = RemoteOwner(
            (await decider.given("a.2")).local_copy(),
            machine.shared,
            Performer(machine),
            Mock(),
            Mock(),
            drop=partial(travel.drop, branch=True),
        )
        await owner._carry_out(
            PendingEffect(effect_id="e", agent_id=AGENT, effect=do.RemoveWorkspace())
        )
        await travel.drop(AGENT, branch=True)  # once more, as after a crash
        assert worker._travel is not None
        await worker._travel.forget(AGENT)
    assert refs_of(shop.bare) == {"saved"}
    assert git(shop.bare, "rev-parse", f"refs/loopwright/saved/{AGENT}/head-{head[:12]}") == head
    assert "given" not in refs_of(shop.folder / "one")


def refs_of(repo: Path) -> set[str]:
    """Return the kinds of refs that a repository has of the agent."""
    names = git(repo, "for-each-ref", "--format=%(refname)").splitlines()
    return {
        each.removeprefix("refs/loopwright/").removeprefix("refs/").partition("/")[0]
        for each in names
        if AGENT in each
    }


async def test_a_branch_that_the_remote_never_takes_is_a_shortage_and_no_endless_push() -> None:
    remote, branches, workspaces = Mock(), Mock(), Mock()
    refused = PushOutcome(done=False, reason="refs/heads/agent is in the way", beaten=True)
    remote.push = AsyncMock(return_value=refused)
    remote.fetch, branches.head = AsyncMock(return_value=None), AsyncMock(return_value="b" * 40)
    local = Mock(agent_id=AGENT)
    local.record.facts = {"branch": BRANCH, "base_commit": "a" * 40}
    with pytest.raises(OutOfReachError, match="is in the way"):
        await BranchTravel(workspaces, branches, remote).publish(local)
    assert remote.push.await_count == 1
