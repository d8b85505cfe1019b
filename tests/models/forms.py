"""What every API form shares: how a request is read, what an answer is made of, how events look."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tests.models.tools import Tool, Use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.models.script import Fault, Usage

PIECE = 6
"""Characters of one piece of a text that is told slowly."""


@dataclass(frozen=True)
class Question:
    """A request for an answer, in no API's form."""

    model: str
    stream: bool
    tools: tuple[Tool, ...]


@dataclass(frozen=True)
class Telling:
    """An answer whose tools are placed."""

    identity: str
    blocks: Sequence[str | Use]
    """Texts and calls."""
    usage: Usage
    slow: bool

    @property
    def uses(self) -> list[Use]:
        return [each for each in self.blocks if isinstance(each, Use)]

    @property
    def text(self) -> str:
        return "".join(each for each in self.blocks if isinstance(each, str))

    def pieces(self, text: str) -> Iterator[str]:
        """Return a text in the pieces it is told in."""
        size = PIECE if self.slow else max(1, (len(text) + 1) // 2)
        for start in range(0, len(text), size):
            yield text[start : start + size]


@dataclass(frozen=True)
class Failure:
    """A fault in an API's form."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]


class Form(Protocol):
    """One API; a module is one."""

    def question(self, path: str, body: Mapping[str, Any]) -> Question:
        """Read a request."""

    def events(self, question: Question, telling: Telling) -> list[bytes]:
        """Write an answer as a stream."""

    def whole(self, question: Question, telling: Telling) -> Mapping[str, Any]:
        """Write an answer as one document."""

    def failure(self, fault: Fault) -> Failure:
        """Write an error instead of an answer."""


def event(body: Mapping[str, Any], name: str = "") -> bytes:
    """Write a server-sent event."""
    start = f"event: {name}\n" if name else ""
    return f"{start}data: {json.dumps(body)}\n\n".encode()


def pause(seconds: float) -> dict[str, str]:
    """Return the header that tells how long to wait: whole seconds, as its standard says."""
    return {"retry-after": f"{seconds:.0f}"}
