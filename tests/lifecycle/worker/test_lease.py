"""A lease is over on the worker before it is over for the server, and never comes back."""

from __future__ import annotations

import pytest

from lifecycle.worker.lease import NANO, Lease

LENGTH = 10.0


class Clock:
    """A clock, and what the watchdog was told to hold."""

    def __init__(self) -> None:
        self.at = 100 * NANO
        self.held: list[int | None] = []

    def lease(self) -> Lease:
        return Lease(LENGTH, since=self.at, now=lambda: self.at, hold=self.held.append)

    def passes(self, seconds: float) -> None:
        self.at += int(seconds * NANO)


@pytest.mark.parametrize(("passed", "over"), [(6.9, False), (7.0, True), (60.0, True)])
def test_it_is_over_at_seven_tenths(passed: float, *, over: bool) -> None:
    clock = Clock()
    lease = clock.lease()
    clock.passes(passed)
    assert lease.is_over() is over


def test_a_beat_that_was_heard_begins_it_again_and_tells_the_watchdog() -> None:
    clock = Clock()
    lease = clock.lease()
    clock.passes(6)
    lease.confirm(clock.at)
    clock.passes(6)
    assert not lease.is_over()
    assert lease.left() == pytest.approx(1.0)
    assert clock.held == [int(107.2 * NANO), int(113.2 * NANO)]


def test_it_counts_from_when_the_beat_was_sent_not_from_its_answer() -> None:
    clock = Clock()
    lease = clock.lease()
    sent = clock.at
    clock.passes(5)
    lease.confirm(sent)
    clock.passes(2)
    assert lease.is_over()


def test_once_over_it_stays_over() -> None:
    clock = Clock()
    lease = clock.lease()
    clock.passes(8)
    lease.confirm(clock.at)
    assert lease.is_over()
    assert clock.held == [int(107.2 * NANO)]
    lease.release()
    assert clock.held[-1] is None


def test_an_answer_out_of_order_shortens_nothing() -> None:
    clock = Clock()
    lease = clock.lease()
    early = clock.at
    clock.passes(3)
    lease.confirm(clock.at)
    lease.confirm(early)
    clock.passes(6)
    assert not lease.is_over()
