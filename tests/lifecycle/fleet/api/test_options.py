"""What may be asked for: defaults, ranges, tags, and which state may follow which."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, ValidationError

from lifecycle.fleet.api.instances import TRANSITIONS, InstanceState, is_valid_transition, path
from lifecycle.fleet.api.options import (
    AgentPriority,
    AgentSpawnOptions,
    HealthCheckConfig,
    IsolationLevel,
    ResourceLimits,
    RestartPolicy,
    RestartPolicyType,
    SpawnRequest,
)
from lifecycle.fleet.api.queries import GetInstancesFilter, ObservationOptions, TerminationOptions
from lifecycle.fleet.api.registry import AgentRegistry
from lifecycle.fleet.errors import SpawnValidationError
from lifecycle.fleet.spawner.arguments import request_of
from lifecycle.fleet.validation import ValidationResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.fleet.api.options import NumberedWord

S = InstanceState


def validated(request: object) -> SpawnRequest:
    return request_of(request, AgentRegistry())


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def test_defaults_are_the_documented_ones() -> None:
    options, limits, policy = AgentSpawnOptions(), ResourceLimits(), RestartPolicy()

    assert options.initialization_timeout == seconds(30)
    assert options.isolation_level is IsolationLevel.THREAD
    assert options.priority is AgentPriority.NORMAL
    assert (options.resource_limits, options.restart_policy, options.health_check) == (None,) * 3
    assert (options.name, options.tags) == (None, None)
    assert (limits.max_memory_mb, limits.max_cpu_percent) == (512, 0)
    assert limits.execution_timeout == timedelta(minutes=5)
    assert (limits.max_worker_threads, limits.max_concurrent_tasks) == (4, 10)
    assert limits.max_tokens_per_minute == 0
    assert policy.type is RestartPolicyType.EXPONENTIAL
    assert (policy.max_retries, policy.backoff_multiplier, policy.use_jitter) == (3, 2.0, True)
    assert (policy.initial_delay, policy.max_delay) == (seconds(1), seconds(60))
    assert policy.circuit_breaker_timeout == timedelta(minutes=5)
    assert policy == RestartPolicy.DEFAULT
    assert (RestartPolicy.NONE.type, RestartPolicy.NONE.max_retries) == ("none", 0)
    assert (RestartPolicy.IMMEDIATE.type, RestartPolicy.IMMEDIATE.max_retries) == ("immediate", 3)
    assert TerminationOptions().graceful_timeout == seconds(10)
    assert TerminationOptions().force_if_timeout
    assert not TerminationOptions().persist_final_state
    assert TerminationOptions.IMMEDIATE.graceful_timeout == timedelta()
    assert (GetInstancesFilter().limit, GetInstancesFilter().offset) == (100, 0)
    assert not GetInstancesFilter().include_terminated
    observed = ObservationOptions()
    assert observed.include_state_changes
    assert observed.include_health_checks
    assert observed.include_errors
    assert observed.include_restarts
    assert not observed.include_metrics
    assert observed.buffer_capacity == 100
    assert [each.value for each in AgentPriority] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("model", "field", "least", "most", "step"),
    [
        (ResourceLimits, "max_memory_mb", 64, 8192, 1),
        (ResourceLimits, "max_cpu_percent", 0, 100, 1),
        (ResourceLimits, "execution_timeout", 1, 3600, 0.5),
        (ResourceLimits, "max_worker_threads", 1, 32, 1),
        (ResourceLimits, "max_concurrent_tasks", 1, 100, 1),
        (RestartPolicy, "max_retries", 0, 10, 1),
        (RestartPolicy, "backoff_multiplier", 1.1, 5.0, 0.01),
        (GetInstancesFilter, "limit", 1, 1000, 1),
    ],
)
def test_a_range_holds_its_ends_and_nothing_beyond(
    model: type[BaseModel], field: str, least: float, most: float, step: float
) -> None:
    for inside in (least, most):
        model.model_validate({field: inside})
    for outside in (least - step, most + step):
        with pytest.raises(ValidationError, match=field):
            model.model_validate({field: outside})


def test_all_that_is_wrong_with_limits_is_said_at_once_and_nothing_is_raised() -> None:
    found = ResourceLimits.validate(max_memory_mb=63, max_cpu_percent=101, execution_timeout=0)

    assert not found.is_valid
    assert [each.split(":")[0] for each in found.errors] == [
        "max_memory_mb", "max_cpu_percent", "execution_timeout",
    ]  # fmt: skip
    assert found.errors[0].endswith("not 63")
    assert ResourceLimits.validate(max_memory_mb=64) == ValidationResult.success()
    assert ResourceLimits().validate().is_valid
    # One that was made without being checked is checked now.
    unchecked = ResourceLimits.model_construct(max_worker_threads=0)
    assert len(unchecked.validate().errors) == 1


@pytest.mark.parametrize("kind", [IsolationLevel, RestartPolicyType])
def test_levels_and_policies_have_numbers(kind: Callable[[Any], Any]) -> None:
    assert [kind(number) for number in range(4)] == list(cast("type[NumberedWord]", kind))
    assert [int(kind(number)) for number in range(4)] == [0, 1, 2, 3]
    for outside in (-1, 4, True, 1.0, "4"):
        with pytest.raises(ValueError, match="not a valid"):
            kind(outside)


def test_a_number_stands_for_a_level_in_a_request() -> None:
    options = AgentSpawnOptions.model_validate(
        {"isolation_level": 2, "restart_policy": {"type": 3}}
    )

    assert options.isolation_level is IsolationLevel.PROCESS
    assert options.restart_policy == RestartPolicy.DEFAULT
    assert options.model_dump(mode="json")["isolation_level"] == "process"


@pytest.mark.parametrize(
    "fields",
    [
        {"initial_delay": -1},
        {"initial_delay": 301, "max_delay": 400},
        {"initial_delay": 10, "max_delay": 9},
        {"max_delay": 601},
        {"backoff": 2},
    ],
)
def test_impossible_delays_and_unknown_names_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RestartPolicy.model_validate(fields)


@pytest.mark.parametrize("value", [0, 1, 300])
def test_a_graceful_timeout_is_zero_or_one_second_to_five_minutes(value: float) -> None:
    assert TerminationOptions(graceful_timeout=value).graceful_timeout == seconds(value)


@pytest.mark.parametrize("value", [-1, 0.5, 301])
def test_any_other_graceful_timeout_is_refused(value: float) -> None:
    with pytest.raises(ValidationError, match="graceful_timeout"):
        TerminationOptions(graceful_timeout=value)


def test_tags_are_kept_once_in_whatever_case() -> None:
    assert AgentSpawnOptions(tags=("Nightly", "pr-123", "nightly")).tags == ("Nightly", "pr-123")


@pytest.mark.parametrize(
    "tags", [("",), ("x" * 51,), ("a b",), ("ü",), ("a_b",), ("a\n",), tuple(map(str, range(11)))]
)
def test_a_tag_that_is_none_and_too_many_tags_are_refused(tags: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match="tag"):
        AgentSpawnOptions(tags=tags)


def test_ten_tags_of_fifty_characters_are_fine() -> None:
    tags = tuple(f"{number}{'x' * 49}" for number in range(10))

    assert AgentSpawnOptions(tags=tags).tags == tags


def test_a_health_check_is_a_command_or_a_check_and_not_both() -> None:
    with pytest.raises(ValidationError, match="not both"):
        HealthCheckConfig(command=("true",), check="deep")
    assert not HealthCheckConfig().custom
    assert HealthCheckConfig(check="deep").custom


@pytest.mark.parametrize(
    "context", [{"a": 1, "A": 2}, {"a": object()}, {"a": float("nan")}, {"a": {1, 2}}]
)
def test_a_context_is_json_with_keys_that_differ_in_more_than_case(context: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="context"):
        SpawnRequest(agent_definition_id=uuid4(), context=context)


def test_a_request_may_come_as_plain_values_and_says_all_that_is_wrong_with_it() -> None:
    wrong = {"agent_definition_id": "x", "options": {"tags": ["a b"], "colour": "red"}}

    with pytest.raises(SpawnValidationError) as caught:
        validated(wrong)

    for part in ("agent_definition_id", "options.tags", "options.colour"):
        assert part in str(caught.value)
    request = validated({"agent_definition_id": str(uuid4()), "options": {"name": "x"}})
    assert request.options is not None
    assert request.options.name == "x"


def test_a_request_for_no_agent_is_not_valid() -> None:
    assert not SpawnRequest(agent_definition_id=UUID(int=0)).is_valid()
    with pytest.raises(SpawnValidationError, match="nil"):
        validated(SpawnRequest(agent_definition_id=UUID(int=0)))


def test_the_transitions_are_the_documented_ones() -> None:
    assert TRANSITIONS == {
        S.INITIALIZING: (S.READY, S.FAILED),
        S.READY: (S.PROCESSING, S.SUSPENDED, S.TERMINATING),
        S.PROCESSING: (S.WAITING, S.FAILED, S.TERMINATING),
        S.WAITING: (S.PROCESSING, S.SUSPENDED, S.TERMINATING),
        S.SUSPENDED: (S.READY, S.TERMINATING),
        S.TERMINATING: (S.TERMINATED,),
        S.TERMINATED: (),
        S.FAILED: (S.INITIALIZING, S.TERMINATED),
    }


@pytest.mark.parametrize("before", list(S))
@pytest.mark.parametrize("after", list(S))
def test_a_way_between_two_states_goes_by_the_table(before: S, after: S) -> None:
    way = path(before, after)

    for one, other in zip((before, *way), way, strict=False):
        assert is_valid_transition(one, other)
    assert not way or way[-1] is after


def test_whatever_lives_can_fail_and_can_be_ended() -> None:
    for state in (S.READY, S.PROCESSING, S.WAITING, S.SUSPENDED):
        assert path(state, S.FAILED)
        assert path(state, S.TERMINATING)


def test_what_gets_ready_or_has_failed_comes_no_further_than_one_step() -> None:
    for state in (S.INITIALIZING, S.FAILED, S.TERMINATED, S.TERMINATING):
        for other in S:
            assert len(path(state, other)) <= 1
    assert path(S.FAILED, S.SUSPENDED) == ()


def test_the_shortest_ways_are_taken() -> None:
    assert path(S.READY, S.FAILED) == (S.PROCESSING, S.FAILED)
