"""Commands that the settings name are told of each transition, and can harm nobody."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from lifecycle.engine import transition_hooks
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.plan import Plan
from lifecycle.result import LoopResultType
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from tests.lifecycle.world import AGENT, DONE, PATIENCE, World, commit, until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from lifecycle.result import LoopResult

COMPLETE = LoopResultType.TASK_COMPLETE
COUNT = """\
import sqlite3, sys
print(*sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM journal").fetchone())
"""


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def run(world: World, *commands: str) -> tuple[LoopResult, list[dict[str, object]]]:
    """Run one loop to its end; also returns what was reported of the commands."""
    reports = list[dict[str, object]]()

    def report(event: str, /, **fields: object) -> None:
        if event == "transition_hook_failed":
            reports.append(fields)

    world.settings["on_transition"] = commands
    loop = AgentLifecycleLoop(
        repo_dir=world.repo,
        plan=Plan(tasks=(world.task(),)),
        ci_provider=None,
        terminal_manager=TerminalManager(world.repo),
        branch_manager=BranchManager(world.repo),
        workspace_manager=WorkspaceManager(world.repo),
        store=world.store,
        settings=world.read_settings,
        report=report,
    )
    running = loop.run_agent_loop(world.agent([*commit("x.txt"), DONE]), world.task())
    return await asyncio.wait_for(running, PATIENCE), reports


async def test_each_transition_is_told_once_and_in_order(world: World) -> None:
    one, two = world.folder / "one", world.folder / "two"
    script = {1: [*commit("x.txt"), {"exit": 1}], 2: [DONE]}

    await world.run(script, on_transition=[f"cat >> {one}", f"sleep 0.05; cat >> {two}"])

    moved = [each for each in world.news if each.before != each.after]
    assert [(each["before"], each["after"], each["event"], each["at"]) for each in told(one)] == [
        (each.before, each.after, each.event, each.at) for each in moved
    ]
    assert told(one) == told(two)
    first, last = told(one)[0], told(one)[-1]
    assert first.keys() == last.keys()
    assert (first["agent_id"], first["task_id"], first["attempt"]) == (AGENT, "T001", 1)
    assert (last["after"], last["attempt"], last["reason"]) == ("Completed", 2, "")


async def test_what_is_told_is_committed_before(world: World) -> None:
    seen = world.folder / "seen"
    database = world.paths.database
    count = world.folder / "count.py"
    count.write_text(COUNT)
    world.store = await world.store.open(database)
    async with world.store:
        await world.run(
            [*commit("x.txt"), DONE],
            on_transition=[f"{sys.executable} {count} {database} >> {seen}"],
        )
        entries = await world.journal()
    places = [seq for seq, each in enumerate(entries, 1) if each.before != each.after]
    counts = list(map(int, seen.read_text().split()))
    assert len(counts) == len(places)
    assert all(count >= place for count, place in zip(counts, places, strict=True))


async def test_commands_that_fail_are_reported_and_stop_nothing(world: World) -> None:
    kept = world.folder / "kept"

    result, reports = await run(world, "echo no such place; exit 3", f"cat >> {kept}")

    assert result.result_type is COMPLETE
    assert len(reports) == len(told(kept)) > 3
    assert reports[0]["agent_id"] == AGENT
    assert reports[0]["command"] == "echo no such place; exit 3"
    assert reports[0]["reason"] == "ended with 3. no such place"


async def test_a_command_that_hangs_is_ended_with_all_that_it_started(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transition_hooks, "TIMEOUT", 0.2)
    pids = world.folder / "pids"

    result, reports = await run(world, f"sleep 600 & echo $! >> {pids}; wait")

    assert result.result_type is COMPLETE
    assert "was ended after 0.2 s" in str(reports[0]["reason"])
    assert not alive(pids)


async def test_what_a_command_leaves_behind_is_ended(world: World) -> None:
    pids = world.folder / "pids"

    result, reports = await run(world, f"sleep 600 & echo $! >> {pids}")

    assert result.result_type is COMPLETE
    assert reports == []
    assert not alive(pids)


async def test_a_runner_that_ends_waits_a_short_time_and_says_what_was_not_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transition_hooks, "PATIENCE", 0.2)
    pids = world.folder / "pids"

    result, reports = await run(world, f"echo $$ >> {pids}; exec sleep 600")

    assert result.result_type is COMPLETE
    (report,) = reports
    assert "transitions could be told" in str(report["reason"])
    assert not alive(pids)


async def test_more_than_may_wait_are_not_told_and_that_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transition_hooks, "MOST_WAITING", 1)
    go, kept = world.folder / "go", world.folder / "kept"
    world.settings["on_transition"] = [f"until test -e {go}; do sleep 0.01; done; cat >> {kept}"]
    reports = list[dict[str, object]]()

    loop = world.loop()
    loop._report = lambda _event, /, **fields: reports.append(fields)
    running = loop.run_agent_loop(world.agent([*commit("x.txt"), DONE]), world.task())
    task = asyncio.create_task(running)
    await until(lambda: world.passed("Completed"))
    go.touch()
    await asyncio.wait_for(task, PATIENCE)

    moved = [each for each in world.news if each.before != each.after]
    assert [each["after"] for each in told(kept)] == [each.after for each in moved[:2]]
    dropped = [each for each in reports if "wait already" in str(each.get("reason"))]
    assert len(dropped) == len(moved) - 2


def alive(pids: Path) -> list[str]:
    found = pids.read_text().split()
    assert found
    return [pid for pid in found if os.path.exists(f"/proc/{pid}")]  # noqa: PTH110  # as quick
