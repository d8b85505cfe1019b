"""What an agent program reports while it runs, in one form for all programs.

Owns the forms. They must hold what was reported with as little judgement as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from runtime.agents.outcome import Ending, Tokens, UsageScope


@dataclass(frozen=True, slots=True)
class Started:
    """The program has started to work; either field may be ''."""

    session_id: str
    model: str


@dataclass(frozen=True, slots=True)
class Text:
    """The agent says something."""

    text: str
    part: bool = False
    """It continues the text before it."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool starts to run."""

    call_id: str
    name: str
    background: bool = False
    """The agent does not wait for its end."""
    about: str = ""
    """Its command, its file or what it searches for, on one line; only for live views."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool has ended."""

    call_id: str
    ok: bool
    exit_code: int | None = None
    said: str = ""
    """The end of what it said, if it failed; only for live views."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money: steps are added up, a later one of scope run or session replaces.

    One of scope run includes the steps before it.
    """

    scope: UsageScope
    tokens: Tokens | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The program's own retry loop asks its model again."""

    ending: Ending
    """What the attempt would end with if the program gave up now."""
    message: str = ""
    attempt: int = 0
    of: int = 0
    """0: it does not say."""
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class Denied:
    """A tool was not permitted."""

    tool: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """A usage limit is near or reached."""

    reached: bool
    reset_at: float | None = None
    window: str = ""
    used: float | None = None
    """Share of the window, 1.0 is all of it."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The turn is over, as the program says."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The program reports an error; it is final only where `Finished` says so."""

    ending: Ending
    message: str = ""
    status: int | None = None
    reset_at: float | None = None


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An unknown event, unchanged."""

    kind: str
    line: bytes


Event: TypeAlias = (
    Started
    | Text
    | ToolCall
    | ToolResult
    | Usage
    | Retry
    | Denied
    | Limit
    | Finished
    | Failed
    | UnknownEvent
)
