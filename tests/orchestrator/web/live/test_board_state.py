"""The board is in line with what is decided, also with what is decided while it is being read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.machine.states import Accepted
from orchestrator.web.live.board_state import BoardState
from tests.orchestrator.loopkit import ASK, DONE
from tests.orchestrator.web.webkit import site

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from lifecycle.machine.states import AgentState
    from lifecycle.record import Outline

WORK = [{"write": "new.txt"}, {"commit": "new"}, DONE]


async def test_what_is_decided_during_the_first_reading_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(tmp_path) as found:
        agent = await found.add("asks", {"attempts": {"1": [ASK], "default": WORK}})
        await found.comes_to("AwaitingHuman", agent)
        reads, goes_on = asyncio.Event(), asyncio.Event()
        outlines = found.store.outlines

        async def slow(states: Sequence[AgentState] = ()) -> tuple[Outline, ...]:
            told = await outlines(states)
            reads.set()
            await goes_on.wait()
            return told

        monkeypatch.setattr(found.store, "outlines", slow)
        board = BoardState(found.services.runner)
        found.engine.shared.observers.append(board.news)
        reading = asyncio.create_task(board.look())
        await reads.wait()
        await found.post(f"/lifecycles/{agent}/answer", {"text": "green"})
        await found.comes_to("Completed", agent)
        await found.post(f"/lifecycles/{agent}/accept")
        goes_on.set()
        await reading
        assert isinstance(board.records[agent].work, Accepted)
        assert board.accepted == 1
