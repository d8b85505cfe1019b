"""A runner on a disk that takes nothing any more: a person can end it, and nothing is lost."""

from __future__ import annotations

import resource
import signal
from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import DONE, until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import Live, World

DIRTY = {"write": {"path": "draft.txt", "text": "not committed\n"}}
FULL = 16 * 1024
"""Bytes that no file may pass from now on: the database has more, what a person reads less."""


def fill_up(live: Live) -> None:
    """Refuse the runner each write to its records, as a full disk does."""
    _, hard = resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, (FULL, hard))


@pytest.mark.parametrize("command", ["run", "up"])
def test_an_interrupt_on_a_full_disk_ends_as_an_interrupt_and_the_next_start_saves(
    world: World, command: str
) -> None:
    waits = world.script("waits", {"attempts": {"default": [DIRTY, {"sleep": 60}]}})
    words: tuple[str, ...] = ("run", "x", "--command", waits)
    if command == "up":
        world.call("add", "x", "--command", waits)
        words = ("up", "--no-server")
    with world.live(*words) as live:
        live.says("attempt 1 started")
        until((world.workspace() / "draft.txt").exists, "the agent is at work")
        fill_up(live)
        live.signal(signal.SIGINT)
        live.ends(130)
        assert "Traceback" not in live.err
        assert "internal error" not in live.err
        assert "StoreError" not in live.err

    world.script("waits", {"attempts": {"default": [{"commit": "Keep the draft"}, DONE]}})
    world.call("up", "--no-server")

    assert world.row()["work_kind"] == "Completed"
    saved = world.git("for-each-ref", "--format=%(refname)", "refs/loopwright/saved/").split()
    assert "draft.txt" in [
        name for ref in saved for name in world.git("ls-tree", "--name-only", ref).split()
    ]
