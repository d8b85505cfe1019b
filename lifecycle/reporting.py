"""How a runner tells what it does: log events, and each decision after it is committed.

Owns the level of each event and the default log. Any other sink is the caller's: the builder of the
loop says where log events go and who observes decisions. Must not decide anything or keep what was
told.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lifecycle.machine.events import Event
    from lifecycle.record import AgentLifecycle

DEBUG, INFO, WARNING, ERROR = "debug", "info", "warning", "error"
LEVELS: dict[str, str] = {
    "spawn_requested": DEBUG,
    **dict.fromkeys(
        (
            "agent_entry_point_failed",
            "agent_limit_exceeded",
            "agent_stop_failed",
            "agent_supervision_failed",
            "api_request_failed",
            "api_server_failed",
            "attempt_upload_failed",
            "attendance_failed",
            "authorization_refused",
            "branch_removal_refused",
            "budget_unheld",
            "cleanup_hook_failed",
            "concurrent_limit_exceeded",
            "forge_unusable",
            "graceful_shutdown_timeout",
            "hook_refused",
            "hooks_problem",
            "instance_record_failed",
            "instance_upkeep_failed",
            "issue_refused",
            "issue_update_failed",
            "lifecycle_handout_not_kept",
            "lifecycle_illegal_transition",
            "lifecycle_loop_failed",
            "lifecycle_record_damaged",
            "lifecycle_recovery_failed",
            "lifecycle_request_failed",
            "lifecycle_requests_failed",
            "lifecycle_state_gone",
            "lifecycle_store_failed",
            "lifecycle_validation_failed",
            "lifecycle_waits_for_person",
            "machine_short",
            "machine_small",
            "notify_failed",
            "observer_failed",
            "page_news_failed",
            "reply_refused",
            "retention_failed",
            "runner_order_failed",
            "search_failed",
            "settings_proposed",
            "settings_record_failed",
            "spawn_rejected",
            "supervisor_stop_failed",
            "telemetry_failed",
            "task_tick_failed",
            "transition_hook_failed",
            "worker_assignment_lost",
            "worker_assignment_refused",
            "worker_look_failed",
            "worker_missing",
            "worker_removal_failed",
            "worker_save_failed",
            "worker_sign_failed",
        ),
        WARNING,
    ),
    "agent_crashed": ERROR,
    "agent_initialization_failed": ERROR,
}
"""The level of each event; one that is not named here is `info`."""


class Report(Protocol):
    """Takes a log event with its fields, as structlog's methods do."""

    def __call__(self, event: str, /, **fields: object) -> object:
        """Log it."""
        ...


def level_of(event: str) -> str:
    """Return the level at which an event is logged."""
    return LEVELS.get(event, INFO)


def logged(event: str, /, **fields: object) -> None:
    """Log an event where the caller's program keeps its log.

    That is structlog where the program configured it, else the logger "loopwright" of the standard
    library. Nothing goes to standard output unasked, as structlog without configuration would do.
    """
    structlog = sys.modules.get("structlog")
    if structlog is not None and structlog.is_configured():
        getattr(structlog.get_logger("loopwright"), level_of(event))(event, **fields)
        return
    level = logging.getLevelNamesMapping()[level_of(event).upper()]
    told = "; ".join(f"{name}: {value}" for name, value in fields.items())
    logging.getLogger("loopwright").log(
        level, "%s: %s", event, told, extra={"event": event, "fields": fields}
    )


def silent(event: str, /, **fields: object) -> None:
    """Report to nobody."""
    del event, fields


@dataclass(frozen=True, slots=True)
class Committed:
    """One committed decision, for views and logs."""

    agent_id: str
    event: str
    before: str
    after: str
    at: float
    fact: Event
    """The event itself, with all it says."""
    record: AgentLifecycle
    """As it is now; of several decisions in one commit, after the last."""
    ways: str = ""
    """What a person can type, where it comes to wait for one."""


class Observer(Protocol):
    """Who wants to know of each decision, after it is committed."""

    def __call__(self, news: Committed) -> None:
        """Take note without blocking; an error is reported, and changes nothing."""
        ...
