"""Resource limits of one agent, and the error if they cannot be enforced here.

It must not enforce anything: `cgroups/` and `launch.py` do. Values are validated here once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from runtime.errors import SpawnError

_TEXTS = {
    "memory_mb": "memory limit {} MB",
    "cpu_percent": "processor limit {} %",
    "processes": "process limit {}",
    "open_files": "open file limit {}",
}
_LEAST = {"memory_mb": 1, "cpu_percent": 1, "processes": 1, "open_files": 16}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for a whole process tree; None is no limit. Core dumps are always off."""

    memory_mb: int | None = None
    """Memory of all processes together."""
    cpu_percent: int | None = None
    """Processor time of all processes together, in per cent of one core."""
    processes: int | None = None
    """Processes and threads at once; one more is refused."""
    open_files: int | None = None
    """Open files of each single process."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}. Set it to {least} or more, or leave it out.")

    def text(self, name: str) -> str:
        """Name one limit for people."""
        return _TEXTS[name].format(getattr(self, name))

    def given(self) -> tuple[str, ...]:
        """Name the limits that are set."""
        names = (field.name for field in fields(self))
        return tuple(name for name in names if getattr(self, name) is not None)

    def __bool__(self) -> bool:
        """Whether any limit is set."""
        return bool(self.given())


NO_LIMITS = Limits()


class LimitUnavailableError(SpawnError):
    """A limit that was asked for cannot be enforced on this machine."""
