"""Trouble that only the log heard of is told to people: when it begins and when it is over."""

from __future__ import annotations

from orchestrator.runner.notices import Troubles


def test_records_that_cannot_be_written_are_told_once_for_all_loops_and_when_it_is_over() -> None:
    logged: list[str] = []
    told: list[str] = []

    def log(event: str, /, **_fields: object) -> None:
        logged.append(event)

    report = Troubles(log, told.append).report
    for agent_id in ("a", "b", "a"):
        report("lifecycle_store_failed", agent_id=agent_id, reason="the disk is full")
    assert told == ["records cannot be written: the disk is full; waiting"]
    report("lifecycle_store_recovered", agent_id="a")
    assert len(told) == 1
    report("lifecycle_store_recovered", agent_id="b")
    assert told[1:] == ["records can be written again; continuing"]
    assert logged.count("lifecycle_store_failed") == 3


def test_a_machine_without_room_is_told_once_for_all_that_wait_and_when_there_is_room() -> None:
    told: list[str] = []
    report = Troubles(lambda _event, /, **_fields: None, told.append).report
    report("machine_small", agents=2, wanted=8, reason="`ulimit -u` is 64")
    assert told[0].startswith(
        "only 2 of 8 agents run at once, there is no room for more: `ulimit -u`"
    )
    for agent_id in ("a", "b", "a"):
        report("machine_short", agent_id=agent_id, reason="this machine is short of memory")
    report("machine_short", reason="this machine is short of memory")
    assert told[1:] == ["this machine is short of memory; waiting and retrying"]
    for agent_id in ("a", "b", ""):
        assert len(told) == 2
        report("machine_recovered", agent_id=agent_id)
    assert told[2:] == ["the machine has room again; continuing"]
