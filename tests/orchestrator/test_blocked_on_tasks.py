"""`loopwright up` with agents that are blocked on tasks of their plan, with local CI beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.orchestrator.loopkit import DONE, SETTINGS, until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.loopkit import World

LOCAL_CI = SETTINGS + 'test_command = "true"\n'


def blocked(*names: str, reason: str = "its schema is missing") -> dict[str, object]:
    """Return the step that signals a block."""
    return {"breakpoint": {"type": "blocked", "blocked_on": list(names), "reason": reason}}


def plan_of(world: World, **scripts: object) -> str:
    """Write a plan with one task, and one agent, for each script."""
    text = ""
    for name, script in scripts.items():
        words = ", ".join(f'"{word}"' for word in world.script(name, script).split())
        text += f"[agents.a{name}]\ncommand = [{words}]\n"
        text += f"[[tasks]]\nid = '{name}'\nagent = 'a{name}'\n"
    return world.plan(text)


def prompt(world: World, agent_id: str, attempt: int) -> str:
    """Return what the agent of that attempt was told."""
    return (world.repo / f".loopwright/summaries/{agent_id}/{attempt}.prompt.md").read_text()


def committed(name: str) -> list[dict[str, object]]:
    return [{"write": {"path": name, "text": "x\n"}}, {"commit": f"Add {name}"}]


def go(world: World) -> Path:
    return world.folder / "go"


def test_a_block_on_a_running_task_outlasts_the_build_of_its_own_commit(world: World) -> None:
    world.settings(LOCAL_CI)
    slow = [{"wait_file": str(go(world))}, *committed("schema.txt"), DONE]
    waits = {
        "attempts": {
            "1": [*committed("own.txt"), blocked("T000")],
            "default": [{"run": ["test", "-f", "schema.txt"]}, DONE],
        }
    }
    with world.live("up", plan_of(world, T000=slow, T001=waits), "--json") as up:
        world.comes_to("Blocked")
        until(lambda: built(world, "agent-T001"), "its own commit was built")
        world.call("events", "agent-T001")
        assert world.row()["spawn_count"] == 1
        go(world).touch()
        up.ends(0)
    assert world.row()["spawn_count"] == 2
    told = prompt(world, "agent-T001", 2)
    assert "task T000 completed and its work is merged into your branch" in told
    assert "its schema is missing" in told
    assert "cleared" not in told
    assert "CI: build_success" not in told


def built(world: World, agent_id: str) -> bool:
    """Tell whether local CI has a verdict on the head of an agent's branch."""
    head = world.git("rev-parse", f"agent/{agent_id}")
    logs = world.repo / ".loopwright" / "ci"
    return bool(head) and any(logs.rglob("*.log"))
