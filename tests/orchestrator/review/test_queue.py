"""What waits for a person is listed in the order in which it is best decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.config.settings import load_settings
from orchestrator.review.queue import waiting, waiting_form
from tests.orchestrator.loopkit import ASK, DONE, of_store

if TYPE_CHECKING:
    from lifecycle.store.sqlite.store import SqliteStore
    from tests.orchestrator.loopkit import World


def queue(world: World) -> list[Any]:
    """Return the queue in the form of the API."""

    async def ask(store: SqliteStore) -> list[Any]:
        settings = load_settings(world.repo, environ={})
        return [waiting_form(each, settings, 0.0) for each in await waiting(store)]

    return of_store(world.repo, ask)


def test_what_holds_up_others_is_first_and_what_was_given_up_last(world: World) -> None:
    commit = {"commit": "work"}
    scripts: dict[str, object] = {
        "A1": [{"run": ["sh", "-c", "echo 1 > a1.txt"]}, commit, DONE],
        "A2": [{"run": ["sh", "-c", "echo 1 > a2.txt"]}, commit, DONE],
        "F1": [{"run": ["sh", "-c", "echo 1 > test_f.py"]}, commit, DONE],
        "Q1": [ASK],
        "Q2": [DONE],
        "G1": [{"exit": 1}],
    }
    tasks: dict[str, dict[str, object]] = {
        "A2": {"dependencies": ["A1"]}, "Q2": {"dependencies": ["Q1"]}, "G1": {"max_retries": 0},
    }  # fmt: skip
    world.settings((world.repo / "loopwright.toml").read_text() + 'verify = ["true"]\n')
    world.call("up", "--no-stay", world.plan_of(scripts, tasks), code=None)
    found = queue(world)
    needs = {each["task_id"]: each["needs"] for each in found}
    assert {needs.pop(name) for name in ("F1", "A1", "A2")} == {"review"}
    assert needs == {"Q1": "answer", "Q2": "unblock", "G1": "given_up"}
    order = [each["task_id"] for each in found]
    assert order[0] == "Q1"
    assert order[1] == "F1"
    assert order.index("A1") < order.index("A2")
    assert order[-1] == "G1"
    first = found[0]
    assert (first["asked"], first["holds_up"]) == ("Blue or green?", ["Q2"])
    assert first["commands"] == ["loopwright answer agent-Q1 TEXT"]
    assert found[-1]["commands"] == ["loopwright show agent-G1 --why", "loopwright reject agent-G1"]
    assert "raise max_retries first, which its task names" in found[-1]["why_not_again"]
    assert not any(each["why_not_again"] for each in found[:-1])
    assert found[1]["flagged"] == ["test_f.py"]
    assert found[1]["head"] == world.git("rev-parse", "agent/agent-F1")


def test_what_a_person_rejected_or_accepted_waits_for_nothing(world: World) -> None:
    script = [{"run": ["sh", "-c", "echo $LOOPWRIGHT_TASK_ID > $LOOPWRIGHT_TASK_ID"]},
              {"commit": "work"}, DONE]  # fmt: skip
    world.call("up", "--no-stay", world.plan_of({"A1": script, "A2": script}), code=None)
    assert len(queue(world)) == 2
    world.call("accept", "A1")
    world.call("reject", "A2")
    assert queue(world) == []
