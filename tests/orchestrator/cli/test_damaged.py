"""What each command says of a repository with one damaged record: it is named, all others go on."""

from __future__ import annotations

import json
import shlex
import signal
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.lifecycle.store.damaging import (
    NO_FIELDS,
    damage,
    execute,
    garble,
    garble_for_good,
    stored,
)
from tests.orchestrator.loopkit import BLOCK, DONE, World

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = "agent-T001", "agent-T002"


def database(world: World) -> Path:
    return world.repo / ".loopwright" / "state.db"


@pytest.fixture
def harmed(world: World) -> World:
    """Return a repository with two lifecycles to run, of which one is damaged."""
    for text in ("one", "two"):
        world.call("add", text, "--command", world.script("done", [DONE]))
    garble(database(world), ONE, "work")
    return world


def test_up_runs_all_others_names_the_damaged_one_and_ends_as_held_up(harmed: World) -> None:
    before = stored(database(harmed), ONE)

    done = harmed.call("up", "--no-server", code=3)

    assert harmed.row(TWO)["work_kind"] == "Completed"
    assert f"the record of {ONE} is damaged (invalid UTF-8 in work)" in done.stderr
    assert f"{ONE}  T001  needs you" in done.stdout
    assert "Next: loopwright doctor" in done.stdout
    assert stored(database(harmed), ONE) == before
    told = harmed.json("up", "--no-server", code=3)
    assert told["damaged"] == [ONE]


def test_a_plan_runs_but_for_the_task_whose_record_is_damaged(harmed: World) -> None:
    plan = harmed.plan_of({name: [DONE] for name in ("T001", "T002", "T003")})

    told = harmed.json("up", plan, "--no-server", code=3)

    assert [each["task_id"] for each in told["results"]] == ["T002", "T003"]
    assert told["damaged"] == [ONE]


def test_run_takes_another_task_and_a_number_that_is_free(harmed: World) -> None:
    done = harmed.call("run", "three", "--command", harmed.script("done", [DONE]))

    assert harmed.row("agent-T003")["work_kind"] == "Completed"
    assert f"the record of {ONE} is damaged" in done.stderr
    again = harmed.call("run", "--task-id", "T001", code=2)
    assert f"the record of {ONE} is damaged" in again.stderr


def test_a_lifecycle_whose_journal_is_damaged_is_left_out_alone(world: World) -> None:
    for text in ("one", "two"):
        world.call("add", text, "--command", world.script("done", [DONE]))
    world.call("pause", ONE)
    world.call("resume", ONE)
    execute(database(world), "UPDATE journal SET body = '{' WHERE agent_id = ? AND seq = 1", ONE)

    told = world.json("up", "--no-server", code=3)

    assert told["damaged"] == [ONE]
    assert [each["agent_id"] for each in told["results"]] == [TWO]


def test_lists_show_it_as_damaged_and_all_others_as_ever(harmed: World) -> None:
    lines = harmed.call("ps").stdout.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["queued", "needs"]
    assert "loopwright doctor" in lines[2]
    rows = {row["agent_id"]: row for row in harmed.json("ps")["lifecycles"]}
    assert (rows[ONE]["damaged"], rows[TWO]["damaged"]) == ("invalid UTF-8 in work", "")
    later = harmed.json("ps", "--cursor", "9")["lifecycles"]
    assert [(row["agent_id"], row["damaged"]) for row in later] == [
        (TWO, ""), (ONE, "invalid UTF-8 in work"),
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["show", "events", "export", "summary", "pause", "reject"])
def test_who_asks_for_the_damaged_one_is_told_what_to_do(harmed: World, command: str) -> None:
    before = stored(database(harmed), ONE)

    refused = harmed.call(command, ONE, code=2)

    assert f"the record of {ONE} is damaged (invalid UTF-8 in work)" in refused.stderr
    assert "`loopwright doctor` says how" in refused.stderr
    assert stored(database(harmed), ONE) == before


@pytest.mark.parametrize("args", [("show", TWO), ("events", TWO), ("costs",), ("audit", "verify")])
def test_what_is_asked_of_others_is_answered(harmed: World, args: tuple[str, ...]) -> None:
    damage(database(harmed), ONE, {"facts": "{"})
    harmed.call(*args)


def test_an_export_holds_all_others_names_the_damaged_one_and_fails(harmed: World) -> None:
    done = harmed.call("export", "--all", code=6)

    told = json.loads(done.stdout)
    assert [each["record"]["agent_id"] for each in told["lifecycles"]] == [TWO]
    assert told["damaged"] == [
        {"agent_id": ONE, "task_id": "T001", "problem": "invalid UTF-8 in work"}
    ]
    assert f"Not written: the record of {ONE}" in done.stderr


def _bad(world: World) -> list[dict[str, Any]]:
    checks = world.call("doctor", "--json", code=None)
    return [
        check
        for check in json.loads(checks.stdout)["checks"]
        if check["what"] == "records" and check["level"] == "bad"
    ]


def test_doctor_names_it_and_the_way_it_names_mends_the_repository(harmed: World) -> None:
    (check,) = _bad(harmed)
    assert f"the record of {ONE} is damaged (invalid UTF-8 in work)" in check["found"]

    _, _, command = check["mend"].rpartition("): ")
    program, where, query = shlex.split(command)
    assert (program, where) == ("sqlite3", str(database(harmed)))
    with closing(sqlite3.connect(where)) as connection:
        connection.executescript(query)

    assert _bad(harmed) == []
    assert [row["agent_id"] for row in harmed.json("ps")["lifecycles"]] == [TWO]
    harmed.call("up", "--no-server")


def test_doctor_sees_what_a_glance_does_not(world: World) -> None:
    world.call("add", "one", "--command", world.script("done", [DONE]))
    work = {**NO_FIELDS, "work_kind": "Working"}
    damage(database(world), ONE, work)

    (check,) = _bad(world)

    assert f"the record of {ONE} is damaged" in check["found"]


def test_a_record_that_is_damaged_while_its_loop_runs_ends_no_other(world: World) -> None:
    go = world.folder / "go"
    waits = world.script("waits", [{"wait_file": str(go)}, DONE])
    asks = world.script("asks", [BLOCK])
    world.call("add", "one", "--command", asks)
    world.call("add", "two", "--command", waits)
    with world.live("up", "--no-server", "--plain") as live:
        world.comes_to("Blocked", ONE)
        world.comes_to("Working", TWO)
        garble_for_good(database(world), ONE)
        world.call("stop", TWO)
        live.signal(signal.SIGINT)
        out = live.ends(130)
    assert f"{ONE}  T001  needs you" in out
    assert f"{TWO}  T002  stopped" in out
    assert world.row(ONE)["damaged"] == "invalid UTF-8 in work"


def test_a_task_on_top_of_a_damaged_one_does_not_start_without_its_work(world: World) -> None:
    world.call("up", world.plan_of({"T001": [DONE]}), "--no-server")
    garble(database(world), ONE, "work")

    both = {"T001": [DONE], "T002": [DONE]}
    plan = world.plan_of(both, {"T002": {"dependencies": ["T001"]}})
    done = world.call("up", plan, "--no-server", code=1)

    assert f"the record of {ONE} is damaged" in done.stdout
    assert world.row(TWO)["spawn_count"] == 0
