"""What goes wrong while a notification is sent."""

from __future__ import annotations

from orchestrator.errors import OrchestratorError


class ChannelError(OrchestratorError):
    """A channel did not take a notification; the text says why, and holds no secret."""

    def __init__(self, problem: str, *, wait: float = 0.0, refused: bool = False) -> None:
        super().__init__(problem)
        self.wait = wait
        """Seconds after which the channel said that it may take it."""
        self.refused = refused
        """Whether it looked at this notification and will say the same again."""
