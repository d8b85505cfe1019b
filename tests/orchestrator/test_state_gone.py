"""A runner whose lock or records are taken away stops soon, says so, and is in nobody's way."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import DONE, until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

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
