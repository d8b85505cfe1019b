"""Reset times: in any form, across zones, midnights and clock changes."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.agents.parsing.reset_times import epoch, reset_time, retry_after

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
AUCKLAND = ZoneInfo("Pacific/Auckland")
CODEX = "You’ve hit your usage limit. Upgrade to Pro (https://x/y), or try again at {}."  # noqa: RUF001  # its own


def at(text: str, zone: ZoneInfo | None = None) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone or UTC).timestamp()


@pytest.mark.parametrize(
    ("shown", "zone", "now", "expected"),
    [
        ("11:06 AM", BERLIN, "2026-11-18T09:00", "2026-11-18T11:06"),
        ("11:06 AM", NEW_YORK, "2026-11-18T04:00", "2026-11-18T11:06"),
        ("12:30 AM", BERLIN, "2026-11-18T23:50", "2026-11-19T00:30"),
        ("12:30 PM", BERLIN, "2026-11-18T09:00", "2026-11-18T12:30"),
        # Just gone by: as it stands, also across midnight; long gone by: tomorrow's.
        ("11:06 AM", BERLIN, "2026-11-18T11:07", "2026-11-18T11:06"),
        ("11:58 PM", BERLIN, "2026-11-19T00:01", "2026-11-18T23:58"),
        ("11:06 AM", BERLIN, "2026-11-18T12:00", "2026-11-19T11:06"),
        ("Nov 23rd, 2026 11:06 AM", BERLIN, "2026-11-18T12:00", "2026-11-23T11:06"),
        # Over a change of the clocks.
        ("9:00 AM", BERLIN, "2026-10-24T22:00", "2026-10-25T09:00"),
        ("9:00 AM", BERLIN, "2026-03-28T22:00", "2026-03-29T09:00"),
    ],
)
def test_a_time_of_day_without_a_zone_is_local(
    shown: str, zone: ZoneInfo, now: str, expected: str
) -> None:
    assert reset_time(CODEX.format(shown), at(now, zone), zone) == at(expected, zone)


@pytest.mark.parametrize(
    ("said", "now", "expected"),
    [
        ("limit · resets 11:06am (UTC)", "2026-11-18T06:19", at("2026-11-18T11:06")),
        ("resets Jan 2, 3pm (UTC)", "2026-12-30T12:00", at("2027-01-02T15:00")),
        ("resets Nov 17, 3pm (UTC)", "2026-11-18T12:00", at("2026-11-17T15:00")),
        ("resets 3pm (America/New_York)", "2026-11-18T06:19", at("2026-11-18T15:00", NEW_YORK)),
        ("resets 1am (Pacific/Auckland)", "2026-11-18T11:30", at("2026-11-19T01:00", AUCKLAND)),
    ],
)
def test_a_named_zone_counts_more_than_the_local_one(said: str, now: str, expected: float) -> None:
    assert reset_time(said, at(now), BERLIN) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Claude AI usage limit reached|1795000000", 1795000000.0),
        ("limit resets at 2026-11-18T15:00:00Z", at("2026-11-18T15:00")),
        ("try again after 2026-11-18 15:00", at("2026-11-18T15:00", BERLIN)),
        ("Please try again in 20s.", 120.0),
        ("Please retry in 34.5s", 134.5),
        ("Your quota will reset after 20h16m1s.", 100.0 + 72961),
        ("Try again in 2 hours and 5 minutes", 100.0 + 7500),
        ("try again in about 3 days", 100.0 + 259200),
        ("Rate limit: try again in 450ms", 100.45),
    ],
)
def test_instants_and_spans_are_read(said: str, expected: float) -> None:
    assert reset_time(said, 100.0, BERLIN) == pytest.approx(expected)


@pytest.mark.parametrize(
    "said",
    [
        "You've hit your usage limit. Try again later.",
        "resets 3pm (Mars/Olympus)",
        "resets 3pm (../../etc/passwd)",
        "resets 25:99",
        "resets 13pm",
        "try again at 5",
        "resets Feb 31, 3pm (UTC)",
        "resets Foo 3, 3pm (UTC)",
        "limit reached|12",
        "try again in 99999999999 days",
        "reset the branch 12:30 ago",
        "",
    ],
)
def test_what_cannot_be_read_for_sure_is_not_guessed(said: str) -> None:
    assert reset_time(said, at("2026-11-18T12:00"), UTC) is None


def test_without_a_zone_the_machines_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = reset_time(CODEX.format("11:06 AM"), at("2026-11-18T00:00"))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found == at("2026-11-18T11:06", ZoneInfo("Asia/Tokyo"))


@given(
    now=st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001  # local by intent
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    zone=st.sampled_from([BERLIN, NEW_YORK, AUCKLAND]),
)
def test_a_time_of_day_is_within_a_day_and_reads_so_on_the_clock(
    now: datetime, hour: int, minute: int, zone: ZoneInfo
) -> None:
    present = now.replace(tzinfo=zone).timestamp()
    shown = f"{hour % 12 or 12}:{minute:02} {'PM' if hour >= 12 else 'AM'}"
    found = reset_time(CODEX.format(shown), present, zone)
    assert found is not None
    ahead = timedelta(seconds=found - present)
    assert timedelta(minutes=-71) <= ahead <= timedelta(hours=25)
    read = datetime.fromtimestamp(found, zone)
    gap = (read.hour, read.minute) != (hour, minute)
    assert not gap or abs((read - read.replace(hour=hour, minute=minute)).total_seconds()) == 3600


@given(st.text(max_size=60), st.floats(0, 4e9))
def test_any_text_is_read_without_failing(said: str, now: float) -> None:
    for words in (said, f"try again at {said}", f"resets in {said}", f"resets {said} (UTC)"):
        found = reset_time(words, now, UTC)
        assert found is None or isinstance(found, float)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("3600", 3700.0),
        ("1.5", 101.5),
        ("Wed, 18 Nov 2026 15:00:00 GMT", at("2026-11-18T15:00")),
        ("soon", None),
        ("", None),
        ("-5", None),
        ("99999999999", None),
    ],
)
def test_a_retry_after_header_is_seconds_or_a_date(header: str, expected: float | None) -> None:
    assert retry_after(header, 100.0) == expected


def test_an_instant_may_be_in_milliseconds() -> None:
    assert epoch(1795000000) == epoch(1795000000000) == 1795000000
    assert epoch(5) is None
    assert epoch(None) is None
