"""A merge brings nothing with it that nobody accepted, and says what it would bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import DONE

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

STEPS = [{"run": ["sh", "-c", "echo x > $LOOPWRIGHT_TASK_ID.txt"]}, {"commit": "work"}]


def _built(
    world: World, tasks: dict[str, list[str]], last: dict[str, object] | None = None
) -> None:
    """Complete tasks that depend on each other as given; each writes one file."""
    scripts = {name: [*STEPS, last or DONE] for name in tasks}
    needs = {name: {"dependencies": before} for name, before in tasks.items()}
    world.call("up", world.plan_of(scripts, needs), code=None)


def _on_main(world: World) -> set[str]:
    return {name for name in world.git("ls-tree", "--name-only", "main").split() if "P" in name}


def test_a_rejected_dependency_is_not_merged_with_its_dependant(world: World) -> None:
    _built(world, {"P1": [], "P2": ["P1"], "P3": ["P2"]})
    world.call("reject", "agent-P1", "--why", "nope")
    for name in ("agent-P2", "agent-P3"):
        refused = world.call("accept", name, code=2).stderr
        assert "holds work of agent-P1 (rejected)" in refused
        assert "would come along" in refused
    shown = world.json("show", "agent-P2")
    assert [each["agent_id"] for each in shown["comes_along"]] == ["agent-P1"]
    assert "agent-P1 (rejected)" in world.call("show", "agent-P2").stdout
    assert not _on_main(world)
    world.call("accept", "P3", "--with-dependencies")
    assert _on_main(world) == {"P1.txt", "P2.txt", "P3.txt"}
    assert world.row("agent-P2")["work_kind"] == "Accepted"


def test_what_comes_along_is_accepted_too_and_before_it_when_that_is_asked_for(
    world: World,
) -> None:
    _built(world, {"P1": [], "P2": ["P1"], "P3": ["P2"]})
    found = world.json("accept", "P3", "--with-dependencies")
    assert [each["agent_id"] for each in found["results"]] == ["agent-P1", "agent-P2", "agent-P3"]
    assert {world.row(f"agent-P{n}")["work_kind"] for n in (1, 2, 3)} == {"Accepted"}


def test_a_refusal_is_forgotten_when_its_reason_is_accepted(world: World) -> None:
    _built(world, {"P1": [], "P2": ["P1"]})
    world.call("accept", "agent-P2", code=2)
    assert "would come along" in str(world.row("agent-P2")["error"])
    world.call("accept", "agent-P1")
    assert not world.row("agent-P2")["error"]
    assert "would come along" not in world.call("ps", "--all").stdout
    world.call("accept", "agent-P2")


def test_a_pull_request_that_holds_work_nobody_accepted_is_not_merged(world: World) -> None:
    _built(world, {"P1": []})
    world.settings("pr_merge_timeout = 0.3\nstop_grace = 0.3\nretry_interval = 0.1\n")
    _built(world, {"P1": [], "P2": ["P1"]}, {"breakpoint": "pr_created"})
    listed = world.json("pr", "list")["pull_requests"]
    assert listed[0]["comes_along"] == ["agent-P1 (not accepted)"]
    assert "agent-P1 (not accepted)" in world.call("pr", "list").stdout
    assert "agent-P1 (not accepted)" in world.call("pr", "merge", "1", code=3).stdout
    assert not _on_main(world)
    world.call("pr", "merge", "1", "--with-dependencies")
    assert _on_main(world) == {"P1.txt", "P2.txt"}


def test_work_that_is_in_the_base_by_another_merge_is_told_and_not_rejected(world: World) -> None:
    _built(world, {"P1": [], "P2": ["P1"]})
    world.git("merge", "--quiet", "--no-ff", "-m", "By hand", "agent/agent-P2")
    commit = world.git("rev-parse", "main")
    assert f"in main already, as {commit[:12]}" in world.call("show", "agent-P1").stdout
    refused = world.call("reject", "agent-P1", code=2).stderr
    assert f"is in main already, as {commit[:12]}" in refused
    assert world.row("agent-P1")["work_kind"] == "Completed"
    world.call("accept", "agent-P1", "agent-P2")
    assert world.git("rev-parse", "main") == commit


@pytest.mark.parametrize("how", ["merge --no-edit", "merge --no-ff --no-edit", "cherry-pick"])
def test_work_that_an_agent_merged_by_itself_comes_along_too(world: World, how: str) -> None:
    _built(world, {"P1": []})
    world.call("reject", "agent-P1")
    kept = "refs/loopwright/saved/agent-P1/head"
    take = {"run": ["sh", "-c", f"git -c user.name=a -c user.email=a@a {how} {kept}"]}
    agent = world.script("thief", [take, *STEPS, DONE])
    world.call("run", "x", "--task-id", "P2", "--command", agent)
    # What was picked is another commit: nobody can tell by its ancestors whose it was.
    world.call("accept", "agent-P2", code=0 if how == "cherry-pick" else 2)
