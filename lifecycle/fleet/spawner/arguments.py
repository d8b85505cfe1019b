"""The arguments of a spawner's methods: what else will do in their place, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import UUID

from pydantic import ValidationError

from lifecycle.fleet.api.instances import AgentInstance
from lifecycle.fleet.api.options import Model, SpawnRequest
from lifecycle.fleet.api.registry import AgentDefinition
from lifecycle.fleet.errors import (
    AgentNotFoundError,
    InvalidArgumentError,
    SpawnValidationError,
)
from lifecycle.fleet.validation import faults_of

if TYPE_CHECKING:
    from lifecycle.fleet.api.registry import AgentRegistry

InstanceRef: TypeAlias = UUID | AgentInstance | str
"""An instance: its id, also as text, or a snapshot of it."""
Spawnable: TypeAlias = SpawnRequest | Mapping[str, Any] | AgentDefinition | UUID | str
"""What can be spawned: a request, also as plain values, or a definition, its id or its name."""
M = TypeVar("M", bound=Model)
T = TypeVar("T")


def instance_id_of(given: object) -> UUID:
    """Return the id of an instance."""
    if isinstance(given, AgentInstance):
        return given.instance_id
    if isinstance(given, UUID):
        return given
    if isinstance(given, str):
        if not _is_id(given):
            raise InvalidArgumentError(
                f"{given!r} is not the id of an instance; give `instance.instance_id`"
            )
        return UUID(given)
    raise InvalidArgumentError(
        f"an instance is wanted, its UUID or that as a text, not {given!r:.100}"
    )


def options_of(kind: type[M], given: object, default: M) -> M:
    """Return options, also from plain values; None stands for the default."""
    if given is None:
        return default
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"{kind.__name__} or None is wanted, not {given!r:.100}")
    try:
        return kind.model_validate(given)
    except ValidationError as problem:
        told = "; ".join(faults_of(problem, kind.__name__))
        raise InvalidArgumentError(f"{kind.__name__} is not valid: {told}") from problem


def of_kind(kind: type[T], given: object) -> T:
    """Return an argument that must be of this kind."""
    if not isinstance(given, kind):
        raise InvalidArgumentError(f"a {kind.__name__} is wanted, not {given!r:.100}")
    return given


def retention_of(given: object, usual: float | None) -> float | None:
    """Return for how many seconds ended instances are kept; None for ever."""
    if given is None:
        return None
    if given == "auto":
        return usual
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    seconds = given.total_seconds() if isinstance(given, timedelta) else given if number else -1.0
    if not (isinstance(seconds, (int, float)) and 0 <= seconds < math.inf):
        raise InvalidArgumentError(
            f"retention is {given!r:.100}; give a timedelta, seconds from 0 on, or None for ever"
        )
    return seconds


def with_options(given: object, options: object, context: object) -> object:
    """Return a request for a definition with these, if any is given; a request has its own."""
    if options is None and context is None:
        return given
    if isinstance(given, (AgentDefinition, UUID, str)):
        return {"agent_definition_id": given, "options": options, "context": context}
    raise InvalidArgumentError(
        "options and context belong to a definition, its id or its name; "
        f"a {type(given).__name__} has its own"
    )


def definition_named(given: object) -> str:
    """Return which definition a request names, for the log and the audit."""
    if isinstance(given, SpawnRequest):
        given = given.agent_definition_id
    elif isinstance(given, Mapping):
        given = given.get("agent_definition_id", "")
    return str(getattr(given, "definition_id", given))[:64]


def request_of(given: object, registry: AgentRegistry) -> SpawnRequest:
    """Return a validated request. A definition that is given itself is registered."""
    if not isinstance(given, (SpawnRequest, Mapping, AgentDefinition, UUID, str)):
        raise InvalidArgumentError(
            "a SpawnRequest is wanted, or an AgentDefinition, its id or its name, "
            f"not {given!r:.100}"
        )
    if isinstance(given, str) and registry.find(given) is None and not _is_id(given):
        raise AgentNotFoundError(
            f"no agent is registered as {given!r}; registered are: {registry.names()}"
        )
    if isinstance(given, (AgentDefinition, UUID, str)):
        given = {"agent_definition_id": given}
    if isinstance(given, Mapping):
        given = _request(_known_by_name(given, registry), registry)
    if not given.is_valid():
        raise SpawnValidationError("the spawn request names no agent: agent_definition_id is nil")
    return given


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _known_by_name(values: Mapping[str, Any], registry: AgentRegistry) -> Mapping[str, Any]:
    """Return the values of a request with the id in place of a definition or its name."""
    named = values.get("agent_definition_id")
    found = registry.register(named) if isinstance(named, AgentDefinition) else None
    if isinstance(named, str):
        found = registry.find(named)
    return values if found is None else {**values, "agent_definition_id": found.definition_id}


def _request(values: Mapping[str, Any], registry: AgentRegistry) -> SpawnRequest:
    try:
        return SpawnRequest.model_validate(values)
    except ValidationError as problem:
        told = "; ".join(faults_of(problem, "request"))
        raise SpawnValidationError(
            f"the spawn request is not valid: {told}. Registered agents: {registry.names()}"
        ) from problem
