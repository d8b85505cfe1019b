"""Workers with clones of one remote: work moves between them, and nothing of it is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.attempt_events import Fault
from lifecycle.machine.states import BackingOff, Capturing, Completed, Verifying, Working
from lifecycle.plan import Task
from lifecycle.record import PendingEffect
from lifecycle.worker.visit import AssignmentOverError
from tests.lifecycle.worker.deciding import Decider, worker_in
from tests.lifecycle.worker.shop import BRANCH, Shop, works
from tests.lifecycle.world import AGENT, DONE, HANG, World, commit, git
from tests.waiting import until

if TYPE_CHECKING:
    from lifecycle.machine.states import State
    from tests.lifecycle.world import Step

DRAFT: Step = {"write": {"path": "draft", "text": "half done\n"}}
AS_EVE = ("-c", "user.name=Eve", "-c", "user.email=eve@example.org")
FAILS: Step = {"exit": 1}


@pytest.mark.parametrize("next_on", ["one", "two"])
async def test_a_branch_that_is_gone_at_the_remote_is_lost_only_where_nobody_has_it(
    world: World, next_on: str
) -> None:
    shop = Shop(world, {1: [*commit("one.txt"), FAILS], 2: [DONE]})
    decider = shop.decider
    one, two = shop.clone("one"), shop.clone("two")
    async with worker_in(one, "one", decider) as first, worker_in(two, "two", decider) as second:
        await decider.visit(first, "a.1")
        git(shop.bare, "update-ref", "-d", f"refs/heads/{BRANCH}")
        state = await decider.visit({"one": first, "two": second}[next_on], "a.2")
    if next_on == "one":
        assert isinstance(state, Completed)
        assert shop.there(f"{BRANCH}:one.txt") == "x"
    else:
        assert isinstance(state, BackingOff)
        assert f"{BRANCH} is not at the remote any more" in state.why
        assert "push it there again" in state.why
        assert (state.tally.retry_count, state.tally.faults) == (1, 1)


async def test_what_somebody_else_pushed_meanwhile_is_never_overwritten(world: World) -> None:
    shop = Shop(world, {1: [*commit("one.txt"), DONE]})
    decider = shop.decider
    async with worker_in(shop.clone("one"), "one", decider) as worker:
        await decider.visit(worker, "a.1", works)
        other = shop.clone("other")
        git(other, *AS_EVE, "commit", "-q", "--allow-empty", "-m", "mine")
        git(other, "push", "-q", "origin", f"HEAD:refs/heads/{BRANCH}")
        theirs = git(other, "rev-parse", "HEAD")

        def refused(state: State) -> bool:
            return isinstance(state, Capturing) and state.again_at is not None

        await decider.go_on(worker, refused)
        (failed,) = [each for each in decider.facts if isinstance(each, on.SnapshotFailed)]
        assert f"somebody else moved {BRANCH}" in failed.text
        assert git(shop.bare, "rev-parse", BRANCH) == theirs
        ours = git(shop.workspace("one"), "rev-parse", "HEAD")
        assert shop.there(f"refs/loopwright/saved/{AGENT}/head-{ours[:12]}:one.txt") == "x"
        git(other, "fetch", "-q", "origin", f"refs/loopwright/saved/{AGENT}/*:refs/ours/*")
        git(other, *AS_EVE, "merge", "-q", "--no-edit", f"refs/ours/head-{ours[:12]}")
        git(other, "push", "-q", "origin", f"HEAD:refs/heads/{BRANCH}")
        again = PendingEffect(
            effect_id="again", agent_id=AGENT, effect=do.TakeSnapshot(attempt=1, blocked_on=())
        )
        assert isinstance(await worker.perform("a.1", again, decider.news()), on.SnapshotTaken)
    assert decider.state.tally.retry_count == 0


async def test_work_goes_on_on_another_machine(world: World) -> None:
    shop = Shop(world, {1: [*commit("one.txt"), DRAFT, FAILS], 2: [*commit("two.txt"), DONE]})
    decider = shop.decider
    one, two = shop.clone("one"), shop.clone("two")
    async with worker_in(one, "one", decider) as first, worker_in(two, "two", decider) as second:
        assert isinstance(await decider.visit(first, "a.1"), BackingOff)
        assert shop.there(f"{BRANCH}:one.txt") == "x"
        assert shop.there(f"refs/loopwright/saved/{AGENT}/1:draft") == "half done"
        assert isinstance(await decider.visit(second, "a.2"), Completed)
    assert shop.there(f"{BRANCH}:one.txt") + shop.there(f"{BRANCH}:two.txt") == "xx"
    assert decider.state.tally.retry_count == 1
    assert decider.copy.record.facts["base_branch"] == "main"
    assert [row.commits for row in decider.copy.ledger] == [1, 1]


async def test_what_is_left_of_accepted_work_is_removed_where_another_agent_begins(
    world: World,
) -> None:
    shop = Shop(world, {1: [*commit("one.txt"), DRAFT, DONE], 2: [DONE]})
    decider, one = shop.decider, shop.clone("one")
    other = Decider(
        Task(id="T002", title="Other"),
        world.agent([HANG], agent_id="agent-T002"),
        decider.settings,
        decider.base,
    )
    async with worker_in(one, "one", decider) as worker:
        await decider.visit(worker, "a.1")
        assert shop.workspace("one").exists()
        head = git(one, "rev-parse", BRANCH)
        await worker.begin(replace(await other.given("b.1"), over=(AGENT,)))
        await until(lambda: not shop.workspace("one").exists())
        await until(lambda: git(one, "for-each-ref", f"refs/heads/{BRANCH}") == "")
    assert shop.there(f"{BRANCH}:one.txt") == "x"
    kept = git(one, "for-each-ref", "--format=%(objectname)", f"refs/loopwright/saved/{AGENT}/head")
    assert kept == head


async def test_a_program_that_is_not_on_this_worker_may_be_on_another_one(world: World) -> None:
    shop = Shop(world, {})
    shop.decider.copy.record.facts["agent"]["command"] = ["no-such-program"]
    async with worker_in(shop.clone("one"), "one", shop.decider) as worker:
        state = await shop.decider.visit(worker, "a.1")
    assert isinstance(state, BackingOff), state
    assert "no-such-program" in state.why
    assert "on worker one; another one may have it" in state.why
    assert (state.tally.retry_count, state.tally.faults) == (0, 1)


async def test_a_remote_out_of_reach_is_waited_for_and_costs_nothing(world: World) -> None:
    shop = Shop(world, {1: [*commit("one.txt"), DONE]})
    decider, away = shop.decider, shop.folder / "away.git"

    def put_off(state: State) -> bool:
        return isinstance(state, Capturing) and state.again_at is not None

    async with worker_in(shop.clone("one"), "one", decider) as worker:
        await decider.visit(worker, "a.1", works)
        shop.bare.rename(away)
        await decider.go_on(worker, put_off)
        (failed,) = [each for each in decider.facts if isinstance(each, on.SnapshotFailed)]
        assert failed.fault is Fault.SHORTAGE
        assert "bare.git" in failed.text
        away.rename(shop.bare)
        again = PendingEffect(
            effect_id="again", agent_id=AGENT, effect=do.TakeSnapshot(attempt=1, blocked_on=())
        )
        taken = await worker.perform("a.1", again, decider.news())
        assert isinstance(taken, on.SnapshotTaken)
        assert shop.there(f"{BRANCH}:one.txt") == "x"
    assert decider.state.tally.retry_count == decider.state.tally.faults == 0


async def test_a_branch_that_cannot_be_fetched_is_waited_for_and_costs_nothing(
    world: World,
) -> None:
    shop = Shop(world, {1: [*commit("one.txt"), FAILS], 2: [DONE]})
    decider, away = shop.decider, shop.folder / "away.git"
    one, two = shop.clone("one"), shop.clone("two")
    async with worker_in(one, "one", decider) as first, worker_in(two, "two", decider) as second:
        await decider.visit(first, "a.1")
        charged = decider.state.tally.retry_count
        shop.bare.rename(away)
        state = await decider.visit(second, "a.2")
        assert isinstance(state, BackingOff)
        assert "bare.git" in state.why
        assert (state.tally.retry_count, state.tally.faults) == (charged, 0)
        away.rename(shop.bare)
        assert isinstance(await decider.visit(second, "a.3"), Completed)


async def test_a_worker_that_is_not_heard_ends_its_agent_and_tells_and_pushes_nothing(
    world: World,
) -> None:
    shop = Shop(world, {1: [*commit("one.txt"), DRAFT, HANG], 2: [DONE]})
    decider = shop.decider
    one, two = shop.clone("one"), shop.clone("two")
    async with (
        worker_in(one, "one", decider, lease=6.0) as first,
        worker_in(two, "two", decider) as second,
    ):
        await decider.visit(first, "a.1", works)
        await until((shop.workspace("one") / "draft").exists)
        known = len(decider.facts)
        await until(lambda: not first.assignments())
        assert isinstance(decider.state, Working)
        end = do.StopAgent(attempt=1, process=decider.state.process)
        stop = PendingEffect(effect_id="stop", agent_id=AGENT, effect=end)
        with pytest.raises(AssignmentOverError):
            await first.perform("a.1", stop, decider.news())
        first.confirmed("a.1")
        assert first.assignments() == ()
        await until(lambda: git(one, "for-each-ref", f"refs/loopwright/saved/{AGENT}/1"))
        assert git(one, "show", f"refs/loopwright/saved/{AGENT}/1:draft") == "half done"
        assert len(decider.facts) == known
        assert git(shop.bare, "for-each-ref", "refs/heads/agent/", "refs/loopwright/") == ""
        assert isinstance(await decider.visit(second, "a.2"), BackingOff)
    tally = decider.state.tally
    assert (tally.retry_count, tally.interruptions, tally.attempt) == (0, 1, 1)
    # Back in touch, it brings to safety what was only there; the branch is no longer its own.
    async with worker_in(one, "one", decider):
        head = git(one, "rev-parse", BRANCH)
        saved = f"refs/loopwright/saved/{AGENT}"
        assert shop.there(f"{saved}/head-{head[:12]}:one.txt") == "x"
        assert shop.there(f"{saved}/1:draft") == "half done"
        assert git(shop.bare, "for-each-ref", "refs/heads/agent/") == ""


async def test_an_order_that_is_delivered_twice_is_carried_out_once(world: World) -> None:
    shop = Shop(world, {1: [HANG]})
    decider = shop.decider
    async with worker_in(shop.clone("one"), "one", decider) as worker:
        await decider.visit(worker, "a.1", works)
        spawned = next(each for each in decider.facts if isinstance(each, on.AgentSpawned))
        order = PendingEffect(
            effect_id=spawned.process.spawn_id, agent_id=AGENT, effect=do.SpawnAgent(attempt=1)
        )
        assert await worker.perform("a.1", order, decider.news()) == spawned
        look = PendingEffect(effect_id="x", agent_id=AGENT, effect=do.LookAtPullRequest(number=1))
        with pytest.raises(Exception, match="no worker performs it"):
            await worker.perform("a.1", look, decider.news())
        with pytest.raises(AssignmentOverError, match=r"no assignment a\.2"):
            await worker.perform("a.2", order, decider.news())


async def test_a_drained_worker_hands_its_work_on_and_nobody_is_charged(world: World) -> None:
    shop = Shop(world, {1: [*commit("one.txt"), DRAFT, HANG]})
    decider = shop.decider
    async with worker_in(shop.clone("one"), "one", decider) as worker:
        await decider.visit(worker, "a.1", works)
        await until((shop.workspace("one") / "draft").exists)
        await worker.drain()
        await decider.go_on(worker, lambda _: False)
        await worker.end("a.1")
        assert isinstance(decider.state, BackingOff)
        with pytest.raises(AssignmentOverError, match="drained"):
            await decider.begin(worker, "a.2")
    tally = decider.state.tally
    assert (tally.retry_count, tally.interruptions, tally.attempt) == (0, 1, 1)
    assert shop.there(f"{BRANCH}:one.txt") == "x"
    assert shop.there(f"refs/loopwright/saved/{AGENT}/1:draft") == "half done"


async def test_gates_of_a_drained_worker_run_on_the_next_one(world: World) -> None:
    shop = Shop(world, {1: [*commit("one.txt"), DONE]})
    began, go = world.folder / "began", world.folder / "go"
    gate = f"touch {began}; test -e {go} || sleep 600"
    task = Task(id="T001", title="Calculator", verify=[gate])
    told = shop.decider.settings.model_copy(update={"baseline": False})
    decider = Decider(task, shop.decider.agent, told, shop.decider.base)
    one, two = shop.clone("one"), shop.clone("two")
    async with worker_in(one, "one", decider) as first, worker_in(two, "two", decider) as second:
        await decider.visit(first, "a.1", lambda state: isinstance(state, Verifying))
        await until(began.exists)
        await first.drain()
        await first.until_over("a.1")
        assert first.assignments() == ()
        go.touch()
        assert isinstance(await decider.visit(second, "a.2"), Completed)
    tally = decider.state.tally
    assert (tally.retry_count, tally.faults) == (0, 0)
    assert sum(isinstance(each, on.AgentSpawned) for each in decider.facts) == 1


async def test_of_two_workers_on_one_host_neither_ends_what_is_the_others(world: World) -> None:
    shop = Shop(world, {1: [HANG]})
    decider, one = shop.decider, shop.clone("one")
    async with worker_in(one, "one", decider) as first:
        await decider.visit(first, "a.1", works)
        async with worker_in(shop.clone("two"), "two", decider) as second:
            await second.start()
            assert first.assignments() == ("a.1",)
            assert not any(isinstance(each, on.AgentExited) for each in decider.facts)
        async with worker_in(shop.clone("three"), "one", decider):
            # The same worker again, after it died: what it left is its own to end.
            await until(lambda: any(isinstance(each, on.AgentExited) for each in decider.facts))
