"""What a worker's agent is told of its span is what the coordinator sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.engines.temporal.test_commands import Machines, done_by
from tests.orchestrator.telemetry.collector import collector

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(400)


def test_a_span_of_another_machine_has_the_id_that_its_agent_was_given(
    tmp_path: Path, temporal_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = Machines(tmp_path, temporal_address)
    machines.env |= {"LOOPWRIGHT_TELEMETRY": "true", "LOOPWRIGHT_LEASE": "60"}
    script = done_by("one")
    told = tmp_path / "traceparents"
    noting = {"run": ["sh", "-c", f'echo "$TRACEPARENT" >>{told}']}
    script["attempts"] = {name: [noting, *steps] for name, steps in script["attempts"].items()}
    plan = machines.world.plan_of({"one": script})
    with collector() as receiving:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiving.url)
        with machines.worker("a"), machines.coordinator(plan, "--no-stay") as up:
            machines.has_ended(up)
    [root] = receiving.named("lifecycle one")
    attempts = receiving.named("invoke_agent agent-one")
    assert {each.trace for each in receiving.spans} == {root.trace}
    assert told.read_text().split() == [f"00-{each.trace}-{each.id}-01" for each in attempts]
    assert [each.failed for each in attempts] == [True, False]
