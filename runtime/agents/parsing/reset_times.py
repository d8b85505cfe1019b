"""When a usage limit ends: parsed from messages of programs and providers, in any form and zone.

Pure: the current time and the local zone are given. It must not guess: an uncertain time is None,
and the caller backs off instead.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo

_PAST = timedelta(minutes=10)
"""A time of day that has just passed means today, not tomorrow."""
_FIRST, _LAST = 1e9, 1e11
"""What seconds since 1970 look like; more are milliseconds."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_LONGEST = 400 * 86400.0

_ROOM = 4000
"""Characters of a message that are parsed, so that parsing stays fast."""

_EPOCH = re.compile(r"limit reached\|(\d{10,13})")
_ISO = re.compile(
    r"(?:\breset\w{0,6}|again|until|after)\W{1,20}(?:\w{1,20}\W{1,20}){0,2}?"
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)",
    re.IGNORECASE,
)
_SPAN = re.compile(
    r"(?:again|retry|resets?|reset) (?:in|after) (?:about |approximately )?"
    r"((?:\d+(?:\.\d+)?\s*(?:days?|d|hours?|hrs?|h|minutes?|mins?|ms|m|seconds?|secs?|s)\b"
    r"[\s,]*(?:and\s+)?|\d+(?:\.\d+)?(?:d|h|ms|m|s)(?=\d))+)",
    re.IGNORECASE,
)
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|d|h|m|s)", re.IGNORECASE)
_CLOCK = re.compile(
    r"(?:again|resets?|reset|available|until)(?:\s+(?:at|on))?\s+"
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?"
    r"(?:,?\s+(?P<year>\d{4}))?,?(?:\s+at)?\s+)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]m)?\b"
    r"(?:\s*\((?P<zone>[^()]{1,60})\)|\s+(?P<utc>UTC|GMT)\b)?",
    re.IGNORECASE,
)


def epoch(value: float | None) -> float | None:
    """Return an instant given in seconds or milliseconds since 1970; None if it is neither."""
    if value is None:
        return None
    seconds = value / 1000 if value >= _LAST else value
    return seconds if _FIRST <= seconds < _LAST else None


def reset_time(message: str, now: float, zone: tzinfo | None = None) -> float | None:
    """Return the instant that a message names; `zone` is the local one, None the machine's.

    A time of day without a date is the next one, or the one that has just passed.
    """
    message = message[:_ROOM]
    if found := _EPOCH.search(message):
        return epoch(float(found[1]))
    if found := _ISO.search(message):
        return _iso(found[1], zone)
    if found := _SPAN.search(message):
        seconds = sum(float(piece[1]) * _UNITS[piece[2].lower()] for piece in _pieces(found[1]))
        return now + seconds if seconds <= _LONGEST else None
    for clock in _CLOCK.finditer(message):
        if clock["half"] or clock["minute"]:
            return _of_clock(clock, now, zone)
    return None


def retry_after(value: str, now: float) -> float | None:
    """Return the instant of a Retry-After header: seconds from now, or a date."""
    value = value.strip()
    if re.fullmatch(r"\d{1,8}(?:\.\d{1,9})?", value):
        return now + float(value) if float(value) <= _LONGEST else None
    try:
        then = parsedate_to_datetime(value)
        return epoch((then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _pieces(span: str) -> list[re.Match[str]]:
    return list(_PIECE.finditer(span))


def _iso(text: str, zone: tzinfo | None) -> float | None:
    try:
        then = datetime.fromisoformat(text)
        if then.tzinfo is None and zone is not None:
            then = then.replace(tzinfo=zone)
        return epoch(then.timestamp())
    except (ValueError, OverflowError, OSError):
        return None


def _of_clock(clock: re.Match[str], now: float, local: tzinfo | None) -> float | None:
    zone = local
    if name := clock["zone"] or clock["utc"]:
        zone = _zone(name)
        if zone is None:
            return None
    try:
        present = datetime.fromtimestamp(now, zone or UTC)
        if zone is None:
            present = present.astimezone()
        hour = _hour(int(clock["hour"]), clock["half"])
        return _nearest(clock, present, (hour, int(clock["minute"] or 0)), named=zone is not None)
    except (ValueError, OverflowError, OSError):
        return None


def _nearest(
    clock: re.Match[str], present: datetime, at: tuple[int, int], *, named: bool
) -> float | None:
    """Return the instant that is meant: of the named date, else the next such time of day.

    Local times are calculated without their offset, which may change between now and then.
    """
    zone = present.tzinfo if named else None
    wall = present.replace(tzinfo=None)
    base = wall.replace(hour=at[0], minute=at[1], second=0, microsecond=0)
    if clock["month"]:
        month = _MONTHS.index(clock["month"].lower()) + 1
        base = base.replace(
            year=int(clock["year"] or wall.year), month=month, day=int(clock["day"])
        )
        if not clock["year"] and base < wall - timedelta(days=180):
            base = base.replace(year=wall.year + 1)
    elif base < wall - _PAST:
        base += timedelta(days=1)
    elif base > wall + timedelta(days=1) - _PAST:
        base -= timedelta(days=1)
    return epoch(base.replace(tzinfo=zone).timestamp())


def _hour(hour: int, half: str | None) -> int:
    if not half:
        return hour
    if not 1 <= hour <= 12:  # noqa: PLR2004  # the hours on a clock's face
        raise ValueError(hour)
    return hour % 12 + (12 if half.lower() == "pm" else 0)


def _zone(name: str) -> tzinfo | None:
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return None
