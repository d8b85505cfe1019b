"""What the runners of several repositories in one process share, and nothing else of each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.http.shared_clients import SharedClients
    from lifecycle.admission.shared_day import SharedDay
    from orchestrator.runner.providers import Providers
    from orchestrator.runner.signals import SignalHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessShare:
    """The part of one repository in what all of them share."""

    name: str
    """Of the repository, as people see it."""
    repositories: int
    """How many there are in the process."""
    signals: SignalHandler
    clients: SharedClients
    day: SharedDay
    provided: Callable[[Providers], None]
    """Called with the providers of the repository, once it is known which they are."""
