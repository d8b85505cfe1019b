"""Whether an instant lies in the quiet hours of a channel, and when these end. Pure."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import tzinfo


def quiet_until(span: tuple[int, int] | None, at: float, zone: tzinfo | None = None) -> float:
    """Return when the quiet hours around an instant end; 0 if there are none at that instant.

    `span` is in minutes of the day, in the machine's time or in that of `zone`; it may go over
    midnight. Changes of the clock for summer are taken as they come.
    """
    if span is None:
        return 0.0
    begin, end = span
    now = datetime.fromtimestamp(at, tz=zone)
    minute = 60 * now.hour + now.minute
    over_midnight = begin > end
    inside = (minute >= begin or minute < end) if over_midnight else begin <= minute < end
    if not inside:
        return 0.0
    day = now.date() + timedelta(days=1 if over_midnight and minute >= begin else 0)
    ends = datetime.combine(day, time(end // 60, end % 60), tzinfo=zone)
    return ends.timestamp()
