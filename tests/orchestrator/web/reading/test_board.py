"""The bar at the top, the board and the review queue agree about what needs a person."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import states as st
from lifecycle.record import AgentLifecycle
from lifecycle.state_words import NEEDS
from orchestrator.web.live import board_state
from orchestrator.web.pages.looks import look_of
from tests.lifecycle.every_state import BLOCKED, EVERY
from tests.orchestrator.web.pages.browsing import browser
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.web.webkit import Site

ON_A_TASK = st.Signal(type="blocked", reason="waits", blocked_on=("T0",))
MORE: tuple[st.State, ...] = (
    *(st.AwaitingHuman(about=each, text="What now?", since=1.0) for each in st.About),
    st.Completed(summary="done", problem="both changed a.py"),
    st.Completed(summary="done", problem="the branch is not checked out"),
    st.Completed(summary="done", merging=True),
    st.Completed(summary="done", flagged=("tests/test_a.py",)),
    st.Blocked(since=1.0, until=9e9, word=BLOCKED),
    st.Blocked(since=1.0, until=9e9, word=ON_A_TASK),
    st.Suspended(inner=st.AwaitingHuman(about=st.About.QUESTION, text="?", since=1.0), since=1.0),
)


@pytest.fixture(autouse=True)
def _always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the board read the store each time: nothing decides these lifecycles."""
    monkeypatch.setattr(board_state, "LASTS", 0.0)


async def _filled(found: Site) -> int:
    """Put a lifecycle into each state; returns how many there are."""
    states = [*(state for state, _, _ in EVERY), *MORE]
    for number, work in enumerate(states):
        await found.store.create(
            AgentLifecycle(
                agent_id=f"agent-T{number}",
                task_id=f"T{number}",
                task="Do it",
                state=st.coarse(work),
                work=work,
            )
        )
    return len(states)


async def test_bar_board_and_queue_agree_in_every_state(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        many = await _filled(found)
        board = await found.get("/board?group=me")
        (group,) = board["groups"]
        queue = (await found.get("/review"))["items"]
        shown = [(row["agent_id"], row["needs"]) for row in group["rows"]]
        assert shown == [(each["agent_id"], each["needs"]) for each in queue]
        assert {need for _, need in shown} == set(NEEDS)
        assert board["counts"]["me"] == len(queue) == found.services.board.needs()
        for agent_id, need in shown:
            told = await found.get(f"/lifecycles/{agent_id}/review")
            assert (agent_id, told["needs"]) == (agent_id, need)
        assert sum((await found.get("/board"))["counts"].values()) == many
        async with browser(found) as visit:
            for path in ("/", "/history", "/t/T0"):
                counts = re.findall(r'id="nav-count">.*?>(\d+)<', await visit.page(path))
                assert counts == [str(len(queue))], path


async def test_a_state_looks_on_its_page_as_on_the_board(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        await _filled(found)
        rows = [row for group in (await found.get("/board"))["groups"] for row in group["rows"]]
        assert len(rows) > len(MORE)
        async with browser(found) as visit:
            for row in rows:
                page = await visit.page(f"/t/{row['task_id']}")
                assert f"<title>{row['task_id']} {look_of(row).word}" in page
