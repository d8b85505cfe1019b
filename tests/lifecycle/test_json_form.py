"""Whatever travels comes back from its text as it was: what the machine knows, and its records."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import types
import typing
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lifecycle import drive, record
from lifecycle import machine as machine_package
from lifecycle.errors import StoreDamagedError, StoreFromNewerVersionError
from lifecycle.json_form import decode, encode, plain
from lifecycle.machine import effects, events, states
from lifecycle.worker import assignment
from tests.fuzzing import examples
from tests.lifecycle.store.samples import BLOCKED, WORKING

if TYPE_CHECKING:
    from collections.abc import Iterator
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

BASES: dict[Any, list[type[Any]]] = {
    states.State: [each for each in STATES if each != states.Suspended],
    events.Event: EVENTS,
    effects.Effect: EFFECTS,
}
HOLDS_A_FUNCTION = {"Rule"}

_TEXT = some.text(some.characters(exclude_categories=()), max_size=20)
"""Any character, lone surrogates too: file names hold them."""
_PLAIN = {
    str: _TEXT,
    int: some.integers(),
    float: some.floats(),
    bool: some.booleans(),
    types.NoneType: some.none(),
    Any: some.recursive(
        some.none() | some.booleans() | some.integers() | some.text(max_size=5),
        lambda inner: (
            some.lists(inner, max_size=2) | some.dictionaries(some.text(max_size=3), inner)
        ),
        max_leaves=5,
    ),
}


def values(hint: Any) -> some.SearchStrategy[Any]:
    """Return what a field of this type may hold."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return some.one_of(*map(values, arguments))
    if origin in (tuple, list):
        return some.lists(values(arguments[0]), max_size=3).map(origin)
    if origin is dict:
        return some.dictionaries(some.text(max_size=5), values(arguments[1]), max_size=3)
    if hint in BASES:
        return some.sampled_from(BASES[hint]).flatmap(instances)
    return some.sampled_from(hint) if issubclass(hint, Enum) else instances(hint)


def instances(of: type[Any]) -> some.SearchStrategy[Any]:
    """Return any instance of a class, by the types of its fields."""
    hints = typing.get_type_hints(of)
    return some.builds(of, **{field.name: values(hints[field.name]) for field in fields(of)})


def dataclasses_of(*modules: ModuleType) -> Iterator[type[Any]]:
    for module in modules:
        for name, each in inspect.getmembers(module, inspect.isclass):
            own = each.__module__ == module.__name__ and name not in HOLDS_A_FUNCTION
            if own and is_dataclass(each):
                yield each


MACHINE = [
    importlib.import_module(f"{machine_package.__name__}.{each.name}")
    for each in pkgutil.iter_modules(machine_package.__path__)
]
OTHERS = [
    each
    for each in (*dataclasses_of(*MACHINE, record, assignment), drive.WorkingCopy)
    if not issubclass(each, (states.State, events.Event, effects.Effect))
]


def test_the_states_tried_here_are_all_there_are() -> None:
    assert set(STATES) == set(states.ALL)


def test_what_travels_beside_the_machine_is_among_what_is_tried_here() -> None:
    names = {each.__name__ for each in OTHERS}
    assert names >= {
        "AgentLifecycle", "AttemptRow", "Transaction", "JournalEntry", "PendingEffect", "Policy",
        "AgentReport", "OperatorRequest", "Spending", "SpendingSum", "Tally", "Used", "WorkingCopy",
        "Assignment", "News",
    }  # fmt: skip


@settings(max_examples=examples(8), deadline=None, database=None)
@given(some.data())
@pytest.mark.parametrize(
    ("kind", "base"),
    [
        *((kind, states.State) for kind in STATES),
        *((kind, events.Event) for kind in EVENTS),
        *((kind, effects.Effect) for kind in EFFECTS),
    ],
)
def test_every_class_comes_back_as_it_was(
    kind: type[Any], base: type[Any], data: some.DataObject
) -> None:
    value = data.draw(instances(kind))
    text = encode(value)

    again = decode(base, text)

    assert type(again) is kind
    # By its text: not-a-number is not equal to itself.
    assert encode(again) == text
    assert repr(again) == repr(value)
    assert text.isascii()
    assert (json.loads(text)["kind"], json.loads(text)["v"]) == (kind.__name__, 1)


@settings(max_examples=examples(4), deadline=None, database=None)
@given(some.data())
@pytest.mark.parametrize("kind", OTHERS)
def test_every_other_class_that_travels_comes_back_as_it_was(
    kind: type[Any], data: some.DataObject
) -> None:
    value = data.draw(instances(kind))
    text = encode(value)

    again = decode(kind, text)

    assert type(again) is kind
    assert encode(again) == text
    assert repr(again) == repr(value)
    assert plain(value) == json.loads(text) or "NaN" in text


@dataclass
class _Odd:
    odd: complex


def test_a_class_without_a_form_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="complex has no JSON form"):
        decode(_Odd, '{"odd": 1}')


def test_the_state_inside_a_suspension_keeps_its_kind() -> None:
    value = states.Suspended(inner=BLOCKED, since=4.0)

    assert json.loads(encode(value))["inner"]["kind"] == "Blocked"
    assert decode(states.State, encode(value)) == value


def test_unknown_keys_are_ignored_and_missing_ones_get_their_default() -> None:
    stored = json.loads(encode(WORKING))
    stored["colour"] = "red"
    stored["process"]["colour"] = {"deep": []}
    del stored["tally"]["stuck"]

    assert decode(states.State, json.dumps(stored)) == WORKING
    del stored["tally"]
    assert decode(states.State, json.dumps(stored)).tally == states.Tally()


@pytest.mark.parametrize("change", [{"kind": "Dreaming"}, {"v": 2}])
def test_a_newer_form_is_refused_as_newer(change: dict[str, Any]) -> None:
    text = json.dumps({**json.loads(encode(WORKING)), **change})

    with pytest.raises(StoreFromNewerVersionError, match="does not know"):
        decode(states.State, text)


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
def test_a_text_that_is_not_a_state_is_named_as_damage(text: str) -> None:
    with pytest.raises(StoreDamagedError, match="a stored state cannot be read"):
        decode(states.State, text)


def test_an_event_is_not_a_state() -> None:
    with pytest.raises(StoreFromNewerVersionError, match="'Admitted'"):
        decode(states.State, encode(events.Admitted(at=1.0)))


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        encode(object())


def test_a_record_comes_back_from_its_text_with_all_its_fields() -> None:
    made = record.AgentLifecycle(
        agent_id="agent-1",
        task="Make it work",
        task_id="T001",
        created_at=1.5,
        updated_at=2.5,
        generated_code="x = 1",
        submission_summary="done",
        changed_files=["a.py", "b \udcff.py"],
        error="oh",
        tags=("red", "blue"),
        work=states.Suspended(inner=BLOCKED, since=3.0),
        facts={"deep": {"n": 1.5, "none": None}},
        version=3,
        cursor=7,
    )
    made.derive()
    text = made.to_json()
    assert set(json.loads(text)) == {field.name for field in fields(record.AgentLifecycle)}
    assert record.AgentLifecycle.from_json(text) == made
    plain_one = record.AgentLifecycle(agent_id="a", task="t", state=record.AgentState.REJECTED)
    assert record.AgentLifecycle.from_json(plain_one.to_json()) == plain_one


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"agent_id": "a", "task": "t", "state": "odd"}'])
def test_a_text_that_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(StoreDamagedError):
        record.AgentLifecycle.from_json(text)
