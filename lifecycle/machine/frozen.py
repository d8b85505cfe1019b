"""Frozen dataclasses that take little to define: a command that lives a moment defines a hundred.

The standard library compiles six methods for each class; five of them are alike for all, and stand
here. What these classes can do is the same, and `fields` and `replace` take them.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from functools import cache
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Make a class what `dataclass(frozen=True, kw_only=True)` makes of it."""
    made = dataclass(kw_only=True, init=False, repr=False, eq=False)(cls)
    methods = {"__init__": _init_of(made), **_METHODS}
    for name, method in methods.items():
        if name not in vars(cls):
            setattr(made, name, method)
    return made


def _init_of(cls: type[Any]) -> Any:
    """Compile what sets the fields: a loop over them would slow down each object."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    arguments, lines = [], []
    for each in fields(cls):
        name, value = each.name, each.name
        if each.default_factory is not MISSING:
            scope[f"_{name}"] = each.default_factory
            arguments.append(f"{name}=_missing")
            value = f"_{name}() if {name} is _missing else {name}"
        elif each.default is not MISSING:
            scope[f"_{name}"] = each.default
            arguments.append(f"{name}=_{name}")
        else:
            arguments.append(name)
        lines.append(f"\n  _set(self, '{name}', {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("\n  self.__post_init__()")
    given = f", *, {', '.join(arguments)}" if arguments else ""
    exec(f"def __init__(self{given}):{''.join(lines) or ' pass'}", scope)  # noqa: S102  # only names of fields
    init = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {each.name: each.type for each in fields(cls)} | {"return": None}
    return init


@cache
def _names(cls: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(cls))


def _values(self: object) -> tuple[Any, ...]:
    names = _names(type(self))  # type: ignore[arg-type]  # classes do hash
    return tuple([getattr(self, name) for name in names])


def _repr(self: object) -> str:
    names = _names(type(self))  # type: ignore[arg-type]  # classes do hash
    told = (f"{name}={getattr(self, name)!r}" for name in names)
    return f"{type(self).__qualname__}({', '.join(told)})"


def _eq(self: object, other: object) -> Any:  # NotImplemented is of no type
    if type(other) is not type(self):
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _refuse_set(_: object, name: str, __: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS = {
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
}
