"""What API and pages tell of workers, as the coordinator heard of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import states as st
from lifecycle.record import AgentLifecycle
from lifecycle.store.rows.workers import WorkerRow
from orchestrator.web.live import board_state
from tests.lifecycle.every_state import EVERY
from tests.orchestrator.web.pages.browsing import browser
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.web.webkit import Site

WORKING = next(state for state, _, _ in EVERY if type(state) is st.Working)
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the board read the store each time: nothing decides these lifecycles."""
    monkeypatch.setattr(board_state, "LASTS", 0.0)


async def _heard(found: Site, name: str, *, ago: float = 0.0, **more: object) -> None:
    given: dict[str, object] = {
        "name": name,
        "machine": f"m-{name}",
        "version": "1",
        "slots": 2,
        "lease": 60.0,
        "seen_at": found.services.runner.now() - ago,
    }
    await found.store.workers.seen(WorkerRow(**(given | more)))  # type: ignore[arg-type]  # fields of different types


async def _works(found: Site, number: int, worker: str) -> None:
    facts = {"task": {"id": f"T{number}"}, "agent": {}, "worker": worker}
    await found.store.create(
        AgentLifecycle(
            agent_id=f"agent-T{number}",
            task_id=f"T{number}",
            task="Do it",
            state=st.coarse(WORKING),
            work=WORKING,
            facts=facts,
        )
    )


async def test_the_board_has_a_strip_of_workers_and_says_who_is_silent(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        await _heard(found, "a", labels=("linux",))
        await _heard(found, "b", ago=125.0)
        await _heard(found, "c", draining=True, lacks=(HOSTILE,), clock_offset=300.0)
        for number, worker in ((1, "a"), (2, "a"), (3, "b")):
            await _works(found, number, worker)
        told = await found.get("/board")
        workers = {each["name"]: each for each in told["workers"]}
        assert {name: (each["used"], each["silent"]) for name, each in workers.items()} == {
            "a": (2, False),
            "b": (1, True),
            "c": (0, False),
        }
        rows = {row["task_id"]: row for group in told["groups"] for row in group["rows"]}
        assert rows["T1"]["worker"] == "a"
        assert rows["T3"]["says"].startswith("on b, not heard of for 2 min")
        async with browser(found) as visit:
            page = await visit.page("/")
            strip = page.partition('data-event="workers"')[2].partition("<nav")[0]
            assert "2 of 2 slots" in strip
            assert "not heard of for 2 min" in strip
            assert "takes no new work" in strip
            assert "its clock is 5 min ahead" in strip
            assert HOSTILE not in page
            assert "it is on worker b, not heard of for" in await visit.page("/t/T3")


async def test_lists_of_the_api_name_the_worker_and_can_ask_for_one(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        await _heard(found, "b", ago=125.0)
        await _works(found, 1, "a")
        await _works(found, 2, "b")
        (row,) = (await found.get("/lifecycles?worker=b"))["items"]
        assert (row["agent_id"], row["worker"]) == ("agent-T2", "b")
        assert row["waiting_for"].startswith("on b, not heard of for")
        whole = await found.get("/lifecycles/agent-T1")
        assert whole["lifecycle"]["worker"] == "a"


async def test_where_one_machine_works_the_board_has_no_strip(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        await _works(found, 1, "")
        assert (await found.get("/board"))["workers"] == []
        async with browser(found) as visit:
            page = await visit.page("/")
            assert '<div class="workers" data-event="workers"></div>' in page
            assert ">on <" not in page
