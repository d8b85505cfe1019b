"""Changing immutable values.

An attempt changes a dozen of them, and `dataclasses.replace` goes through the fields one by one.
The values of the machine have no slots: what has a dictionary is copied, and kept in the store, in
one go.
"""

from __future__ import annotations

from typing import Any, TypeVar

V = TypeVar("V")


def changed(value: V, **changes: Any) -> V:
    """Return the same value with other contents of some fields."""
    fields = value.__dict__
    if not changes.keys() <= fields.keys():
        unknown = ", ".join(changes.keys() - fields.keys())
        raise TypeError(f"{type(value).__name__} has no {unknown}")
    new = object.__new__(type(value))
    new.__dict__.update(fields, **changes)
    return new
