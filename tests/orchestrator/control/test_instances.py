"""`loopwright instances`: what is alive is seen, held still and ended from another terminal."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.api.instances import AgentInstance
from orchestrator.control.instances import in_use, left_alone
from tests.orchestrator.loopkit import until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

HANG = [{"child": 3600}, {"hang": {}}]


def alive(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.json("instances")
    return found


def test_an_attempt_is_listed_with_what_it_uses_and_is_gone_when_it_was_terminated(
    world: World,
) -> None:
    with world.live("run", "Work", "--command", world.script("hang", HANG)) as run:
        world.comes_to("Working")
        until(lambda: (alive(world)[0]["use"] or {}).get("processes") == 2, "its child to start")
        (each,) = alive(world)
        assert (each["name"], each["state"], each["health"]["state"]) == (
            "agent-T001",
            "processing",
            "healthy",
        )
        assert each["use"]["memory_bytes"] > 1_000_000
        assert "agent-T001" in world.call("instances").stdout
        pid = each["details"]["pid"]
        told = world.json("instances", "terminate", "agent-T001", "--reason", "enough")
        assert told["success"]
        assert not Path(f"/proc/{pid}").exists()
        assert alive(world) == []
        run.ends(3)
    (ended,) = world.json("instances", "--all")
    assert ended["instance_id"] == each["instance_id"]
    assert ended["state"] == "terminated"
    actions = [entry["action"] for entry in world.json("audit", "list")]
    assert {"spawn", "stop", "terminate"} <= set(actions)


def test_an_attempt_is_held_still_and_goes_on(world: World) -> None:
    with world.live("run", "Work", "--command", world.script("hang", HANG)):
        world.comes_to("Working")
        assert (
            world.call("instances", "suspend", "agent-T001").stdout == "agent-T001 is suspended\n"
        )
        (each,) = alive(world)
        assert each["state"] == "suspended"
        assert "your resume; its processes are frozen" in world.call("ps").stdout
        assert "is frozen" in world.call("show", "agent-T001", "--why").stdout
        twice = world.call("pause", "agent-T001", "--now", code=2).stderr
        assert "is paused (attempt 1) already" in twice
        again = world.call("instances", "suspend", "agent-T001", code=2)
        assert "cannot be suspended" in again.stderr
        assert world.call("instances", "resume", "agent-T001").stdout == "agent-T001 is resumed\n"
        assert [each["state"] for each in alive(world)] == ["processing"]
        world.call("stop", "agent-T001")


def test_a_process_that_is_gone_is_told_apart_from_a_later_one_with_its_number(
    world: World,
) -> None:
    with world.live("run", "Work", "--command", world.script("hang", HANG)) as run:
        world.comes_to("Working")
        until(lambda: any(each["use"] for each in alive(world)), "it to start")
        told = alive(world)[0]
        del told["use"]
        each = AgentInstance.model_validate(told)
        number = each.instance_id
        used = in_use([each])
        assert used[number] is not None
        assert left_alone(world.repo, [each], used) == frozenset()
        unmarked = {name: each.details[name] for name in ("pid", "attempt")}
        for changed in (
            {"details": {**each.details, "spawn_id": "agent-T001.2.1"}},
            {"details": {**each.details, "start_time": 1}},
            {"details": unmarked, "created_at": each.created_at - timedelta(hours=1)},
        ):
            later = each.model_copy(update=changed)
            assert in_use([later]) == {number: None}
            # Its runner lives, and sees to it.
            assert left_alone(world.repo, [later], {number: None}) == frozenset()
        run.signal(signal.SIGKILL)
        run.process.wait()
        assert left_alone(world.repo, [each], used) == frozenset()
        os.kill(each.details["pid"], signal.SIGKILL)
        until(lambda: in_use([each]) == {number: None}, "it to be seen as gone")
        assert left_alone(world.repo, [each], in_use([each])) == {number}
    with world.live("run", "Work", "--command", world.script("hang", HANG)):
        until(lambda: any(each["use"] for each in alive(world)), "the next attempt to start")
        world.call("stop", "agent-T001")


def test_what_does_not_exist_is_named_with_what_to_do(world: World) -> None:
    world.call("add", "Work", "--command", "true")
    done = world.call("instances", "terminate", "agent-T009", code=2)
    assert "no instance 'agent-T009'" in done.stderr
    assert "loopwright instances" in done.stderr
    assert world.call("instances", "terminate", code=2).stderr.startswith("loopwright")
    assert world.json("instances", "--state", "failed") == []
    assert "--tag" in world.call("instances", "--tag", "bad tag!", code=2).stderr
    assert "--limit" in world.call("instances", "--limit", "5000", code=2).stderr
