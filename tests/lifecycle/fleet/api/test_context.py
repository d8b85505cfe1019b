"""The context of a spawn request cannot be changed, and its keys have no case."""

from __future__ import annotations

import copy
import json
import pickle
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from lifecycle.fleet.api.context import ContextValues
from lifecycle.fleet.api.options import SpawnRequest
from lifecycle.fleet.api.registry import AgentDefinition
from tests.lifecycle.fleet.spawner_world import Puppet, staged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lifecycle.fleet.api.registry import AgentContext

PLAIN: dict[str, Any] = {
    "Target": {"Path": "/x", "deep": [1, {"a": 2}]}, "list": ["a", ("b",)], "n": None,
}  # fmt: skip


def values() -> ContextValues:
    found = SpawnRequest(agent_definition_id=uuid4(), context=PLAIN).context
    assert isinstance(found, ContextValues)
    return found


def test_a_key_is_found_in_whatever_case() -> None:
    context = values()

    assert context["TARGET"] == context["target"] == context.get("tArget") == PLAIN["Target"]
    assert "LIST" in context
    assert "other" not in context
    assert context.get("other", 7) == 7
    with pytest.raises(KeyError):
        context["other"]
    # Only the context's own keys: what stands below them is the caller's data.
    assert "path" not in context["target"]


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each.update(a=1),
        lambda each: each.__setitem__("a", 1),
        lambda each: each.pop("target"),
        lambda each: each.clear(),
        lambda each: each.setdefault("a", 1),
        lambda each: each["target"].__setitem__("Path", "/y"),
        lambda each: each["target"]["deep"].append(1),
        lambda each: each["target"]["deep"][1].update(a=1),
        lambda each: each["target"]["deep"].__delitem__(0),
        lambda each: each["list"].sort(),
        lambda each: each["list"].extend([1]),
    ],
)
def test_nobody_can_change_it_at_any_depth(change: Callable[[Any], object]) -> None:
    context = values()

    with pytest.raises(TypeError, match="cannot be changed"):
        change(context)

    assert context == values()


def test_what_it_was_made_from_may_change_and_it_does_not() -> None:
    plain = {"a": [1]}
    request = SpawnRequest(agent_definition_id=uuid4(), context=plain)
    plain["a"].append(2)
    plain["b"] = []

    assert request.context == {"a": [1]}


def test_it_is_plain_json_copied_and_pickled_like_any_other() -> None:
    request = SpawnRequest(agent_definition_id=uuid4(), context=PLAIN)
    context = values()

    assert json.loads(json.dumps(context)) == json.loads(json.dumps(PLAIN))
    assert SpawnRequest.model_validate_json(request.model_dump_json()).context == context
    for again in (copy.copy(context), copy.deepcopy(context), pickle.loads(pickle.dumps(context))):  # noqa: S301  # our own
        assert again == context
        assert again["LIST"] == context["list"]
    assert dict(context) == context


async def test_the_agent_gets_it_as_it_is(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Reader(Puppet):
        async def initialise(self, context: AgentContext) -> None:
            seen.extend((context.values["TARGET"], context.get("target")))
            with pytest.raises(TypeError):
                context.values["target"]["Path"] = "/y"

    async with staged(tmp_path) as stage:
        reader = AgentDefinition(name="reader", runs=lambda: Reader(stage.log))
        stage.spawner.registry.register(reader)
        await stage.spawner.spawn(stage.request_for(reader, **PLAIN))

    assert seen == [PLAIN["Target"]] * 2
