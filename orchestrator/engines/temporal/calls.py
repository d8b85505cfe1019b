"""How a workflow has something done elsewhere, and what it answered those who asked it last.

Must not know what is done, nor decide: the workflow gives the queue, and the timeouts of its table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from temporalio import workflow
from temporalio.common import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.owner.decider import FactAnswer
    from orchestrator.engines.temporal.options import Timeouts

REMEMBERED = 10
"""Answers that the next run knows of. A coordinator asks one thing at a time of a lifecycle."""


async def call(  # noqa: PLR0913  # all by name
    name: str,
    value: Any,
    *,
    queue: str,
    timeouts: Timeouts,
    result: type | None = None,
    attempts: int = 0,
) -> Any:
    """Return what an activity on a queue returned; it is tried so many `attempts`, or for ever."""
    return await workflow.execute_activity(
        name,
        value,
        task_queue=queue,
        result_type=result,
        start_to_close_timeout=timeouts.all,
        heartbeat_timeout=timeouts.beat,
        retry_policy=RetryPolicy(
            initial_interval=timeouts.again,
            maximum_interval=timeouts.again_cap,
            maximum_attempts=attempts,
        ),
    )


class Answers:
    """Answers to updates by their ids: the server knows these of one run only."""

    def __init__(self, earlier: dict[str, FactAnswer]) -> None:
        """Know those of earlier runs."""
        self._by_id = dict(earlier)

    def once(self, decide: Callable[[], FactAnswer]) -> FactAnswer:
        """Return the answer to the update that is handled; one that is asked again gets its own."""
        info = workflow.current_update_info()
        known = info.id if info is not None else ""
        answer = self._by_id.get(known)
        if answer is None:
            answer = self._by_id[known] = decide()
        return answer

    def latest(self) -> dict[str, FactAnswer]:
        """Return the last ones, for the next run."""
        return dict(list(self._by_id.items())[-REMEMBERED:])
