"""What is under way when a new version begins to decide is gone on with as it began.

A change that fails here (another order, another timer, orders in another sequence) would stop the
attempts that are under way across an upgrade. If it is meant, record the histories anew, into any
folder outside of the checkout:
`LOOPWRIGHT_RECORD_HISTORIES=FOLDER pytest -n 0
tests/orchestrator/engines/temporal/test_deaths.py`, and say in the changelog that workers are to be
drained before the upgrade.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from orchestrator.engines.temporal import hosts
from orchestrator.engines.temporal.payloads import CONVERTER, MOST_BYTES
from orchestrator.engines.temporal.workflow import LifecycleWorkflow
from tests.orchestrator.engines.temporal import surface
from tests.orchestrator.engines.temporal.surface import PACKAGES, WORKFLOW, imported

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HISTORIES = sorted(Path(__file__).with_name("histories").glob("run-*.json"))
MOST_EVENTS, MOST_HISTORY_BYTES = 100, 100_000
"""In the history of one attempt."""


@pytest.fixture(params=HISTORIES, ids=lambda path: path.stem)
def history(request: pytest.FixtureRequest) -> WorkflowHistory:
    return WorkflowHistory.from_json("lifecycle", request.param.read_text())


async def test_a_recorded_history_replays(sdk: None, history: WorkflowHistory) -> None:
    del sdk

    async def one() -> AsyncIterator[WorkflowHistory]:
        yield history

    with ThreadPoolExecutor(1) as executor:
        replayer = Replayer(
            workflows=[LifecycleWorkflow],
            workflow_runner=hosts.sandbox(),
            workflow_task_executor=executor,
            data_converter=CONVERTER,
        )
        replayed = await replayer.replay_workflows(one())
    assert replayed.replay_failures == {}


def test_the_history_of_an_attempt_is_small(history: WorkflowHistory) -> None:
    sizes = [each.ByteSize() for each in history.events]
    assert len(sizes) <= MOST_EVENTS
    assert sum(sizes) <= MOST_HISTORY_BYTES
    assert max(sizes) <= MOST_BYTES


def test_what_passes_the_sandbox_is_what_the_workflow_imports() -> None:
    used = imported() - {WORKFLOW}
    passed = [each for each in hosts.PASSED_THROUGH if each.partition(".")[0] in PACKAGES]

    def covers(entry: str, module: str) -> bool:
        return module == entry or module.startswith(f"{entry}.")

    assert [each for each in used if not any(covers(entry, each) for entry in passed)] == []
    assert [entry for entry in passed if not any(covers(entry, each) for each in used)] == []


def test_a_changed_surface_has_a_decision() -> None:
    """Histories show a few ways of many: whoever changes what workflows import decides on all."""
    noted, now = surface.recorded(), surface.surface()
    before = noted["modules"]
    changed = sorted(name for name in {**now, **before} if now.get(name) != before.get(name))
    assert changed == [], f"what becomes of those that run? {surface.__doc__}"
    assert noted["decision"] in surface.DECISIONS


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ('"""Another text."""\n\n\ndef one():\n    return 1  # as ever\n', True),
        ('"""Text."""\n\ndef one():\n    """Say more."""\n    return 1\n', True),
        ('"""Text."""\n\n\ndef one():\n    return 2\n', False),
        ('"""Text."""\n\n\ndef one():\n    return "# 1"\n', False),
    ],
)
def test_texts_about_a_module_are_not_what_it_does(source: str, *, same: bool) -> None:
    before = '"""Text."""\n\n\ndef one():\n    return 1\n'
    assert (surface.hash_of(source) == surface.hash_of(before)) is same
