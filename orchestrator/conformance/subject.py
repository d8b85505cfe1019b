"""The program under test: its adapter, how it is started, and the limits of its runs.

Pure data; must not start anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.agents.adapter import LaunchRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime.agents.adapter import Adapter


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much time and room a run gets."""

    timeout: float = 180.0
    """Seconds for one run, after which it is ended and counts as hung."""
    idle: float = 20.0
    """Seconds without output and processor time after which the idle rule ends it."""
    log_cap: int = 256 * 1024
    """Bytes that are kept of what it prints."""
    memory: int = 64 << 20
    """Bytes that the runner itself may grow by while it prints."""
    prompt: int = 1 << 20
    """Bytes of the huge prompt."""
    settle: float = 0.0
    """Seconds that a tool is left running before the program is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUnderTest:
    """The agent program under test."""

    adapter: Adapter
    request: LaunchRequest = field(default_factory=LaunchRequest)
    """How it is wanted; folder and privileges are set by the kit."""
    environ: Mapping[str, str]
    """The variables of the runner, of which the program gets what is allowed."""
    now: Callable[[], float]
    """The wall clock, for times of day that a program names."""
    bounds: Bounds = field(default_factory=Bounds)
    private: bool = False
    """Hide the user's own settings and login of the program from it."""
