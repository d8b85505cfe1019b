"""Plans: what waits for what over the API, the longest chain, and a graph that 100 tasks fit in."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from lifecycle.machine.states import About, AwaitingHuman, Blocked, Completed, Queued, Signal
from lifecycle.record import AgentLifecycle
from orchestrator.web.pages.plan_graph import BOX, drawn
from tests.orchestrator.web.pages.browsing import browser
from tests.orchestrator.web.webkit import Site, site

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.machine.states import State

ASKS = AwaitingHuman(about=About.QUESTION, text="Blue?", since=1.0)


async def put(
    found: Site, task: str, work: State, needs: tuple[str, ...] = (), plan: str = "november"
) -> None:
    """Add a task of a plan."""
    record = AgentLifecycle(
        agent_id=f"agent-{task}", task=f"Do <b>{task}</b>", task_id=task, work=work
    )
    record.facts["task"] = {"id": task, "title": f"Do <b>{task}</b>", "dependencies": list(needs)}
    if plan:
        record.facts["plan"] = {"name": plan}
    record.derive()
    await found.store.create(record)


async def night(found: Site) -> None:
    """Add a plan in which a question holds up two tasks."""
    await put(found, "T1", Completed(summary="x"))
    await put(found, "T2", ASKS, ("T1",))
    await put(found, "T3", Queued(waiting_on=("T2",)), ("T2",))
    await put(found, "T4", Queued(waiting_on=("T3",)), ("T3", "T1"))
    word = Signal(type="blocked", blocked_on=("T2", "a key"))
    await put(found, "T5", Blocked(since=1.0, until=9e9, word=word))
    await put(found, "T6", Queued(), plan="")


async def test_plans_are_listed_with_their_tasks_by_state(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        assert (await found.get("/plans"))["items"] == []
        await night(found)
        plans = {each["name"]: each for each in (await found.get("/plans"))["items"]}
        assert set(plans) == {"november", "run"}
        assert plans["november"]["tasks"] == 5
        assert plans["november"]["needs_you"] == 2
        assert plans["november"]["by_state"] == {
            "done": 1, "needs-you": 1, "queued": 2, "waiting": 1,
        }  # fmt: skip
        assert plans["run"]["tasks"] == 1
        await found.get("/plans/december", 404)


async def test_a_plan_tells_what_waits_for_what_and_what_a_decision_frees(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        await night(found)
        told = await found.get("/plans/november")
        assert [row["task_id"] for row in told["tasks"]] == ["T1", "T2", "T3", "T4", "T5"]
        edges = {(each["needs"], each["task"]): each for each in told["edges"]}
        assert set(edges) == {
            ("T1", "T2"), ("T2", "T3"), ("T3", "T4"), ("T1", "T4"), ("T2", "T5"),
        }  # fmt: skip
        assert [edge for edge, each in edges.items() if each["said"]] == [("T2", "T5")]
        assert {edge for edge, each in edges.items() if each["hot"]} == {
            ("T2", "T3"), ("T2", "T5"),
        }  # fmt: skip
        assert told["frees"] == {"T2": 3, "T3": 1}
        assert told["critical_path"] == ["T2", "T3", "T4"]
        assert told["cost_usd"] is None


async def test_the_page_shows_a_plan_as_graph_and_as_list_and_says_what_helps(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        assert "No task was added yet" in await visit.text("/plans")
        await night(found)
        words = await visit.text("/plans")
        assert "november" in words
        assert "2 need you" in words
        page = await visit.page("/plans/november")
        words = await visit.text("/plans/november")
        assert "A decision about T2 frees 3 tasks." in words
        assert page.count('<rect class="box') == 5
        assert len(re.findall(r'class="edge[^"]*" d="M\d+ [^"]+" marker', page)) == 5
        assert "Question, after T1; 3 tasks wait for it" in words
        assert "<b>T1" not in page
        assert "style=" not in page
        await visit.page("/plans/december", 404)


async def test_a_single_plan_is_shown_at_once(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        await put(found, "T1", Queued(), plan="a/b ü")
        answer = await visit.client.get("/plans")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/plans/a%2Fb%20%C3%BC"
        assert (await found.get("/plans/a%2Fb%20%C3%BC"))["name"] == "a/b ü"


def overlaps(boxes: Any) -> list[tuple[str, str]]:
    return [
        (one.task, other.task)
        for one, other in itertools.combinations(boxes, 2)
        if abs(one.x - other.x) < BOX[0] and abs(one.y - other.y) < BOX[1]
    ]


def test_no_box_covers_another_and_lines_lead_from_left_to_right() -> None:
    tasks = [f"T{number:03d}" for number in range(100)]
    edges = [(tasks[at // 3], tasks[at]) for at in range(1, 80)]
    edges += [(tasks[at // 7], tasks[at]) for at in range(20, 60)]
    found = drawn(tasks, list(dict.fromkeys(edges)))
    assert len(found.boxes) == 100
    assert overlaps(found.boxes) == []
    place = {box.task: box for box in found.boxes}
    for needs, task in edges:
        assert place[needs].x < place[task].x
    assert all(0 <= box.x <= found.width and 0 <= box.y <= found.height for box in found.boxes)
    assert all(box.x + BOX[0] <= found.width for box in found.boxes)
    assert found.height < 4500


def test_a_circle_and_an_empty_plan_are_drawn_all_the_same() -> None:
    assert drawn([], []).boxes == ()
    found = drawn(["a", "b"], [("a", "b"), ("b", "a")])
    assert len(found.lines) == 2
    assert overlaps(found.boxes) == []
