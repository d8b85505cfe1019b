"""Which agents are known: registered by hand or offered by installed packages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from lifecycle.fleet.api.options import IsolationLevel
from lifecycle.fleet.api.registry import (
    AgentDefinition,
    AgentManifest,
    AgentRegistry,
    AgentRequirements,
    CommandAgent,
    definition_id_of,
)
from lifecycle.fleet.errors import AgentNotFoundError, SpawnValidationError

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = CommandAgent(command=("true",))
PACKAGE = """
from lifecycle.fleet.api.registry import AgentDefinition, CommandAgent
one = AgentDefinition(name="one", runs=CommandAgent(command=("true",)))
def several():
    return [AgentDefinition(name=name, runs=one.runs) for name in ("two", "three")]
wrong = 5
"""
OFFERS = """[loopwright.agents]
one = offered_agents:one
several = offered_agents:several
wrong = offered_agents:wrong
missing = offered_agents:missing
"""


def test_a_definition_is_found_by_id_and_by_name() -> None:
    registry = AgentRegistry()
    manifest = AgentManifest(name="Reviewer", version="2", capabilities=("review",))
    made = registry.register(AgentDefinition(name="reviewer", runs=PROGRAM, manifest=manifest))

    assert made.definition_id == definition_id_of("reviewer")
    assert registry.get(made.definition_id) is made
    assert registry.find("reviewer") is made
    assert registry.find("other") is None
    assert registry.get_manifest(made.definition_id) == manifest
    with pytest.raises(AgentNotFoundError, match="registered are: reviewer"):
        registry.get(uuid4())


def test_another_definition_with_the_same_name_or_id_is_refused() -> None:
    first = AgentDefinition(name="a", runs=PROGRAM)
    registry = AgentRegistry([first, AgentDefinition(name="b", runs=PROGRAM)])

    registry.register(first)
    for name, definition_id in (("a", uuid4()), ("c", first.definition_id)):
        with pytest.raises(SpawnValidationError, match="already registered"):
            registry.register(AgentDefinition(name=name, runs=PROGRAM, definition_id=definition_id))
    assert [each.name for each in registry.definitions()] == ["a", "b"]


def test_the_usual_level_is_that_of_the_definition_or_of_its_kind() -> None:
    sandboxed = AgentRequirements(isolation_level=IsolationLevel.CONTAINER)

    assert AgentDefinition(name="a", runs=PROGRAM).usual_level == "process"
    assert (
        AgentDefinition(name="b", runs=PROGRAM, requirements=sandboxed).usual_level == "container"
    )


def test_installed_packages_offer_agents_and_a_broken_offer_harms_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "offered_agents.py").write_text(PACKAGE)
    info = tmp_path / "offered_agents-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered-agents\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(OFFERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    told: list[object] = []

    def report(event: str, /, **fields: object) -> None:
        assert event == "agent_entry_point_failed"
        told.append(fields["entry_point"])

    registry = AgentRegistry()

    try:
        found = registry.load_entry_points(report)
    finally:
        sys.modules.pop("offered_agents", None)

    assert found == 3
    assert [each.name for each in registry.definitions()] == ["one", "three", "two"]
    assert sorted(map(str, told)) == ["missing", "wrong"]
