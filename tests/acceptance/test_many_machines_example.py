"""The example of many machines: the tasks of a worker that is killed are done by the other one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "many_machines" / "run.py"


@pytest.mark.timeout(300)
def test_the_tasks_of_a_killed_worker_are_done_by_the_other_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("many_machines_run", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    ended = example.play(tmp_path)
    lost = capsys.readouterr().out.partition(" is killed while")[0][-1]
    (other,) = {"a", "b"} - {lost}
    assert set(ended) == set(example.TASKS)
    assert set(ended.values()) == {f"done by {other}"}
