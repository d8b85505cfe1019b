"""Counters, gauges and histograms in memory, under stable names for dashboards."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

ACTIVE = "lifecycle.instances.active"
BY_STATE = "lifecycle.instances.by_state"
SPAWN_DURATION = "lifecycle.spawn.duration"
SPAWN_COUNT = "lifecycle.spawn.count"
SPAWN_FAILURES = "lifecycle.spawn.failures"
TERMINATE_DURATION = "lifecycle.terminate.duration"
TERMINATE_COUNT = "lifecycle.terminate.count"
TERMINATE_FORCED = "lifecycle.terminate.forced"
RESTARTS_COUNT = "lifecycle.restarts.count"
LICENSE_REJECTIONS = "lifecycle.license.rejections"

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bucket bounds in seconds; longer durations count only in the total."""
Label = str


@dataclass(frozen=True, slots=True)
class HistogramShot:
    """A histogram at one moment."""

    count: int
    total: float
    buckets: tuple[tuple[float, int], ...]
    """Upper bounds with their cumulative counts."""


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """All values at one moment, by name and then by label (empty if there is none)."""

    counters: dict[str, int]
    gauges: dict[str, dict[Label, float]]
    histograms: dict[str, HistogramShot]


@dataclass(slots=True)
class _Histogram:
    total: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))


class Metrics:
    """Collects measurements."""

    def __init__(self) -> None:
        self._counters = dict.fromkeys(
            (
                SPAWN_COUNT,
                SPAWN_FAILURES,
                TERMINATE_COUNT,
                TERMINATE_FORCED,
                RESTARTS_COUNT,
                LICENSE_REJECTIONS,
            ),
            0,
        )
        self._gauges: dict[str, dict[Label, float]] = {ACTIVE: {"": 0}, BY_STATE: {}}
        self._histograms: defaultdict[str, _Histogram] = defaultdict(_Histogram)

    def count(self, name: str, more: int = 1) -> None:
        """Increase a counter."""
        self._counters[name] = self._counters.get(name, 0) + more

    def gauge(self, name: str, value: float, label: Label = "") -> None:
        """Set a gauge."""
        self._gauges.setdefault(name, {})[label] = value

    def move(self, name: str, by: float, label: Label = "") -> None:
        """Change a gauge by a difference."""
        values = self._gauges.setdefault(name, {})
        values[label] = values.get(label, 0) + by

    def took(self, name: str, seconds: float) -> None:
        """Add a duration to a histogram."""
        histogram = self._histograms[name]
        histogram.total += seconds
        histogram.counts[bisect_left(BOUNDS, seconds)] += 1

    def snapshot(self) -> MetricsSnapshot:
        """Return all values as they are now."""
        return MetricsSnapshot(
            dict(self._counters),
            {name: dict(values) for name, values in self._gauges.items()},
            {name: _snapshot_of(each) for name, each in self._histograms.items()},
        )


def _snapshot_of(histogram: _Histogram) -> HistogramShot:
    so_far, buckets = 0, []
    for bound, count in zip(BOUNDS, histogram.counts, strict=False):
        so_far += count
        buckets.append((bound, so_far))
    return HistogramShot(sum(histogram.counts), histogram.total, tuple(buckets))
