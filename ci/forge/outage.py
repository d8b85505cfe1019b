"""What is wrong with a forge as a whole: since when, and told to the log once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.interface import Trouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.errors import ForgeError
    from ci.ports import LogEvent


@dataclass(slots=True)
class Outage:
    """The time in which one forge cannot be used, for whatever reason."""

    place: str
    now: Callable[[], float]
    report: LogEvent
    present: Trouble | None = None
    _kind: type[ForgeError] | None = None
    """Of the fault that was reported last."""

    def goes_on(self, error: ForgeError) -> None:
        """Note why the forge cannot be used now."""
        since = self.now() if self.present is None else self.present.since
        self.present = Trouble(
            place=self.place, text=str(error), since=since, next_try=error.retry_at
        )
        if type(error) is not self._kind:
            self._kind = type(error)
            self.report("forge_unusable", place=self.place, reason=str(error))

    def ends(self) -> None:
        """Note that it answers."""
        if self.present is not None:
            self.report("forge_usable", place=self.place, since=self.present.since)
        self.present, self._kind = None, None


def renamed(place: str, name: str) -> str:
    """Say that a repository has another name now, and what to do."""
    return (
        f"{place} is called {name} now, and nothing is pushed to a repository under its old name: "
        "give the git remote the new address (git remote set-url), set forge_repo if it is set, "
        "and start again"
    )
