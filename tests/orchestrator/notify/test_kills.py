"""Over a kill -9 at each step of sending nothing is lost, and the id of a reason stays the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import ASK, World, of_store, until
from tests.orchestrator.notify.receivers import SECRET, Receiver, receiver

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore

TWICE = "after notification is sent"
STEPS = (
    "before notification is stored",
    "after notification is stored",
    "before notification is sent",
    TWICE,
    "after notification is noted",
)


def of_type(got: Receiver, kind: str) -> list[str]:
    return [each["id"] for each in got.got if each["type"] == kind]


@pytest.mark.parametrize("step", STEPS)
def test_a_question_is_told_whatever_kills_the_runner(tmp_path: Path, step: str) -> None:
    world = World(tmp_path)
    agent = world.script("agent", {"attempts": {"default": [ASK]}})
    with receiver() as got:
        world.settings(
            f'stop_grace = 0.3\n[[notify]]\nname = "hook"\nwebhook = "{got.url}"\n'
            'secret = "env:HOOK_SECRET"\n'
        )
        args = ("run", "Do it", "--task-id", "T001", "--command", agent)
        with world.live(*args, HOOK_SECRET=SECRET, LOOPWRIGHT_CRASH_AT=step) as killed:
            assert killed.process.wait(40) == -9
        before = of_type(got, "needs_you")
        with world.live(*args, HOOK_SECRET=SECRET):
            until(lambda: of_type(got, "runner_stopped"), "the next runner told of the last one")
            wanted = 2 if step == TWICE else 1
            until(lambda: len(of_type(got, "needs_you")) >= wanted, lambda: got.got)
            until(lambda: not of_store(world.repo, waiting), "nothing waits")
    told = of_type(got, "needs_you")
    assert len(told) == wanted, got.got
    assert len(set(told)) == 1
    assert len(before) == (1 if step in (TWICE, STEPS[-1]) else 0)
    assert all(got.signed)
    assert got.ids == [each["id"] for each in got.got]
    (question,) = {each["text"] for each in got.got if each["type"] == "needs_you"}
    assert "Blue or green?" in question


async def waiting(store: SqliteStore) -> tuple[str, ...]:
    return await store.notifications.channels_waiting()
