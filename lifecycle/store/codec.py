"""States, events and effects as JSON text, and back.

Owns the stored form: an object with `kind` (the class), `v` (the form's version) and one key per
field. Reading ignores keys it does not know and gives a missing field its default. Must not know
where the text is kept. On every attempt's hot path, so each class's plan is made once.
"""

from __future__ import annotations

import json
import types
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from typing import Any, TypeVar

from lifecycle.errors import StoreDamagedError, StoreFromNewerVersionError
from lifecycle.machine import effects, events, states
from lifecycle.machine.effects import Effect
from lifecycle.machine.events import Event
from lifecycle.machine.states import State
from lifecycle.store.lenient import Garbled

VERSION = 1
"""Counted up when an older reader would misunderstand the form, not when a field is added."""

RENAMED: dict[type[Enum], dict[str, str]] = {
    states.Ended: {"crashed": "crash", "hung": "hang"},
    states.Reason: {"no_progress": "error"},
}
"""Values that earlier versions wrote, and what they are now."""

T = TypeVar("T")
Convert = typing.Callable[[Any], Any]
_PLAIN = (str, int, float, bool)


def encode(value: State | Event | Effect) -> str:
    """Return the text to keep."""
    return _ENCODER.encode(value)


def decode_state(text: str) -> State:
    """Return the state that was kept as this text."""
    return _decode(State, text)


def decode_event(text: str) -> Event:
    """Return the event that was kept as this text."""
    return _decode(Event, text)


def decode_effect(text: str) -> Effect:
    """Return the effect that was kept as this text."""
    return _decode(Effect, text)


def encode_part(value: object) -> str:
    """Return the text to keep for a value that is no state, event or effect of its own."""
    return _ENCODER.encode(value)


def decode_part(of: type[T], text: str) -> T:
    """Return such a value."""
    try:
        value: T = _build(of, json.loads(text))
    except (KeyError, TypeError, ValueError, RecursionError) as problem:
        raise StoreDamagedError(
            f"a stored {of.__name__.lower()} cannot be read ({problem!r}): {text[:200]}"
        ) from problem
    return value


def _family(base: type, module: types.ModuleType) -> dict[str, type[Any]]:
    found = (each for each in vars(module).values() if isinstance(each, type))
    return {each.__name__: each for each in found if issubclass(each, base)}


KINDS: dict[type[Any], dict[str, type[Any]]] = {
    State: _family(State, states),
    Event: _family(Event, events),
    Effect: _family(Effect, effects),
}
"""Every class that may stand where its base is written, by its tag."""


def _pairs(value: Any) -> dict[str, Any]:
    """Show the encoder a value of ours as an object; only called for what JSON does not know."""
    return {**_head(type(value)), **value.__dict__}  # type: ignore[arg-type]  # classes do hash


@cache
def _head(of: type[Any]) -> dict[str, Any]:
    if not is_dataclass(of):
        raise TypeError(f"{of.__name__} cannot be kept in the store")
    tagged = issubclass(of, (State, Event, Effect))
    return {"kind": of.__name__, "v": VERSION} if tagged else {}


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_pairs, check_circular=False)
"""Escapes all but ASCII: file names that are no UTF-8 come back as they were."""


def _decode(base: type[T], text: str) -> T:
    if type(text) is Garbled:
        raise StoreDamagedError(f"a stored {base.__name__.lower()} is no UTF-8: {text[:200]}")
    try:
        value: T = _tagged(base, json.loads(text))
    except (KeyError, TypeError, ValueError, RecursionError) as problem:
        raise StoreDamagedError(
            f"a stored {base.__name__.lower()} cannot be read ({problem!r}): {text[:200]}"
        ) from problem
    return value


def _tagged(base: type[Any], data: dict[str, Any]) -> Any:
    found = KINDS[base].get(data["kind"])
    if found is None or data["v"] > VERSION:
        raise StoreFromNewerVersionError(
            f"a stored {base.__name__.lower()} is of the kind {data['kind']!r} in form "
            f"{data['v']}, which this version of Loopwright does not know; "
            "use the version that wrote it, or a newer one"
        )
    return _build(found, data)


def _build(of: type[Any], data: dict[str, Any]) -> Any:
    names, converts = _plan(of)  # type: ignore[arg-type]  # classes do hash
    values = {name: data[name] for name in names if name in data}
    for name, convert in converts:
        value = values.get(name)
        if value is not None:
            values[name] = convert(value)
    return of(**values)


@cache
def _plan(of: type[Any]) -> tuple[tuple[str, ...], tuple[tuple[str, Convert], ...]]:
    """Say which fields a class has, and how those are made that JSON cannot hold as they are."""
    hints = typing.get_type_hints(of)
    names = tuple(field.name for field in fields(of))
    made = ((name, _convert(hints[name])) for name in names)
    return names, tuple((name, convert) for name, convert in made if convert is not None)


def _convert(hint: Any) -> Convert | None:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _PLAIN:
        return None
    if origin in (typing.Union, types.UnionType):
        (inner,) = (each for each in arguments if each is not types.NoneType)
        return _convert(inner)
    if origin is tuple and arguments[1:] == (...,):
        each = _convert(arguments[0])
        return tuple if each is None else lambda items: tuple(map(each, items))
    if isinstance(hint, type) and issubclass(hint, Enum):
        renamed = RENAMED.get(hint)
        return hint if renamed is None else lambda value: hint(renamed.get(value, value))
    if hint is State:
        return partial(_tagged, State)
    if is_dataclass(hint):
        return partial(_build, typing.cast("type", hint))
    raise TypeError(f"the store has no form for {hint}")
