"""What is asked of a runner itself, and of no lifecycle."""

from __future__ import annotations

from lifecycle.machine.events import PersonEvent
from lifecycle.machine.frozen import frozen


@frozen
class RunnerOrder(PersonEvent):
    """Base of what is asked of a runner."""

    @property
    def verb(self) -> str:
        """What is to be done, for the audit."""
        return type(self).__name__

    @property
    def subject(self) -> str:
        """What it is about, for the audit."""
        return "runner"


@frozen
class PullRequestOrder(RunnerOrder):
    """Merge or close a pull request."""

    action: str
    number: int
    along: bool = False
    verify: bool = True

    @property
    def verb(self) -> str:
        """What is to be done, as it is typed."""
        return f"pr {self.action}"

    @property
    def subject(self) -> str:
        """Which one."""
        return f"pull request {self.number}"


@frozen
class DeliveriesOrder(RunnerOrder):
    """Look for deliveries that wait to be worked on: some were put back, or came by hand."""


@frozen
class OperationNote(RunnerOrder):
    """What a command did, or refused, before any lifecycle could know of it.

    The runner logs it, and starts what was added.
    """

    operation: str
    """As it is logged: `add_agent`, `pause_agent`."""
    agent_name: str
    """As it was typed."""
    resolved_name: str = ""
    """The id of the agent that was added."""
    refused: str = ""
    """Why it was not done."""

    @property
    def subject(self) -> str:
        """Which agent."""
        return self.resolved_name or self.agent_name
