"""Numbers in the text form that Prometheus reads.

Owns the form: names, labels, escaping. Must not know where a number comes from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lifecycle.fleet.spawner.metrics import HistogramShot

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class MetricsText:
    """The text, family by family."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def counter(self, name: str, help_: str, value: float) -> None:
        """Add a counter without labels."""
        self.counters(name, help_, [({}, value)])

    def counters(
        self, name: str, help_: str, values: Iterable[tuple[Mapping[str, str], float]]
    ) -> None:
        """Add a counter with its labels; the name ends in _total."""
        self._family(name, "counter", help_, values)

    def gauge(self, name: str, help_: str, value: float) -> None:
        """Add a gauge without labels."""
        self.gauges(name, help_, [({}, value)])

    def gauges(
        self, name: str, help_: str, values: Iterable[tuple[Mapping[str, str], float]]
    ) -> None:
        """Add a gauge with its labels."""
        self._family(name, "gauge", help_, values)

    def histogram(self, name: str, help_: str, shot: HistogramShot) -> None:
        """Add a histogram."""
        self._head(name, "histogram", help_)
        for bound, count in shot.buckets:
            self._lines.append(f'{name}_bucket{{le="{bound:g}"}} {count}')
        self._lines += (
            f'{name}_bucket{{le="+Inf"}} {shot.count}',
            f"{name}_sum {number(shot.total)}",
            f"{name}_count {shot.count}",
        )

    def summaries(
        self, name: str, help_: str, values: Iterable[tuple[Mapping[str, str], float, int]]
    ) -> None:
        """Add sums and counts, without quantiles."""
        self._head(name, "summary", help_)
        for labels, total, count in values:
            self._lines += (
                f"{name}_sum{shown(labels)} {number(total)}",
                f"{name}_count{shown(labels)} {count}",
            )

    def text(self) -> str:
        """Return all of it."""
        return "\n".join(self._lines) + "\n"

    def _family(
        self, name: str, kind: str, help_: str, values: Iterable[tuple[Mapping[str, str], float]]
    ) -> None:
        self._head(name, kind, help_)
        self._lines += [f"{name}{shown(labels)} {number(value)}" for labels, value in values]

    def _head(self, name: str, kind: str, help_: str) -> None:
        self._lines += (f"# HELP {name} {help_}", f"# TYPE {name} {kind}")


def shown(labels: Mapping[str, str]) -> str:
    """Return labels as they stand behind a name."""
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def number(value: float) -> str:
    """Return a number; whole ones without a point."""
    return str(int(value)) if value == int(value) else repr(float(value))


def joined(texts: Mapping[str, str]) -> str:
    """Return the texts of several repositories as one, each number with its repository's name."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    for repository, text in texts.items():
        head, samples = list[str](), list[str]()
        for line in text.splitlines():
            if line.startswith("# HELP "):
                head, samples = families.setdefault(line.split(" ", 3)[2], ([line], []))
            elif line.startswith("#"):
                head[1:] = [line]
            elif line:
                samples.append(_named(line, repository))
    lines = [line for head, samples in families.values() for line in (*head, *samples)]
    return "\n".join(lines) + "\n"


def _named(sample: str, repository: str) -> str:
    name, brace, rest = sample.partition("{")
    if not brace:
        name, _, rest = sample.partition(" ")
        return f"{name}{shown({'repository': repository})} {rest}"
    return f"{name}{shown({'repository': repository})[:-1]},{rest}"
