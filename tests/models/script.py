"""What a scripted model does, turn by turn; pure data, the same for every API.

A turn is an `Answer`, a `Fault`, a `Hang`, one part of an answer, a text to say, or a function of
the request that returns one of these. How an API says it is for the forms; which tool of a program
runs a shell command is for `tools`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tests.models.server import Request


@dataclass(frozen=True)
class Usage:
    """Tokens of one answer."""

    input: int = 1200
    """All that was read, with what came from the cache."""
    output: int = 34
    """All that was written, with the reasoning."""
    cached: int = 1000
    """Of the input."""
    reasoning: int = 0
    """Of the output."""


@dataclass(frozen=True)
class Say:
    """A text."""

    text: str


@dataclass(frozen=True)
class Shell:
    """Call the program's tool that runs a shell command."""

    command: str


@dataclass(frozen=True)
class Call:
    """Call a tool by name: its own, or the last part of it (`report_breakpoint` of any server)."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Part = Say | Shell | Call

Kind = Literal[
    "rate_limit",  # too many requests a minute
    "usage_limit",  # the plan's limit: of five hours, of a week, of a day
    "auth",
    "overloaded",
    "context",
]


@dataclass(frozen=True)
class Fault:
    """An error in the API's own form."""

    kind: Kind
    retry_after: float | None = None
    """Seconds, as each API says that; None does not say it."""
    resets_at: int | None = None
    """Seconds since the epoch at which a limit ends."""
    message: str | None = None
    """Instead of the usual one."""


@dataclass(frozen=True)
class Answer:
    """Texts and tool calls, and how they are told."""

    parts: tuple[Part, ...]
    usage: Usage = field(default_factory=Usage)
    every: float = 0.0
    """Seconds before each event; a text is told in small pieces then."""
    cut: bool = False
    """The connection is lost in the middle."""


@dataclass(frozen=True)
class Hang:
    """Take the request and never answer."""


Told = Answer | Fault | Hang
Turn = Told | Part | str | Callable[["Request"], Told | Part | str]


def answer(*parts: Part | str, **how: Any) -> Answer:
    """Return an answer of several parts; a plain text is said. `how` is that of `Answer`."""
    return Answer(tuple(Say(each) if isinstance(each, str) else each for each in parts), **how)


def told(turn: Turn, request: Request) -> Told:
    """Return what is to be told to this request."""
    if isinstance(turn, Answer | Fault | Hang):
        return turn
    if isinstance(turn, str | Say | Shell | Call):
        return answer(turn)
    return told(turn(request), request)


def five_hours(resets_at: int) -> dict[str, str]:
    """Return the headers of a Claude subscription whose limit of five hours is reached."""
    start = "anthropic-ratelimit-unified-"
    return {
        f"{start}status": "rejected",
        f"{start}reset": str(resets_at),
        f"{start}representative-claim": "five_hour",
        f"{start}5h-status": "rejected",
        f"{start}5h-reset": str(resets_at),
        f"{start}5h-utilization": "1.0",
    }
