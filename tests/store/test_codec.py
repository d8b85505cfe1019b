"""Every state, event and effect comes back from its text as it was."""

from __future__ import annotations

import inspect
import json
import types
import typing
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lifecycle.errors import StoreDamagedError, StoreFromNewerVersionError
from lifecycle.machine import effects, events, states
from lifecycle.store.codec import decode_effect, decode_event, decode_state, encode
from tests.store.samples import BLOCKED, WORKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def leaves(base: type[Any], module: ModuleType) -> list[type[Any]]:
    family = [
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, base) and each.__module__ == module.__name__
    ]
    return [each for each in family if not any(each in other.__mro__[1:] for other in family)]


STATES = leaves(states.State, states)
EVENTS = leaves(events.Event, events)
EFFECTS = leaves(effects.Effect, effects)

_TEXT = some.text(some.characters(exclude_categories=()), max_size=20)
"""Any character, lone surrogates too: file names hold them."""
_PLAIN = {
    str: _TEXT,
    int: some.integers(),
    float: some.floats(),
    bool: some.booleans(),
    types.NoneType: some.none(),
}


def values(hint: Any) -> some.SearchStrategy[Any]:
    """Return what a field of this type may hold."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, types.UnionType):
        return some.one_of(*map(values, typing.get_args(hint)))
    if typing.get_origin(hint) is tuple:
        return some.lists(values(typing.get_args(hint)[0]), max_size=3).map(tuple)
    if hint is states.State:
        return some.one_of(*(instances(each) for each in STATES if each != states.Suspended))
    if issubclass(hint, Enum):
        return some.sampled_from(hint)
    return instances(hint)


def instances(of: type[Any]) -> some.SearchStrategy[Any]:
    """Return any instance of a class, by the types of its fields."""
    hints = typing.get_type_hints(of)
    return some.builds(of, **{field.name: values(hints[field.name]) for field in fields(of)})


def test_the_states_tried_here_are_all_there_are() -> None:
    assert set(STATES) == set(states.ALL)


@settings(max_examples=25, deadline=None, database=None)
@given(some.data())
@pytest.mark.parametrize(
    ("kind", "decode"),
    [
        *((kind, decode_state) for kind in STATES),
        *((kind, decode_event) for kind in EVENTS),
        *((kind, decode_effect) for kind in EFFECTS),
    ],
)
def test_every_class_comes_back_as_it_was(
    kind: type[Any], decode: Callable[[str], Any], data: some.DataObject
) -> None:
    value = data.draw(instances(kind))
    text = encode(value)

    again = decode(text)

    assert type(again) is kind
    # By its text: not-a-number is not equal to itself.
    assert encode(again) == text
    assert repr(again) == repr(value)
    assert text.isascii()
    assert (json.loads(text)["kind"], json.loads(text)["v"]) == (kind.__name__, 1)


def test_enums_and_tuples_come_back_as_such() -> None:
    value = states.Rejected(reason=states.Reason.PERSON, text="", tally=states.Tally())
    again = decode_state(encode(value))

    assert isinstance(again, states.Rejected)
    assert isinstance(again.reason, states.Reason)
    assert isinstance(again.tally.wanted, states.Wanted)
    found = decode_event(
        encode(events.GatesFinished(at=1, attempt=1, gates=(states.Gate(command="x", ok=True),)))
    )
    assert isinstance(found, events.GatesFinished)
    assert isinstance(found.gates, tuple)
    assert isinstance(found.gates[0], states.Gate)


def test_the_state_inside_a_suspension_keeps_its_kind() -> None:
    value = states.Suspended(inner=BLOCKED, since=4.0)

    assert json.loads(encode(value))["inner"]["kind"] == "Blocked"
    assert decode_state(encode(value)) == value


def test_unknown_keys_are_ignored_and_missing_ones_get_their_default() -> None:
    stored = json.loads(encode(WORKING))
    stored["colour"] = "red"
    stored["process"]["colour"] = {"deep": []}
    del stored["tally"]["stuck"]

    assert decode_state(json.dumps(stored)) == WORKING
    del stored["tally"]
    assert decode_state(json.dumps(stored)).tally == states.Tally()


@pytest.mark.parametrize("change", [{"kind": "Dreaming"}, {"v": 2}])
def test_a_newer_form_is_refused_as_newer(change: dict[str, Any]) -> None:
    text = json.dumps({**json.loads(encode(WORKING)), **change})

    with pytest.raises(StoreFromNewerVersionError, match="does not know"):
        decode_state(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"Working"',
        "null",
        "{}",
        '{"kind":"Working"}',
        '{"kind":"Working","v":1}',
        '{"kind":"Rejected","v":1,"reason":"because","text":""}',
        '{"kind":"Suspended","v":1,"inner":7,"since":1}',
        '{"kind":["x"],"v":1}',
        "[" * 100_000,
    ],
)
def test_a_text_that_is_no_state_is_named_as_damage(text: str) -> None:
    with pytest.raises(StoreDamagedError, match="a stored state cannot be read"):
        decode_state(text)


def test_an_event_is_no_state() -> None:
    with pytest.raises(StoreFromNewerVersionError, match="'Admitted'"):
        decode_state(encode(events.Admitted(at=1.0)))


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="object cannot be kept"):
        encode(object())  # type: ignore[arg-type]  # on purpose
