"""The population and the audit from the command line, with a live runner and without one."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.orchestrator.loopkit import ASK, DONE, of_store, until

if TYPE_CHECKING:
    from lifecycle.store.sqlite.store import SqliteStore
    from tests.orchestrator.loopkit import World


def entries(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.json("audit", "list", "--limit", "500")
    return found


def held(world: World, action: str) -> list[tuple[str, str, str]]:
    return [
        (each["actor"], each["subject"], each["outcome"])
        for each in entries(world)
        if each["action"] == action
    ]


def operations(world: World) -> list[tuple[str, str, str, str]]:
    """Return what the runner's log holds of operations: event, operation, agent and more."""
    path = world.repo / ".loopwright" / "runner.log"
    found = []
    for line in map(json.loads, path.read_text().splitlines()):
        if line["event"] in ("lifecycle_operation", "lifecycle_validation_failed"):
            assert isinstance(line["turn"], int)
            done = line["event"] == "lifecycle_operation"
            assert line["level"] == ("info" if done else "warning")
            more = line.get("resolved_name", "") if done else line["reason"]
            found.append(
                ("done" if done else "refused", line["operation"], line["agent_name"], more)
            )
    return found


def test_operations_on_a_live_runner_are_logged_once_each_refusals_included(world: World) -> None:
    done = world.script("done", [DONE])
    with world.live("up", world.plan_of({"A": [ASK]})):
        world.comes_to("AwaitingHuman", "agent-A")
        world.call("add", "One more", "--command", done, "--name", "agent-A")
        world.call("add", "And more", "--command", done, "--name", "../up", code=2)
        world.call("pause", "agent-A", "--turns", "100000")
        again = world.call("pause", "agent-A", code=2).stderr
        world.call("resume", "A")
        vain = world.call("resume", "agent-A", code=2).stderr
        world.call("pause", "nobody", code=2)
        world.call("reject", "agent-A", "--why", "no")
        until(lambda: len(operations(world)) == 8, lambda: f"all are logged: {operations(world)}")
        world.comes_to("Completed", "agent-A_1")
        logged = operations(world)
    paused = "agent-A is paused already; continue with: loopwright resume agent-A"
    assert again == f"loopwright pause: {paused}\n"
    assert vain.endswith("agent-A needs you (question); there is nothing to resume\n")
    assert sorted(told[:3] for told in logged) == [
        ("done", "add_agent", "agent-A"),
        ("done", "pause_agent", "agent-A"),
        ("done", "remove_agent", "agent-A"),
        ("done", "resume_agent", "agent-A"),
        ("refused", "add_agent", "../up"),
        ("refused", "pause_agent", "agent-A"),
        ("refused", "pause_agent", "nobody"),
        ("refused", "resume_agent", "agent-A"),
    ]
    more = {told[:3]: told[3] for told in logged}
    assert more["done", "add_agent", "agent-A"] == "agent-A_1"
    assert "is not a usable id" in more["refused", "add_agent", "../up"]
    assert more["refused", "pause_agent", "agent-A"] == paused
    assert "there is no lifecycle 'nobody'" in more["refused", "pause_agent", "nobody"]
    assert vain.strip().endswith(more["refused", "resume_agent", "agent-A"])
    assert not [
        line
        for line in (world.repo / ".loopwright" / "runner.log").read_text().splitlines()
        if "illegal" in line
    ]
    refused = [entry for entry in entries(world) if entry["outcome"] == "refused"]
    assert sorted((each["action"], each["subject"]) for each in refused) == [
        ("add", "../up"), ("resume", "agent-A"), ("suspend", "agent-A"), ("suspend", "nobody"),
    ]  # fmt: skip


def test_a_refused_addition_is_logged_by_the_live_runner_and_without_one(world: World) -> None:
    done = world.script("done", [DONE])
    world.call("add", "task 1", "--command", done)
    bad = ("--command", "no-such-program")
    world.call("add", "one more", *bad, code=2)
    with world.live("run", "x", "--command", world.script("hang", [{"hang": {}}])):
        world.comes_to("Working", "agent-T002")
        world.call("add", "and more", *bad, code=2)
        until(lambda: len(operations(world)) == 3, lambda: f"{operations(world)}")
        added, *refused = operations(world)
    assert added == ("done", "add_agent", "agent-T001", "agent-T001")
    assert [(what, name) for _, what, name, _ in refused] == [
        ("add_agent", "one more"),
        ("add_agent", "and more"),
    ]
    assert all("is not on PATH" in reason for *_, reason in refused)


def test_a_task_that_is_added_while_up_runs_is_run_by_it(world: World) -> None:
    done = world.script("done", [DONE])
    with world.live("up", world.plan_of({"A": [ASK]})) as up:
        world.comes_to("AwaitingHuman", "agent-A")
        said = world.call("add", "One more", "--command", done, "--name", "bob").stdout
        assert said == "bob: added with task T001; the live runner starts it\n"
        world.comes_to("Completed", "bob")
        again = world.json("add", "And more", "--command", done, "--name", "bob")
        assert (again["agent_id"], again["task_id"]) == ("bob_1", "T002")
        world.comes_to("Completed", "bob_1")
        world.call("reject", "agent-A")
        up.ends(6)
    assert world.row("bob")["task"] == "One more"


