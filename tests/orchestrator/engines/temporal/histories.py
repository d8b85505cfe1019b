"""Histories of workflows, as the server had them: read from it once, and replayed ever after."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from temporalio.client import WorkflowHistory

from lifecycle.settings import Settings
from orchestrator.engines.temporal.connection import connect
from orchestrator.engines.temporal.options import Queues

if TYPE_CHECKING:
    from pathlib import Path


async def record_histories(address: str, project: str, folder: Path) -> None:
    """Write the history of each run of a lifecycle that is over."""
    settings = Settings(temporal_address=address)
    client = await connect(settings, {})
    workflow_id = Queues(project).workflow_id("agent-T001")
    handle = client.get_workflow_handle(workflow_id)
    run_id, runs = (await handle.describe()).run_id, list[WorkflowHistory]()
    while run_id:
        found = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        runs.insert(0, found)
        begun = found.events[0].workflow_execution_started_event_attributes
        run_id = begun.continued_execution_run_id
    for number, history in enumerate(runs, 1):
        text = json.dumps(json.loads(history.to_json()), separators=(",", ":"))
        (folder / f"run-{number}.json").write_text(text)
