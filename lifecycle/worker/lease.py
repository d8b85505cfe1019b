"""How long a worker may go on without word from the server: the lease of one assignment.

The server gives an assignment to another worker once it heard no beat of this one for a lease; so
the worker ends its agents before, and the watchdog ends them if the worker cannot. Counts the time
that the machine slept. Pure but for the clock, which is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

OWN_END = 0.7
"""Of the lease, since the last beat that was heard, after which the worker ends its agents."""
WATCHDOGS_END = 0.72
"""The same for the watchdog, where the worker did not: it is frozen, or busy."""
NANO = 1_000_000_000


class Lease:
    """The lease of one assignment; once it is over, it stays over."""

    def __init__(
        self,
        seconds: float,
        *,
        since: int,
        now: Callable[[], int],
        hold: Callable[[int | None], None],
    ) -> None:
        """`hold` is told the instant by which the watchdog is to end what is left, or None."""
        self._length = int(seconds * NANO)
        self._now = now
        self._hold = hold
        self._over = False
        self._heard = since
        self.confirm(since)

    def confirm(self, sent: int) -> None:
        """Begin again: the server has heard a beat that was sent then; in vain once it is over."""
        if self.is_over():
            return
        self._heard = max(self._heard, sent)
        self._hold(self._heard + int(self._length * WATCHDOGS_END))

    def is_over(self) -> bool:
        """Tell whether this worker may not act for the assignment any more."""
        self._over = self._over or self.left() <= 0
        return self._over

    def cease(self) -> None:
        """Be over now, also before its time."""
        self._over = True

    def left(self) -> float:
        """Return the seconds until its own end."""
        return (self._heard + int(self._length * OWN_END) - self._now()) / NANO

    def release(self) -> None:
        """Hold nothing to it any more: nothing of the assignment is alive."""
        self.cease()
        self._hold(None)
