"""The context of a spawn request: JSON that nobody can change, whose keys have no case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("the context of an agent cannot be changed; make a copy with dict() or list()")


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __hash__ = None

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> Any:
        return type(self), (list(self),)


class FrozenDict(dict[str, Any]):
    """A dictionary that cannot be changed."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)


class ContextValues(FrozenDict):
    """The context itself: a key is found in whatever case; those below it are taken as they are."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__({key: frozen(value) for key, value in (values or {}).items()})
        self._keys: dict[str, str] = {}
        for key in self:
            first = self._keys.setdefault(key.lower(), key)
            if first != key:
                raise ValueError(f"the keys {first!r} and {key!r} of context differ only in case")
        try:
            json.dumps(self, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as problem:
            raise ValueError(f"context is not valid JSON: {problem}") from problem

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(self._known(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(self._known(key))

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key."""
        return super().get(self._known(key), default)

    def _known(self, key: object) -> Any:
        """Return a key as it was given."""
        return self._keys.get(key.lower(), key) if isinstance(key, str) else key


def frozen(value: Any) -> Any:
    """Return JSON that cannot be changed, at any depth."""
    if isinstance(value, dict):
        return FrozenDict({key: frozen(each) for key, each in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList(map(frozen, value))
    return value
