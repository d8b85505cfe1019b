"""The state folder of a live runner, gone, replaced or on a full disk: told, and nothing lost."""

from __future__ import annotations

import resource
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import DONE, until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import Live, World

WAITS = [{"sleep": 60}]


def test_a_runner_whose_state_folder_was_removed_stops_and_lets_the_next_begin(
    world: World,
) -> None:
    folder = world.repo / ".loopwright"
    with world.live("run", "x", "--command", world.script("waits", WAITS)) as live:
        live.says("attempt 1 started")
        folder.rename(world.folder / "gone")  # an agent that writes cannot get in the way of it
        live.ends(2)
        assert "runner.lock was removed while this runner worked" in live.err
        assert "loopwright init --begin-anew" in live.err
    assert not folder.exists() or folder.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(folder, ignore_errors=True)
    world.call("init", "--begin-anew")
    assert world.json("run", "x", "--command", world.script("agent", [DONE]))["spawn_count"] == 1


@pytest.mark.parametrize("again", [False, True], ids=["removed", "replaced"])
def test_a_runner_whose_database_is_another_stops_and_leaves_that_alone(
    world: World,
    again: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    database = world.repo / ".loopwright" / "state.db"
    with world.live("run", "x", "--command", world.script("waits", WAITS)) as live:
        live.says("attempt 1 started")
        if again:
            copy = database.with_name("copy")
            copy.write_bytes(b"somebody put this here")
            copy.replace(database)
        else:
            database.unlink()
        live.ends(2)
        assert f"state.db was {'replaced' if again else 'removed'}" in live.err
    until(lambda: again == database.exists(), "the file is as it was put")
    assert not again or database.read_bytes() == b"somebody put this here"


# --- a full disk -------------------------------------------------------------------------------

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
