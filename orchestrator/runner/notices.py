"""Shows people at once events that are not facts of a lifecycle.

Such are records that cannot be written, and settings that an agent's commits would change. Reports
go to the runner's log, which may be on the very disk that is full. Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.reporting import Report


WAITS = {
    "lifecycle_store_failed": "records cannot be written: {reason}; waiting",
    "machine_short": "{reason}; waiting and retrying",
}
OVER = {
    "lifecycle_store_recovered": (
        "lifecycle_store_failed",
        "records can be written again; continuing",
    ),
    "machine_recovered": ("machine_short", "the machine has room again; continuing"),
}
"""What ends which wait, and its line."""
TOLD = {
    "machine_small": (
        "only {agents} of {wanted} agents run at once, there is no room for more: {reason}; raise "
        "it, or lower max_live_agents"
    ),
    "settings_proposed": "{agent_id}: {reason}",
    "worker_assignment_refused": "{agent_id} is refused here: {reason}",
    "worker_missing": "{agent_id} waits: {reason}",
    "budget_unheld": "{agent_id}: {reason}",
    "notify_failed": "a notification could not be sent ({channel}): {reason}",
    "telemetry_failed": "telemetry: {reason}",
    "lifecycle_state_gone": (
        "stopping: the records of this repository are no longer where they were"
    ),
}


class Troubles:
    """Passes reports on to the log, and shows in one line what begins and what is over."""

    def __init__(self, log: Report, tell: Callable[[str], None]) -> None:
        self._log = log
        self._tell = tell
        self._waiting: dict[str, set[str]] = {wait: set() for wait in WAITS}
        """Lifecycles (or the runner) that wait, by what for; one line is enough for all of them."""

    def report(self, event: str, /, **fields: object) -> None:
        """Log it; show it where a person should look now."""
        self._log(event, **fields)
        words = {"agent_id": "", "reason": "", "channel": "", **fields}
        agent_id = str(words["agent_id"])
        if event in WAITS:
            if not self._waiting[event]:
                self._tell(WAITS[event].format(**words))
            self._waiting[event].add(agent_id)
        elif event in OVER and self._waiting[OVER[event][0]]:
            waiting, told = self._waiting[OVER[event][0]], OVER[event][1]
            waiting.discard(agent_id)
            if not waiting:
                self._tell(told)
        elif event in TOLD:
            self._tell(TOLD[event].format(**words))
