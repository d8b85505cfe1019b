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

import grimp
import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from orchestrator.engines.temporal import hosts
from orchestrator.engines.temporal.payloads import CONVERTER, MOST_BYTES
from orchestrator.engines.temporal.workflow import LifecycleWorkflow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HISTORIES = sorted(Path(__file__).with_name("histories").glob("*.json"))
PACKAGES = ("lifecycle", "runtime", "ci", "communication", "templates", "orchestrator")
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
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    used = graph.find_upstream_modules("orchestrator.engines.temporal.workflow")
    passed = [each for each in hosts.PASSED_THROUGH if each.partition(".")[0] in PACKAGES]

    def covers(entry: str, module: str) -> bool:
        return module == entry or module.startswith(f"{entry}.")

    assert [each for each in used if not any(covers(entry, each) for entry in passed)] == []
    assert [entry for entry in passed if not any(covers(entry, each) for each in used)] == []
