"""The one JSON form of values that are kept, exported or sent to another machine, and back.

A state, event or effect is an object with `kind` (its class), `v` (the form's version) and one key
per field; any other dataclass is the same without the two. Reading ignores keys it does not know
and gives a missing field its default. Must not know where the text goes. It is on the way of every
attempt, so each class's plan is made once, from its annotations: these must resolve at run time.
"""

from __future__ import annotations

import json
import types
import typing
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from lifecycle.errors import StoreDamagedError, StoreFromNewerVersionError
from lifecycle.machine import effects, events, runner_orders, states
from lifecycle.machine.effects import Effect
from lifecycle.machine.events import Event
from lifecycle.machine.states import State
from runtime.agents.outcome import Ending

VERSION = 1
"""Counted up when an older reader would misunderstand the form, not when a field is added."""

RENAMED: dict[type[Enum], dict[str, str]] = {
    Ending: {"crashed": "crash", "hung": "hang"},
    states.Reason: {"no_progress": "error"},
}
"""Values that earlier versions wrote, and what they are now."""

T = TypeVar("T")
Convert = typing.Callable[[Any], Any]
_PLAIN = (str, int, float, bool, Any, object)
_TAGGED = (State, Event, Effect)


def encode(value: object) -> str:
    """Return the text of a value."""
    return _ENCODER.encode(value)


def decode(of: type[T], text: str) -> T:
    """Return the value of this type that has this text."""
    if type(text) is not str:
        raise StoreDamagedError(f"a stored {of.__name__.lower()} is not valid UTF-8: {text[:200]}")
    convert = _converter(of)  # type: ignore[arg-type]  # classes do hash
    try:
        value: T = convert(json.loads(text))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as problem:
        raise StoreDamagedError(
            f"a stored {of.__name__.lower()} cannot be read ({problem!r}): {text[:200]}"
        ) from problem
    return value


def plain(value: object) -> Any:
    """Return a value as an object of plain values, for who puts it into a larger one."""
    return json.loads(_ENCODER.encode(value))


def _family(base: type, module: types.ModuleType) -> dict[str, type[Any]]:
    found = (each for each in vars(module).values() if isinstance(each, type))
    return {each.__name__: each for each in found if issubclass(each, base)}


KINDS: dict[type[Any], dict[str, type[Any]]] = {
    State: _family(State, states),
    Event: _family(Event, events) | _family(Event, runner_orders),
    Effect: _family(Effect, effects),
}
"""Every class that may stand where its base is written, by its tag."""


def _pairs(value: Any) -> Any:
    """Show the encoder a value that JSON does not know as one that it does."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    head, names = _shape(type(value))  # type: ignore[arg-type]  # classes do hash
    if names is None:
        return {**head, **value.__dict__}
    return {**head, **{name: getattr(value, name) for name in names}}


@cache
def _shape(of: type[Any]) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    """Return what stands before a class's fields, and their names where it has no dictionary."""
    if not is_dataclass(of):
        raise TypeError(f"{of.__name__} has no JSON form; give it one in {__name__}")
    head = {"kind": of.__name__, "v": VERSION} if issubclass(of, _TAGGED) else {}
    slots = "__slots__" in vars(of)
    return head, tuple(field.name for field in fields(of)) if slots else None


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_pairs, check_circular=False)
"""Escapes all but ASCII: file names that are not UTF-8 come back as they were."""


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


@cache
def _converter(of: Any) -> Convert:
    return _convert(of) or (lambda value: value)


def _convert(hint: Any) -> Convert | None:
    """Return what makes a value of this type of a JSON value; None where that is the same."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _PLAIN or origin is typing.Literal:
        return None
    if origin in (typing.Union, types.UnionType):
        (inner,) = (each for each in arguments if each is not types.NoneType)
        return _convert(inner)
    if origin in (tuple, list):
        return _items(origin, arguments)
    if origin is dict:
        value = _convert(arguments[1])
        return value and (lambda items: {name: value(each) for name, each in items.items()})
    if isinstance(hint, type):
        return _class(hint)
    raise TypeError(f"there is no JSON form of {hint}; give it one in {__name__}")


def _items(kind: type[Any], arguments: tuple[Any, ...]) -> Convert | None:
    if kind is tuple and arguments[1:] != (...,):
        raise TypeError(f"there is no JSON form of a tuple of {arguments}; name its fields")
    each = _convert(arguments[0])
    if each is None:
        return None if kind is list else tuple
    return lambda items: kind(map(each, items))


def _class(of: type[Any]) -> Convert:
    if issubclass(of, Enum):
        renamed = RENAMED.get(of)
        return of if renamed is None else lambda value: of(renamed.get(value, value))
    if of in _TAGGED:
        return partial(_tagged, of)
    if issubclass(of, BaseModel):
        return of.model_validate
    if issubclass(of, datetime):
        return of.fromisoformat
    if is_dataclass(of):
        _plan(of)  # what has no form is found out now, not in the text of one that has
        return partial(_build, typing.cast("type", of))
    if issubclass(of, Path):
        return Path
    raise TypeError(f"{of.__name__} has no JSON form; give it one in {__name__}")
