"""Signs of life: output, processor time, processes and changed files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from runtime.processes import activity
from tests.runtime.process_fixtures import GRACE, Stage, until

if TYPE_CHECKING:
    from pathlib import Path


async def test_one_pass_measures_output_processor_time_and_processes(stage: Stage) -> None:
    quiet = await stage.sh("exec sleep 600")
    busy = await stage.terminals.spawn(
        stage.order(
            "/bin/sh", "-c", "echo hello; (while :; do :; done) & wait", log=stage.folder / "busy"
        )
    )

    def seen() -> activity.Activity:
        return stage.terminals.sample()[busy.order.spawn_id]

    await until(lambda: seen().cpu_ticks > 2)
    assert seen().log_size == len("hello\n")
    assert seen().processes == 2
    still = stage.terminals.sample()[quiet.order.spawn_id]
    assert (still.log_size, still.processes) == (0, 1)
    assert still.cpu_ticks <= 1
    await stage.terminals.aclose(GRACE)


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "deep"
    folder.mkdir(parents=True)
    changed = folder / "a.py"
    changed.write_text("x")
    for path in (changed, folder, folder.parent):
        os.utime(path, (1000, 1000))
    assert activity.newest_change(tmp_path, 1000) is None
    os.utime(changed, (2000, 2000))
    assert activity.newest_change(tmp_path, 1000) == 2000


@pytest.mark.parametrize("name", [".git", "node_modules", ".venv"])
def test_what_tools_fill_is_no_sign_of_life(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").write_text("x")
    assert activity.newest_change(tmp_path, 0) is None


def test_a_workspace_that_is_gone_has_no_changes(tmp_path: Path) -> None:
    assert activity.newest_change(tmp_path / "gone", 0) is None
