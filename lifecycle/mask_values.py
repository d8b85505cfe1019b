"""Takes secrets out of facts before anything is decided on them or kept of them.

Owns the walk through facts, models and plain values. What is a secret, and how it is found, is
`runtime.masking.masker`. Which boundary masks what:

- the logs of agents and gates: the pipe they go through (`runtime.logs.masking_pump`), so that last
  words, excerpts and whatever else is read from a log holds no secret;
- every fact a lifecycle is told (an agent's word, CI, reviews, errors, what a person says): its
  owner, before it decides; so journal, record, ledger, events and all views hold none;
- what a summary is made of beside facts (mailbox, commits, file names, a person's own text): the
  handout, before it is cut to size, because half a secret would not be recognised;
- task and agent as they are stored: `facts_of`;
- command lines of tasks and agents too; none is run with a marker in it: `refuse_markers`;
- log events, audit rows and webhook deliveries: the code that writes them.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, TypeVar, cast

from pydantic import BaseModel

from lifecycle.errors import PlanError
from runtime.errors import SpawnError
from runtime.masking.masker import holds_secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lifecycle.plan import Agent
    from runtime.masking.masker import Masker

Value = TypeVar("Value")
HIDDEN = "***given by environment or plan***"
"""Stands in the store for a variable that is not kept."""
_MARKER = re.compile(r"\*\*\*[A-Za-z0-9_.-]{1,64}\*\*\*")


def masked(value: Value, masker: Masker) -> Value:
    """Return a fact, a model or a plain value without secrets; the very same if there are none.

    Numbers, names of kinds (enums) and keys of mappings stay what they are.
    """
    return cast("Value", _masked(value, masker)) if masker else value


def without_secrets(env: Mapping[str, str], masker: Masker) -> dict[str, str]:
    """Return variables as they may be stored: for those that hold a secret only that they did."""
    return {
        name: HIDDEN if holds_secret(name, value) or masker.mask(value) != value else value
        for name, value in env.items()
    }


def with_secrets(agent: Agent, passed: Collection[str]) -> dict[str, str]:
    """Return an agent's variables; SpawnError if one is needed that was not stored.

    One that the runner passes on from its own environment is left to that.
    """
    lacking = [name for name, value in agent.env.items() if value == HIDDEN and name not in passed]
    if lacking:
        names = ", ".join(lacking)
        raise SpawnError(
            f"{agent.agent_id} was given {names} with its plan, and secrets are not kept: run its "
            f"plan again, or set {names} in the environment and name it in pass_env."
        )
    return {name: value for name, value in agent.env.items() if value != HIDDEN}


def hides(text: str) -> bool:
    """Tell whether a secret was taken out of a text."""
    return _MARKER.search(text) is not None


def refuse_markers(what: str, words: Iterable[str]) -> None:
    """Refuse to run a command line in which a marker stands for a secret; PlanError says why."""
    for word in words:
        if found := _MARKER.search(word):
            raise PlanError(
                f"{what} holds {found[0]} where its plan had a secret, and secrets are not kept: "
                "run the plan again, or better let the command read a variable ($NAME) that is "
                "named in pass_env"
            )


def _masked(value: object, masker: Masker) -> object:
    kind: type = type(value)
    if kind is str:
        return masker.mask(cast("str", value))
    if isinstance(value, (tuple, list)):
        return _items(value, masker)
    if kind is dict:
        return _mapping(cast("dict[object, object]", value), masker)
    changed = {}
    for name in _fields(kind):
        before = getattr(value, name)
        after = _masked(before, masker)
        if after is not before:
            changed[name] = after
    return _changed(value, changed) if changed else value


def _changed(value: object, changed: dict[str, object]) -> object:
    if isinstance(value, BaseModel):
        return value.model_copy(update=changed)
    return dataclasses.replace(value, **changed)  # type: ignore[type-var]  # it has fields


def _items(value: tuple[object, ...] | list[object], masker: Masker) -> object:
    after = [_masked(each, masker) for each in value]
    if all(new is old for new, old in zip(after, value, strict=True)):
        return value
    if hasattr(value, "_make"):
        return value._make(after)
    return type(value)(after)


def _mapping(value: dict[object, object], masker: Masker) -> dict[object, object]:
    after = {key: _masked(each, masker) for key, each in value.items()}
    return value if all(after[key] is each for key, each in value.items()) else after


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    if issubclass(kind, BaseModel):
        return tuple(kind.model_fields)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    return ()
