"""A frozen class does what one of the standard library does."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.json_form import KINDS
from lifecycle.machine.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable


@frozen
class Nothing:
    """No fields."""


@frozen
class Base:
    """One required field."""

    at: float
    """When."""


@frozen
class Ours(Base):
    """All kinds of fields; a required one after one with a default."""

    name: str = "none"
    items: tuple[str, ...] = field(default_factory=tuple)
    number: int


@dataclass(frozen=True, kw_only=True)
class StandardBase:
    """The same, as the standard library has it."""

    at: float


@dataclass(frozen=True, kw_only=True)
class Standard(StandardBase):
    """The same, as the standard library has it."""

    name: str = "none"
    items: tuple[str, ...] = field(default_factory=tuple)
    number: int


LOOKS: tuple[Callable[[Any], object], ...] = (
    lambda of: [(each.name, each.default, each.kw_only) for each in fields(of)],
    lambda of: [each.name for each in fields(of(at=1.0, number=2))],
    lambda of: [(each.name, each.kind) for each in inspect.signature(of).parameters.values()],
    lambda of: repr(of(at=1.0, number=2)).partition("(")[2],
    lambda of: vars(of(at=1.0, number=2, name="x")),
    lambda of: vars(replace(of(at=1.0, number=2), items=("a",))),
    lambda of: hash(of(at=1.0, number=2)),
    lambda of: of(at=1.0, number=2) == of(at=1.0, number=2),
    lambda of: of(at=1.0, number=2) == of(at=1.0, number=3),
    lambda of: of(at=1.0, number=2) == of.__mro__[1](at=1.0),
    lambda of: pickle.loads(pickle.dumps(of(at=1.0, number=2))) == of(at=1.0, number=2),  # noqa: S301  # ours
    lambda of: copy.deepcopy(of(at=1.0, number=2)) == of(at=1.0, number=2),
    lambda of: of.__match_args__,
)


@pytest.mark.parametrize("look", LOOKS)
def test_it_is_what_the_standard_library_makes(look: Callable[[Any], object]) -> None:
    assert look(Ours) == look(Standard)


@pytest.mark.parametrize("given", [{}, {"at": 1.0}, {"at": 1.0, "number": 1, "other": 2}])
def test_wrong_arguments_are_refused_alike(given: dict[str, Any]) -> None:
    said = []
    for of in (Ours, Standard):
        with pytest.raises(TypeError) as refused:
            of(**given)
        said.append(str(refused.value).removeprefix(of.__name__))
    assert said[0] == said[1]


def test_all_that_a_command_has_to_define_of_the_machine_is_frozen_so() -> None:
    kinds = [kind for family in KINDS.values() for kind in family.values()]
    assert len(kinds) > 60
    ours = vars(Nothing)["__setattr__"]
    assert [kind for kind in kinds if vars(kind)["__setattr__"] is not ours] == []


def test_it_cannot_be_changed() -> None:
    ours: Any = Ours(at=1.0, number=2)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'at'"):
        ours.at = 2.0
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'at'"):
        del ours.at
    assert Nothing() == Nothing()
    assert repr(Nothing()) == "Nothing()"


def test_what_a_class_says_itself_stands() -> None:
    @frozen
    class Own:
        """With a text of its own, and something done at the end."""

        name: str

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError("no name")

        def __repr__(self) -> str:
            return self.name

    assert repr(Own(name="x")) == "x"
    with pytest.raises(ValueError, match="no name"):
        Own(name="")
