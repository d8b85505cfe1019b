"""Reading a forge's JSON, whatever is missing in it or of another type.

Owns the tolerant reading of JSON and combining entries into one check per name. Must not know any
one forge or send requests; raises only for fields that are indispensable.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ci.errors import GarbledError
from ci.events import Check, CheckState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")

_NOTHING = object()

_WORST_FIRST = (CheckState.FAILED, CheckState.PENDING, CheckState.PASSED)


def at(body: object, *path: str) -> Any:
    """Return the value at a path of keys; None if a key is missing."""
    for key in path:
        if not isinstance(body, dict):
            return None
        body = body.get(key)
    return body


def text(body: object, *path: str) -> str:
    """Return the text at a path; an empty one if there is none."""
    found = at(body, *path)
    return found if isinstance(found, str) else ""


def number(body: object, *path: str) -> int | None:
    """Return the whole number at a path; None if there is none."""
    found = at(body, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def flag(body: object, *path: str) -> bool:
    """Return whether the value at a path is `true`."""
    return at(body, *path) is True


def rows(body: object, *path: str) -> list[dict[str, Any]]:
    """Return the objects of the list at a path; other entries are left out."""
    found = at(body, *path)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def epoch(body: object, *path: str) -> float:
    """Return the instant (ISO 8601) at a path in seconds since the epoch; 0 if there is none."""
    try:
        instant = datetime.fromisoformat(text(body, *path).strip().replace(" UTC", "+00:00"))
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def branch_of(ref: str) -> str:
    """Return the branch that a ref or a bare name means; empty for another kind of ref."""
    branch = ref.removeprefix("refs/heads/")
    return "" if branch.startswith("refs/") else branch


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with their names in lower case."""
    return {name.lower(): value for name, value in headers.items()}


def needed_text(what: str, body: object, *path: str) -> str:
    """Return the text at a path; GarbledError if it is missing."""
    found = text(body, *path)
    if not found:
        raise GarbledError(_lacks(what, path))
    return found


def needed_number(what: str, body: object, *path: str) -> int:
    """Return the number at a path; GarbledError if it is missing."""
    found = number(body, *path)
    if found is None:
        raise GarbledError(_lacks(what, path))
    return found


def newest_of_each_name(numbered: Iterable[tuple[int, Check]]) -> tuple[Check, ...]:
    """Return one check per name, that of the highest number, in the order of their names."""
    found: dict[str, tuple[int, Check]] = {}
    for order, check in numbered:
        known = found.get(check.name)
        if known is None or order >= known[0]:
            found[check.name] = (order, check)
    return tuple(found[name][1] for name in sorted(found))


def worst_of_each_name(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return one check per name: a failed one, else a pending one, else a passed one."""
    found: dict[str, Check] = {}
    for check in checks:
        known = found.get(check.name)
        if known is None or _badness(check) < _badness(known):
            found[check.name] = check
    return tuple(found[name] for name in sorted(found))


def _badness(check: Check) -> int:
    return _WORST_FIRST.index(check.state)


def _lacks(what: str, path: tuple[str, ...]) -> str:
    return (
        f"{what} lacks its {'.'.join(path)}: the answer does not have the documented form, or a "
        "proxy answered instead of the forge"
    )


class ParseCache(Generic[T]):
    """Parses lists of bodies, reusing the results of those that are unchanged."""

    def __init__(self, read: Callable[[object], T]) -> None:
        self._of_one = read
        self._bodies: tuple[object, ...] = ()
        self._read: tuple[T, ...] = ()

    def of(self, bodies: Sequence[object]) -> tuple[T, ...]:
        """Return the parsed bodies; long lists are often unchanged."""
        before = chain(zip(self._bodies, self._read, strict=True), repeat((_NOTHING, None)))
        read = tuple(
            known if body is old or body == old else self._of_one(body)
            for body, (old, known) in zip(bodies, before, strict=False)
        )
        self._bodies, self._read = tuple(bodies), cast("tuple[T, ...]", read)
        return self._read
