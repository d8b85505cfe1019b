"""The runner's log: names, form, permissions and size."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

from lifecycle.machine import events as on
from lifecycle.machine.states import Process
from lifecycle.record import AgentLifecycle
from lifecycle.reporting import Committed
from orchestrator.runner.log import OPERATIONS, RunnerLog

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000.0


def news(fact: on.Event, before: str, after: str) -> Committed:
    return Committed(
        agent_id="agent-T001",
        event=type(fact).__name__,
        before=before,
        after=after,
        at=NOW,
        fact=fact,
        record=AgentLifecycle(agent_id="agent-T001", task="x"),
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_decision_is_logged_under_its_contracted_name(tmp_path: Path) -> None:
    with closing(RunnerLog(tmp_path / "state", now=lambda: NOW)) as log:
        process = Process(pid=42, start_time=1, boot_id="b", spawn_id="s")
        spawned = on.AgentSpawned(at=NOW, attempt=3, process=process)
        log.observer(news(spawned, "Spawning", "Working"))
        log.observer(news(on.PauseRequested(at=NOW, by="ada"), "Working", "Working"))
        log.observer(news(on.StopRequested(at=NOW, by="ada"), "Working", "Stopping"))
        log.observer(news(on.Guided(at=NOW, text="hint"), "Blocked", "Blocked"))
        mailbox = on.MailboxInvalid(at=NOW, attempt=3, problem="torn")
        log.observer(news(mailbox, "Working", "Working"))
    written = lines(tmp_path / "state" / "runner.log")
    assert [line["event"] for line in written] == [
        "agent_spawned",
        "agent_state_changed",
        "lifecycle_operation",
        "agent_state_changed",
        "lifecycle_operation",
    ]
    assert written[1] == {
        "timestamp": "2027-01-15T08:00:00.000Z",
        "level": "info",
        "event": "agent_state_changed",
        "agent_id": "agent-T001",
        "previous_state": "Spawning",
        "new_state": "Working",
        "reason": "AgentSpawned",
    }
    assert (written[0]["attempt"], written[0]["pid"]) == (3, 42)
    assert (written[2]["operation"], written[2]["by"]) == ("stop_agent", "ada")


def test_every_operation_of_people_has_a_name() -> None:
    people = {
        each
        for each in vars(on).values()
        if isinstance(each, type) and issubclass(each, on.PersonEvent)
    }
    assert set(OPERATIONS) == people - {on.PersonEvent}


def test_reports_carry_their_fields_and_failures_are_warnings(tmp_path: Path) -> None:
    with closing(RunnerLog(tmp_path, now=lambda: NOW)) as log:
        log.report("retention_failed", reason="no room\nat all", path=tmp_path)
        log.report("lifecycle_retired", agent_id="half \udc80")
    first, second = lines(tmp_path / "runner.log")
    assert (first["level"], first["path"]) == ("warning", str(tmp_path))
    assert second["level"] == "info"


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
