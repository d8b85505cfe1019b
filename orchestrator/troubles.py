"""Tells people at once of what is no fact of a lifecycle.

Such are records that cannot be written, and settings that an agent's commits would change. Reports
go to the runner's log, which may be on the very disk that is full. Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.parts import Report


class Troubles:
    """Hands reports on to the log, and tells in one line what begins and what is over."""

    def __init__(self, log: Report, tell: Callable[[str], None]) -> None:
        self._log = log
        self._tell = tell
        self._waiting: set[str] = set()
        """Lifecycles that wait for the store; one line is enough for all of them."""
        self._short: set[str] = set()
        """Lifecycles, or the runner itself, that wait for room on the machine; as above."""

    def report(self, event: str, /, **fields: object) -> None:
        """Log it; tell it where somebody should look now."""
        self._log(event, **fields)
        agent_id = str(fields.get("agent_id", ""))
        if event == "lifecycle_store_failed":
            if not self._waiting:
                self._tell(f"records cannot be written: {fields.get('reason', '')}; waits")
            self._waiting.add(agent_id)
        elif event == "lifecycle_store_recovered" and self._waiting:
            self._waiting.discard(agent_id)
            if not self._waiting:
                self._tell("records can be written again; goes on")
        elif event == "machine_short":
            if not self._short:
                self._tell(f"{fields.get('reason', '')}; waits and tries again")
            self._short.add(agent_id)
        elif event == "machine_recovered" and self._short:
            self._short.discard(agent_id)
            if not self._short:
                self._tell("the machine has room again; goes on")
        elif event == "machine_small":
            self._tell(
                f"at most {fields.get('agents')} of {fields.get('wanted')} agents run at once: "
                f"{fields.get('reason', '')}, which has room for no more"
            )
        elif event == "settings_proposed":
            self._tell(f"{agent_id}: {fields.get('reason', '')}")
        elif event == "lifecycle_state_gone":
            self._tell("stopping: the records of this repository are not where they were")
