"""Errors of the communication package, by whose fault they are. Must hold no logic."""

from __future__ import annotations


class CommunicationError(Exception):
    """Anything this package raises on purpose; the text says what, where and what to do."""


class MailboxError(CommunicationError):
    """A mailbox cannot be locked or written."""


class SignalError(CommunicationError):
    """An agent asked for a breakpoint that cannot be signalled as given."""


class ContentError(CommunicationError):
    """A file is not what a mailbox must be; becomes a reading's problem or another error."""

    def __init__(
        self, reason: str, fingerprint: bytes = b"", *, machine_at_fault: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.machine_at_fault = machine_at_fault
        """The file may be valid, but this machine cannot read it now."""
        self.fingerprint = fingerprint or reason.encode(errors="replace")
        """Identifies the fault, so that each is reported once."""
