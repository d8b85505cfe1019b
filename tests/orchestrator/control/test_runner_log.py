"""The runner's log: form, permissions and size."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

from orchestrator.control.runner_log import RunnerLog

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000.0


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_reports_carry_their_fields_and_the_level_of_their_event(tmp_path: Path) -> None:
    with closing(RunnerLog(tmp_path, now=lambda: NOW)) as log:
        log.report("retention_failed", reason="no room\nat all", path=tmp_path)
        log.report("lifecycle_retired", agent_id="half \udc80")
        log.report("spawn_requested")
        log.report("agent_crashed")
    first, *others = lines(tmp_path / "runner.log")
    assert first == {
        "timestamp": "2027-01-15T08:00:00.000Z",
        "level": "warning",
        "event": "retention_failed",
        "reason": "no room\nat all",
        "path": str(tmp_path),
    }
    assert [each["level"] for each in others] == ["info", "debug", "error"]


def test_the_log_is_for_its_owner_alone_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        with closing(RunnerLog(tmp_path / "state", now=lambda: NOW)) as log:
            log.report("started")
    path = tmp_path / "state" / "runner.log"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(lines(path)) == 2


def test_a_full_log_is_moved_aside_and_both_stay_below_the_cap(tmp_path: Path) -> None:
    with closing(RunnerLog(tmp_path, now=lambda: NOW, cap=2000)) as log:
        for number in range(100):
            log.report("agent_spawned", number=number)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"runner.log", "runner.log.1"}
    assert max(sizes.values()) <= 2000
    assert lines(tmp_path / "runner.log")[-1]["number"] == 99


def test_a_full_log_goes_on_where_no_other_can_be_made_until_one_can(tmp_path: Path) -> None:
    # A folder in the place of the older log: nothing can be moved there.
    (tmp_path / "runner.log.1" / "full").mkdir(parents=True)
    with closing(RunnerLog(tmp_path, now=lambda: NOW, cap=2000)) as log:
        for number in range(50):
            log.report("agent_spawned", number=number)
        assert lines(tmp_path / "runner.log")[-1]["number"] == 49
        (tmp_path / "runner.log.1" / "full").rmdir()
        (tmp_path / "runner.log.1").rmdir()
        log.report("agent_spawned", number=50)
    assert [line["number"] for line in lines(tmp_path / "runner.log")] == [50]
    assert len(lines(tmp_path / "runner.log.1")) == 50


def test_what_is_logged_after_the_end_is_dropped(tmp_path: Path) -> None:
    log = RunnerLog(tmp_path, now=lambda: NOW)
    log.close()
    log.close()
    log.report("too_late")
    assert lines(tmp_path / "runner.log") == []
