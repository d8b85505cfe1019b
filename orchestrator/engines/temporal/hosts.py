"""The processes' ends of the queues: who decides, who keeps and who acts, as SDK workers.

Owns how they are set up, and the list of modules that pass the sandbox of workflows.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from orchestrator.engines.temporal import options
from orchestrator.engines.temporal.workflow import LifecycleWorkflow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import ThreadPoolExecutor

    from temporalio.client import Client
    from temporalio.worker import WorkflowRunner

    from orchestrator.engines.temporal.activities import Acting, Keepers
    from orchestrator.engines.temporal.options import Queues

PASSED_THROUGH = (
    "lifecycle.drive",
    "lifecycle.errors",
    "lifecycle.json_form",
    "lifecycle.machine",
    "lifecycle.needs_person",
    "lifecycle.owner.decider",
    "lifecycle.past",
    "lifecycle.projection",
    "lifecycle.record",
    "lifecycle.state_words",
    "orchestrator.engines.temporal.calls",
    "orchestrator.engines.temporal.options",
    "orchestrator.engines.temporal.payloads",
    "orchestrator.engines.temporal.visits",
    "pydantic",
    "pydantic_core",
    "runtime.agents.outcome",
    "runtime.errors",
    "templates.fence",
)
"""What a workflow uses as it is: importing it anew for each costs its host four times the time."""


def sandbox() -> WorkflowRunner:
    """Return what keeps workflows from looking at a clock, a disk or a network."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return SandboxedWorkflowRunner(restrictions=restrictions)


def decides(
    client: Client,
    queues: Queues,
    workflow: type = LifecycleWorkflow,
    *,
    runner: WorkflowRunner | None = None,
    executor: ThreadPoolExecutor | None = None,
) -> Worker:
    """Return who decides, in a sandbox unless there is another runner of workflows."""
    return Worker(
        client,
        task_queue=queues.workflows,
        workflows=[workflow],
        workflow_runner=runner or sandbox(),
        workflow_task_executor=executor,
        max_cached_workflows=options.CACHED_WORKFLOWS,
        sticky_queue_schedule_to_start_timeout=options.STICKY,
    )


def keeps(client: Client, queues: Queues, keepers: Keepers) -> Worker:
    """Return who keeps."""
    return Worker(client, task_queue=queues.coordinator, activities=[keepers.keep])


def acts(  # noqa: PLR0913  # all by name
    client: Client,
    queues: Queues,
    acting: Acting,
    *,
    name: str,
    agents: int,
    lease: float,
    labels: Iterable[str] = (),
) -> tuple[Worker, ...]:
    """Return who takes a worker's orders, and who takes assignments, also those with its labels."""
    throttle = timedelta(seconds=lease / options.BEATS / 2)
    return (
        Worker(
            client,
            task_queue=queues.worker(name),
            activities=[acting.perform, acting.reclaim, acting.end],
        ),
        *(
            Worker(
                client,
                task_queue=queues.agents_with(label),
                activities=[acting.assignment],
                max_concurrent_activities=agents,
                # One that is cut off swallows what its open polls are given: a lease for each.
                max_concurrent_activity_task_polls=1,
                graceful_shutdown_timeout=options.DRAIN_WITHIN,
                max_heartbeat_throttle_interval=throttle,
                default_heartbeat_throttle_interval=throttle,
            )
            for label in dict.fromkeys(("", *labels))
        ),
    )
