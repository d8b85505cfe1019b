"""Log events: their levels, and where they go when the caller says nothing about it."""

from __future__ import annotations

import ast
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from structlog.testing import capture_logs

from lifecycle.reporting import LEVELS, level_of, logged
from tests.lifecycle.world import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lifecycle.world import World

FAULTS = ("_failed", "_refused", "_damaged", "_short", "_small", "_gone", "_illegal_transition")
REPORTS = ("report", "_report")


@pytest.fixture(autouse=True)
def _unconfigured() -> Iterator[None]:
    """Leave structlog as a program has it that never heard of it."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def reported() -> set[str]:
    """Return the events that the product reports under a name that is written out."""
    found: set[str] = set()
    for room in ("lifecycle", "orchestrator", "runtime", "ci"):
        for path in Path(ROOT, room).rglob("*.py"):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if "report(" in text else ():
                if isinstance(node, ast.Call) and _name(node.func) in REPORTS and node.args:
                    found |= {
                        each.value
                        for each in ast.walk(node.args[0])
                        if isinstance(each, ast.Constant) and isinstance(each.value, str)
                    }
    return found


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


@pytest.mark.parametrize(
    ("event", "level"),
    [
        ("spawn_requested", "debug"),
        ("agent_spawned", "info"),
        ("agent_state_changed", "info"),
        ("agent_terminated", "info"),
        ("spawn_rejected", "warning"),
        ("graceful_shutdown_timeout", "warning"),
        ("agent_initialization_failed", "error"),
        ("agent_crashed", "error"),
        ("lifecycle_operation", "info"),
        ("lifecycle_validation_failed", "warning"),
    ],
)
def test_the_contracted_events_have_the_contracted_levels(event: str, level: str) -> None:
    assert level_of(event) == level


def test_every_fault_that_is_reported_has_a_level_and_every_level_an_event() -> None:
    events = reported()
    assert {each for each in events if each.endswith(FAULTS)} <= set(LEVELS)
    assert set(LEVELS) <= events


def test_by_default_events_go_to_the_logger_of_the_library_and_not_to_standard_output(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG, logger="loopwright"):
        logged("spawn_requested", definition_id="a")
        logged("agent_crashed", error="no")
    assert [(each.levelname, each.message) for each in caplog.records] == [
        ("DEBUG", "spawn_requested: definition_id: a"),
        ("ERROR", "agent_crashed: error: no"),
    ]
    assert capsys.readouterr().out == ""


def test_a_program_that_configured_structlog_gets_them_there_with_their_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with capture_logs() as logs:
        logged("spawn_rejected", reason="no slot")
    assert logs == [{"event": "spawn_rejected", "log_level": "warning", "reason": "no slot"}]
    assert not caplog.records


async def test_a_loop_that_is_built_by_hand_logs_and_audits_what_it_decides(world: World) -> None:
    with capture_logs() as logs:
        await world.run([{"exit": 1}], max_retries=0)
    events = [each["event"] for each in logs]
    assert events.count("agent_spawned") == 1
    moves = [
        (each["previous_state"], each["new_state"])
        for each in logs
        if each["event"] == "agent_state_changed"
    ]
    assert moves[:2] == [("Queued", "Preparing"), ("Preparing", "Spawning")]
    assert moves[-1][1] == "Rejected"
    audited = [(each.action, each.outcome) for each in await world.store.trail.entries()]
    assert audited == [("spawn", "done"), ("reject", "done")]
