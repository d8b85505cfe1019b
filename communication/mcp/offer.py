"""What a server offers: tools, and texts to read. Forms only; who offers what decides all else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from communication.mcp.tools import ToolAnswer


class Readable(Protocol):
    """Texts by address. May wait: called from a thread."""

    def listing(self) -> list[dict[str, Any]]:
        """Return them as the protocol lists resources."""
        ...

    def templates(self) -> list[dict[str, Any]]:
        """Return the forms of their addresses, as the protocol lists these."""
        ...

    def read(self, uri: str) -> tuple[str, str]:
        """Return a text and its media type; CommunicationError says why there is none."""
        ...


class ToolOffer(Protocol):
    """Tools, and who may use them. May wait: called from a thread."""

    instructions: str
    """What a model reads first."""
    at_once: int
    """How many calls may run at the same time."""

    @property
    def readable(self) -> Readable | None:
        """What can be read beside; None where there is nothing."""
        ...

    def listing(self) -> list[dict[str, Any]]:
        """Return the tools as the protocol lists them."""
        ...

    def call(self, name: str, arguments: object, client: str = "") -> ToolAnswer:
        """Call a tool for the program of that name; an error is an answer that says what to do."""
        ...