def test_any_number_can_be_added_each_under_an_id_of_its_own_however_many_try_at_once(
    world: World,
) -> None:
    done = world.script("done", [DONE])
    world.call("add", "task 1", "--command", done)

    async def add_more(store: SqliteStore) -> None:
        first = await store.get("agent-T001")
        assert first is not None
        for number in range(2, 26):
            name = f"T{number:03}"
            await store.create(replace(first, agent_id=f"agent-{name}", task_id=name))

    of_store(world.repo, add_more)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda each: _add(world, done, each), range(3))) == [0, 0, 0]
    assert {world.row(f"agent-T{number:03}")["task"] for number in (26, 27, 28)} == {
        "more 0", "more 1", "more 2",
    }  # fmt: skip


def _add(world: World, command: str, number: int) -> int:
    with world.live("add", f"more {number}", "--command", command) as adding:
        return int(adding.process.wait(20))


def test_nonsense_is_not_added(world: World) -> None:
    for words, told in (
        ((" ",), "say what is to be done"),
        (("x",), "no agent program is set"),
        (("x", "--command", "no-such-program"), "is not on PATH"),
        (("x", "--command", "true", "--name", "../up"), "not a usable id"),
    ):
        assert told in world.call("add", *words, code=2).stderr


def test_a_pause_for_turns_ends_by_itself_on_a_live_runner(world: World) -> None:
    go = {"wait_file": str(world.folder / "go")}
    crashes = {"attempts": {"1": [go, {"exit": 1}], "default": [DONE]}}
    with world.live("up", world.plan_of({"A": crashes}), "--json") as up:
        world.comes_to("Working", "agent-A")
        said = world.call("pause", "agent-A", "--turns", "3").stdout
        assert "will be paused after attempt 1" in said
        (world.folder / "go").touch()
        up.ends(0)
    assert world.row("agent-A")["spawn_count"] == 2
    assert ("auto-resume", "agent-A", "done") in held(world, "resume")
    logged = (world.repo / ".loopwright" / "runner.log").read_text().splitlines()
    operations = [
        (line["operation"], line.get("auto_resume_turns"))
        for line in map(json.loads, logged)
        if line["event"] == "lifecycle_operation"
    ]
    assert operations == [("pause_agent", 3), ("resume_agent", None)]


def test_every_act_is_held_with_who_and_why(world: World) -> None:
    world.settings("retry_interval = 0.1\nstop_grace = 0.3\nmax_retries = 5\n")
    done = world.script("done", [{"write": "a"}, {"commit": "A"}, DONE])
    world.call("run", "x", "--command", done)
    world.call("answer", "agent-T001", "blue", "--by", "eve", code=2)
    world.call("accept", "agent-T001", "--by", "ada")
    assert held(world, "spawn") == [("runner", "agent-T001", "done")]
    assert held(world, "accept") == [
        ("ada", "agent-T001", "asked"),
        ("runner", "agent-T001", "done"),
    ]
    assert ("eve", "agent-T001", "refused") in held(world, "answer")
    settings = {
        each["subject"]: each["details"] for each in entries(world) if each["action"] == "setting"
    }
    assert settings["max_retries"] == {"from": 100, "to": 5}
    text = world.call("audit", "list", "--limit", "2").stdout
    assert len(text.splitlines()) == 3
    assert "ada" in text


def test_verify_tells_a_whole_trail_from_one_that_was_changed(world: World) -> None:
    assert "does not exist yet" in world.call("audit", "verify", code=2).stderr
    world.call("run", "x", "--command", world.script("done", [DONE]))
    said = world.call("audit", "verify").stdout
    assert said.startswith("whole: ")
    head = world.json("audit", "verify")["head"]
    assert head["hash"] in said
    with (
        closing(sqlite3.connect(world.repo / ".loopwright" / "state.db")) as connection,
        connection,
    ):
        connection.execute("DROP TRIGGER audit_is_not_shortened")
        connection.execute("DELETE FROM audit WHERE seq = ?", (head["seq"],))
    done = world.call("audit", "verify", code=1)
    assert f"entry {head['seq']}: entry {head['seq']} is cut off at the end" in done.stdout
    found = world.json("audit", "verify", code=1)
    assert (found["whole"], found["findings"][0]["seq"]) == (False, head["seq"])


def test_no_text_of_strangers_reaches_the_terminal_as_more_than_text(world: World) -> None:
    text = "two\nlines, \x1b[2Jgone"
    world.settings("blocked_timeout = 0.1\nstop_grace = 0.3\n")
    world.call("run", "x", "--command", world.script("ask", [ASK]), code=3)
    world.call("reject", "agent-T001", "--why", text, "--by", text)
    listed = world.call("audit", "list").stdout
    assert "\x1b" not in listed
    assert all(line.split()[0].isdigit() for line in listed.splitlines()[1:])
    assert entries(world)[-1]["subject"] == "agent-T001"


def test_what_was_added_and_refused_is_held_and_the_state_is_kept_out_of_git(world: World) -> None:
    done = world.script("done", [DONE])
    said = world.call("add", "First", "--command", done, "--by", "ada").stdout
    assert "start it with: loopwright up" in said
    assert ".loopwright" not in world.git("status", "--porcelain")
    wrong = ("--base", "nope", "--by", "eve")
    refused = world.call("add", "Second", "--command", done, *wrong, code=2)
    assert "no branch or commit 'nope'" in refused.stderr
    assert held(world, "add") == [("ada", "agent-T001", "done"), ("eve", "Second", "refused")]
