"""What an older version left in the store is taken over once, by the next runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine.runner_orders import PullRequestOrder
from orchestrator.runner.document_migration import ORDERS, TURNS
from tests.orchestrator.loopkit import ASK, DONE, of_store

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World


def put(world: World, collection: str, key: str, body: dict[str, object]) -> None:
    """Leave a document as an older version did."""
    of_store(world.repo, lambda store: store.put(collection, key, body))


def left(world: World, collection: str) -> dict[str, object]:
    return dict(of_store(world.repo, lambda store: store.all(collection)))


def test_a_pause_goes_on_with_the_turns_that_an_older_version_kept(world: World) -> None:
    world.settings("blocked_timeout = 0.2\nretry_interval = 0.05\nstop_grace = 0.3\n")
    asks = world.script("asks", {"attempts": {"1": [ASK], "default": [DONE]}})
    world.call("run", "x", "--command", asks, code=3)
    world.call("pause", "agent-T001")
    assert world.json("up", "--no-server", code=3)["held"] == ["agent-T001"]
    put(world, TURNS, "agent-T001", {"turns": 2})
    put(world, TURNS, "gone", {"turns": 2})
    assert world.json("up", "--no-server", code=3)["held"] == []
    assert world.row()["work_kind"] == "AwaitingHuman"
    assert left(world, TURNS) == {}


def test_an_order_about_a_pull_request_is_carried_out_or_dropped(world: World) -> None:
    world.call("run", "x", "--command", world.script("done", [DONE]))
    put(world, ORDERS, "one", {"action": "merge", "number": 7, "by": "ada", "terms": {}})
    put(world, ORDERS, "two", {"action": "merge", "number": 8, "answer": {"done": True}})
    put(world, ORDERS, "three", {"number": 9})
    with world.live("up", world.plan_of({"A": [ASK]})) as up:
        up.says("pull request 7")
        up.says("(asked for by ada)")
    assert left(world, ORDERS) == {}
    refused = [each for each in world.json("audit", "list") if each["action"] == "pr merge"]
    assert [(each["actor"], each["subject"], each["outcome"]) for each in refused] == [
        ("ada", "pull request 7", "refused")
    ]
    assert PullRequestOrder(at=0.0, action="merge", number=7).verify
