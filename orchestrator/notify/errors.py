"""What goes wrong while a notification is sent."""

from __future__ import annotations

from orchestrator.errors import OrchestratorError


class ChannelError(OrchestratorError):
    """A channel did not take a notification; the text says why, and holds no secret."""
