"""Refuses to decide here what another machine decides.

Small, since commands for a live runner load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError
from lifecycle.record import working_worker

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle


def require_no_worker(record: AgentLifecycle) -> None:
    """Refuse to decide here what is decided elsewhere while a worker is at it."""
    if worker := working_worker(record):
        raise LifecycleError(
            f"worker {worker} has {record.agent_id}, and no coordinator is alive here: start it "
            "with `loopwright up --engine temporal` (or `serve`), then ask again. If its server is "
            f"gone for good, `loopwright export {record.agent_id}` and `loopwright import` take it "
            "from the worker"
        )
