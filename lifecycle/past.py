"""How a lifecycle's remembered past is kept small: long texts go first, then what is oldest.

Measures in the bytes of the JSON form. Pure: values in, values out. Must not know what a fact
means; the store keeps all of it as it was.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from json import JSONEncoder
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from lifecycle.machine.values import changed
from templates.fence import cap, noted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAST_BYTES = 40 * 1024
"""Of the 48 KiB that a working copy may have; the record has the rest."""
FULL_ATTEMPTS = 20
"""Attempts that are remembered in full; older ones are only counted."""
FACT_BYTES = 20 * 1024
"""Of one fact that travels between machines: its commit holds it more than once."""
MOST_SHOWN = 4000
"""Bytes of the longest text that a summary shows."""
_STEPS = (MOST_SHOWN, 2000, 1000, 500, 240, 120, 60)
"""Bytes of a text, from roomy to tight."""
_TAGS = 64
_NOTE = "\n[... "
_EACH, _ITEMS = 40, 8
"""Of a list so many bytes' worth of items stay, and at least so many items."""

V = TypeVar("V")
_ENCODER = JSONEncoder(separators=(",", ":"), default=vars, check_circular=False)


def size(values: Iterable[object]) -> int:
    """Return how many bytes values of the machine take in the JSON form, about."""
    return sum(len(_ENCODER.encode(each)) + _TAGS for each in values)


def within(values: Sequence[V], most: int, *, least: int = 0) -> list[V]:
    """Return values with texts as short as they have to be; without the oldest if they must go.

    The first `least` stay where anything stays.
    """
    kept = list(values)
    for step in _STEPS:
        if size(kept) <= most:
            return kept
        kept = [shortened(each, step) for each in kept]
    sizes = [size((each,)) for each in kept]
    while len(kept) > least and sum(sizes) > most:
        del kept[least], sizes[least]
    return kept


def fitted_fact(fact: V) -> V:
    """Return a fact that may travel: with texts and lists as short as they have to be."""
    (told,) = within((fact,), FACT_BYTES, least=1)
    return told


def shortened(value: V, most: int) -> V:
    """Return a value whose texts have no more bytes than this, and its lists no more items."""
    cut: V = _cut(value, most)
    return cut


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return cap(value, most)
    if isinstance(value, tuple):
        cut = tuple(_cut(each, most) for each in value[: max(most // _EACH, _ITEMS)])
        return value if len(cut) == len(value) and all(map(is_, cut, value)) else cut
    if not is_dataclass(value) or not hasattr(value, "__dict__"):
        return value
    told = vars(value)
    made = ((name, _cut(each, most)) for name, each in told.items())
    changes = {name: each for name, each in made if each is not told[name]}
    return changed(value, **changes) if changes else value


def alike(one: object, other: object) -> bool:
    """Tell whether two values are the same, but for what may have been cut from one of them."""
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _begins(one, other) or _begins(other, one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        shorter = min(len(one), len(other))
        whole = len(one) == len(other) or shorter >= _ITEMS
        return whole and all(map(alike, one[:shorter], other[:shorter]))
    if is_dataclass(one) and type(one) is type(other):
        names = _names(type(one))  # type: ignore[arg-type]  # classes do hash
        return all(alike(getattr(one, name), getattr(other, name)) for name in names)
    return one == other


def _begins(cut: str, whole: str) -> bool:
    # Where nothing of its start was kept, the note is the first line.
    start = f"\n{cut}".partition(_NOTE)[0].removeprefix("\n")
    return bool(noted(cut)) and whole.startswith(start)


@cache
def _names(of: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(of))
