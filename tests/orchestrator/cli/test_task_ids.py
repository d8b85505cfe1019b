"""Wherever an agent's id is taken, the id of its task will do."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.cli.main import COMMANDS
from tests.orchestrator.loopkit import ASK, DONE, SETTINGS
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.filled import Cli
    from tests.orchestrator.loopkit import World

LOOK: dict[str, tuple[str, ...]] = {
    "show": (),
    "events": (),
    "logs": ("1",),
    "summary": (),
    "export": (),
    "diff": ("--stat",),
}
STEER: dict[str, tuple[str, ...]] = {
    "pause": (),
    "resume": (),
    "guide": ("Keep it",),
    "answer": ("Blue",),
    "stop": (),
    "unblock": (),
    "accept": ("--wait", "60"),
    "reject": ("--wait", "60"),
}
ELSEWHERE = {"review", "instances"}
"""`review` asks on a terminal; an instance is found by more than an agent's id."""


def test_every_command_that_takes_an_agent_is_tried_here() -> None:
    taking = set()
    for name, module in COMMANDS.items():
        made: Any = import_module(f"orchestrator.cli.commands.{module}").parser(name)
        actions = made._actions  # there is no other way to ask
        if any(each.dest in ("agent", "agents") and not each.option_strings for each in actions):
            taking.add(name)
    assert taking - ELSEWHERE == (LOOK.keys() | STEER.keys()) & COMMANDS.keys()


@pytest.mark.parametrize("command", LOOK.keys() & COMMANDS.keys())
def test_a_command_that_looks_takes_the_id_of_a_task(filled: Cli, command: str) -> None:
    more = LOOK[command]
    by_task, by_agent = (
        re.sub(r"\d{10}\.\d+", "NOW", filled(command, name, *more, "--json"))
        for name in ("T002", "agent-T002")
    )
    assert by_task == by_agent
    assert filled.code == 0


def _work(name: str) -> list[Any]:
    """A commit of its own: equal ones of one second are one commit, and belong to both."""
    return [{"write": {"path": name, "text": name}}, {"commit": name}, DONE]


def test_a_command_that_steers_takes_the_id_of_a_task(world: World) -> None:
    world.settings(SETTINGS + "baseline = false\n")
    for name, script in (("T1", [ASK]), ("T2", _work("two")), ("T3", _work("three"))):
        world.call(
            "run", "x", "--task-id", name, "--no-stay", "--command", world.script(name, script),
            code=None,
        )  # fmt: skip
    for name, more in STEER.items():
        task = {"accept": "T2", "reject": "T3"}.get(name, "T1")
        done = world.call(name, task, *more, code=None)
        assert "there is no lifecycle" not in done.stderr, name
    states = {each["task_id"]: each["state"] for each in world.json("ps", "--all")["lifecycles"]}
    assert (states["T2"], states["T3"]) == ("accepted", "rejected")


async def test_paths_of_the_api_take_the_id_of_a_task(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("asks", {"default": [ASK]})
        await found.comes_to("AwaitingHuman", agent)
        (row,) = (await found.get("/lifecycles"))["items"]
        task = row["task_id"]
        assert task != agent
        assert await found.get(f"/lifecycles/{task}/summaries") == await found.get(
            f"/lifecycles/{agent}/summaries"
        )
        assert (await found.get(f"/lifecycles/{task}/events"))["items"]
        told = await found.post(f"/lifecycles/{task}/pause")
        assert told["lifecycle"]["agent_id"] == agent
        await found.get("/lifecycles/nobody", status=404)
