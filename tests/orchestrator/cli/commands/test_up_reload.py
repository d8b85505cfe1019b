"""A plan that changes while `up` runs: what is new begins, what has begun goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from lifecycle.plan import Plan
from lifecycle.settings import Settings
from orchestrator.config.plans import load_plan
from orchestrator.runner import plan_reload
from tests.orchestrator.loopkit import DONE, of_store, until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from lifecycle.store.sqlite.store import SqliteStore
    from tests.orchestrator.loopkit import Live, World


def waits(world: World, name: str) -> str:
    """Return the command of an agent that waits for a file of this name, then is done."""
    return world.script(name, [{"wait_file": str(world.folder / name)}, DONE])


def plan(world: World, *tasks: str, more: str = "") -> Path:
    """Write a plan: each task is its id, or its id and what else there is of it."""
    words = waits(world, "go").split()
    text = f"{more}\n[agents.default]\ncommand = {words}\n"
    for task in tasks:
        task_id, _, rest = task.partition(" ")
        text += f"[[tasks]]\nid = '{task_id}'\ntitle = 'Do {task_id}'\n{rest}\n"
    path = world.folder / "plan.toml"
    beside = world.folder / "beside"
    beside.write_text(text)
    beside.replace(path)
    return path


def said(up: Live, text: str) -> None:
    until(lambda: text in up.err, lambda: f"{text!r} in {up.err}")


def test_new_tasks_begin_and_those_not_begun_are_changed_or_taken_out(world: World) -> None:
    path = plan(world, "A", "B dependencies=['A']", "C dependencies=['A']", "D")
    with world.live("up", str(path)) as up:
        world.comes_to("Working", "agent-A")
        world.comes_to("Working", "agent-D")
        world.comes_to("Queued", "agent-C")
        plan(world, "A description='more'", "B dependencies=['N']\ndescription='new'", "N")
        said(
            up, "plan.toml was read again: C: taken out; D: not in the plan any more, but has begun"
        )
        said(up, "A: changed, but has begun and goes on as it was; B: changed; N: new")
        world.comes_to("Working", "agent-N")
        assert world.row("agent-C") == {}
        assert world.row("agent-B")["work"]["waiting_on"] == ["N"]
        (world.folder / "go").touch()
        world.comes_to("Completed", "agent-B")
        up.ends(0)

    async def words(store: SqliteStore) -> object:
        record = await store.get("agent-B")
        return record.facts["task"]["description"] if record is not None else ""

    assert of_store(world.repo, words) == "new"
    (entry,) = [e for e in world.json("audit", "list", "--limit", "500") if e["action"] == "plan"]
    assert entry["details"] == {"added": ["N"], "changed": ["A", "B"], "removed": ["C", "D"]}


def test_a_broken_plan_is_told_once_with_its_line_and_the_loaded_one_goes_on(world: World) -> None:
    path = plan(world, "A", "B dependencies=['A']")
    with world.live("up", str(path)) as up:
        world.comes_to("Working", "agent-A")
        plan(world, "A", "B dependencies=['A']", "C verifyy=['x']")
        said(up, "there is no field 'verifyy'; the plan as it was read before goes on")
        assert f"{path}:" in up.err
        plan(world, "A", "B dependencies=['A']", "C")
        world.comes_to("Working", "agent-C")
        (world.folder / "go").touch()
        world.comes_to("Completed", "agent-B")
        up.ends(0)
    assert up.err.count("as it was read before") == 1


def test_what_an_agent_commits_of_a_plan_waits_for_a_person(world: World) -> None:
    own = "loopwright.plan.toml"
    mark = world.folder / "evil"
    steps = [{"run": ["sh", "-c", "test $LOOPWRIGHT_TASK_ID != A || cp $0/new loopwright.plan.toml",
                      str(world.folder)]}, {"commit": "work"}, DONE]  # fmt: skip
    words = world.script("agent", steps).split()
    evil = world.script("evil-agent", [{"write": str(mark)}, DONE]).split()
    hold = waits(world, "go").split()
    first = (
        f"[agents.default]\ncommand = {words}\n[agents.hold]\ncommand = {hold}\n"
        "[[tasks]]\nid = 'A'\n[[tasks]]\nid = 'H'\nagent = 'hold'\n"
    )
    (world.repo / own).write_text(first)
    world.git("add", own)
    world.git("commit", "-q", "-m", "plan")
    new = first.replace(f"command = {words}", f"command = {evil}")
    (world.folder / "new").write_text(new + "[[tasks]]\nid = 'B'\nverify = ['true']\n")
    with world.live("up") as up:
        world.comes_to("Completed", "agent-A")
        world.call("accept", "agent-A")
        world.comes_to("Completed", "agent-B")
        assert not mark.exists()
        assert world.row("agent-B")["work"].get("passed", []) == []
        said(up, "Not in force: ")
        world.call("settings", "approve")
        text = (world.repo / own).read_text()
        (world.repo / own).write_text(text + "[[tasks]]\nid = 'C'\n")
        world.comes_to("Completed", "agent-C")
        assert mark.exists()
        (world.folder / "go").touch()
        up.ends(0)


def test_a_paused_task_that_comes_into_the_plan_stays_paused(world: World) -> None:
    path = plan(world, "A", "P dependencies=['A']")
    with world.live("up", str(path)) as up:
        world.comes_to("Working", "agent-A")
        world.call("pause", "P")
        world.comes_to("Suspended", "agent-P")
        plan(world, "A", "N")
        world.comes_to("Working", "agent-N")
        plan(world, "A", "N", "P dependencies=['A']")
        said(up, "P: new, but paused by a person")
        (world.folder / "go").touch()
        world.comes_to("Completed", "agent-N")
    assert world.row("agent-P")["work_kind"] == "Suspended"


async def test_what_is_written_during_a_reading_is_read_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told, real = tmp_path / "plan.toml", list[str](), load_plan
    shared = SimpleNamespace(settings=Settings)
    reload = plan_reload.PlanReload(
        cast("Any", SimpleNamespace(shared=shared)), path, Plan(tasks=()),
        cast("Any", SimpleNamespace(held=())),
    )  # fmt: skip
    loops = cast("Any", SimpleNamespace(note=told.append))

    def slowly(path: Path, approvals: Any) -> Plan:
        try:
            return real(path, approvals)
        finally:
            if not told:
                path.write_text("a = 1\nand this is no TOML")

    monkeypatch.setattr(plan_reload, "load_plan", slowly)
    path.write_text("no TOML at all")
    await reload.look(loops)
    await reload.look(loops)
    await reload.look(loops)
    assert ["plan.toml:2" in text for text in told] == [False, True]
