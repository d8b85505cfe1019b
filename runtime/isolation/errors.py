"""What this package refuses: an isolation that cannot be given, and a workspace that was tampered.

It owns no logic.
"""

from __future__ import annotations

from runtime.errors import SpawnError


class IsolationError(SpawnError):
    """A process cannot be started in the box that was asked for."""


class IsolationUnavailableError(IsolationError):
    """This machine cannot give that isolation; `remedy` says what would provide it."""

    def __init__(self, wanted: str, reason: str, remedy: str) -> None:
        super().__init__(f"{wanted} cannot be given here: {reason}. To have it: {remedy}.")
        self.wanted = wanted
        self.reason = reason
        self.remedy = remedy


class PlantedPointerError(IsolationError):
    """A git pointer of a workspace leads elsewhere than where it was made to lead."""
