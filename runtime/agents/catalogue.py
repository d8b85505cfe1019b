"""The available adapters: built-in ones, and those of installed packages.

Owns the list. A package provides adapters by entry points of the group `loopwright.adapters`, each
an `Adapter`, several of them, or a callable that returns them. It must not start a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TypeAlias

from runtime.agents.adapter import Adapter
from runtime.errors import SpawnError

ENTRY_POINTS = "loopwright.adapters"
BUILT_IN = ("claude", "codex", "gemini", "opencode", "copilot", "command")

Complaint: TypeAlias = Callable[[str, str], None]
"""Called with the name of an entry point, and what is wrong with it."""


def built_in(name: str) -> Adapter:
    """Return a built-in adapter, without reading installed packages."""
    found: Adapter = import_module(f"runtime.agents.adapters.{name}").ADAPTER
    return found


def adapters(complain: Complaint | None = None) -> Mapping[str, Adapter]:
    """Return all adapters by name; a broken or duplicate one is reported and skipped."""
    from importlib import metadata  # noqa: PLC0415  # slow, and not needed for built-in ones

    known = {name: built_in(name) for name in BUILT_IN}
    for point in metadata.entry_points(group=ENTRY_POINTS):
        try:
            _add(known, _offered(point.load()))
        except (Exception, SystemExit) as problem:  # noqa: BLE001  # any code may be behind one
            if complain is not None:
                complain(point.name, str(problem) or type(problem).__name__)
    return known


def adapter(name: str, complain: Complaint | None = None) -> Adapter:
    """Return the adapter of a name; SpawnError lists the available ones."""
    if name in BUILT_IN:
        return built_in(name)
    known = adapters(complain)
    if name in known:
        return known[name]
    raise SpawnError(f"There is no agent adapter {name!r}; there are: {', '.join(known)}.")


def _add(known: dict[str, Adapter], offered: Iterable[Adapter]) -> None:
    for each in offered:
        if each.name in known:
            raise SpawnError(f"there already is an adapter {each.name!r}; rename this one")
        known[each.name] = each


def _offered(thing: object) -> Iterable[Adapter]:
    if callable(thing) and not isinstance(thing, Adapter):
        thing = thing()
    offered = [thing] if isinstance(thing, Adapter) else thing
    if not isinstance(offered, Iterable):
        raise SpawnError(f"{thing!r} is not an Adapter")
    checked = []
    for each in offered:
        if not isinstance(each, Adapter):
            raise SpawnError(f"{each!r} is not an Adapter")
        checked.append(each)
    return checked
