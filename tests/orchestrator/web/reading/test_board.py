"""The bar at the top, the board and the review queue agree about what needs a person."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lifecycle.machine import states as st
from lifecycle.record import AgentLifecycle
from lifecycle.state_words import NEEDS, spelled
from tests.lifecycle.every_state import BLOCKED, EVERY
from tests.orchestrator.web.pages.browsing import browser
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from pathlib import Path

ON_A_TASK = st.Signal(type="blocked", reason="waits", blocked_on=("T0",))
MORE: tuple[st.State, ...] = (
    *(st.AwaitingHuman(about=each, text="What now?", since=1.0) for each in st.About),
    st.Completed(summary="done", problem="both changed a.py"),
    st.Completed(summary="done", problem="the branch is not checked out"),
    st.Completed(summary="done", merging="c0ffee"),
    st.Completed(summary="done", flagged=("tests/test_a.py",)),
    st.Blocked(since=1.0, until=9e9, word=BLOCKED),
    st.Blocked(since=1.0, until=9e9, word=ON_A_TASK),
    st.Suspended(inner=st.AwaitingHuman(about=st.About.QUESTION, text="?", since=1.0), since=1.0),
)


async def test_bar_board_and_queue_agree_in_every_state(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
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
        for path in ("/", "/history", "/t/T0"):
            page = await visit.page(path)
            (count,) = set(re.findall(r'id="nav-count">.*?(\d+)', page))
            assert int(count) == len(queue)
        everything = await found.get("/board")
        assert sum(everything["counts"].values()) == len(states)


async def test_every_state_has_a_look_on_its_page_as_on_the_board(tmp_path: Path) -> None:
    async with site(tmp_path) as found, browser(found) as visit:
        for number, work in enumerate([*(state for state, _, _ in EVERY), *MORE]):
            await found.store.create(
                AgentLifecycle(
                    agent_id=f"agent-T{number}",
                    task_id=f"T{number}",
                    task="Do it",
                    state=st.coarse(work),
                    work=work,
                )
            )
        for group in (await found.get("/board"))["groups"]:
            everything = await found.get(f"/board?group={group['group']}")
            for row in everything["groups"][0]["rows"]:
                title = re.search(r"<title>([^<]*)", await visit.page(f"/t/{row['task_id']}"))
                assert title is not None, row
                assert spelled(row["state"]) == row["state"]
