"""The population: each post-condition, invariant, limit and log event of its contract."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError
from structlog.testing import capture_logs

from lifecycle.fleet.manager import MAX_AGENTS, LifecycleManager, LifecycleValidator, PauseTracker
from tests.fuzzing import examples

if TYPE_CHECKING:
    from collections.abc import Iterator


class Agent(BaseModel):
    name: str = ""


@dataclass
class State:
    agents: dict[str, Agent] = field(default_factory=dict)
    paused_agents: set[str] = field(default_factory=set)
    auto_resume: dict[str, int] = field(default_factory=dict)
    turn: int = 7


class Checked(dict[str, Agent]):
    """A mapping that takes only agents, as a validating model does."""

    def __setitem__(self, name: str, agent: Agent) -> None:
        super().__setitem__(name, Agent.model_validate(agent))


@pytest.fixture
def manager() -> LifecycleManager:
    return LifecycleManager()


@pytest.fixture
def state() -> State:
    return State(agents={"a": Agent(), "b": Agent()})


def keeps_its_invariants(state: State) -> bool:
    return (
        state.paused_agents <= state.agents.keys()
        and state.auto_resume.keys() <= state.paused_agents
        and len(state.agents) <= MAX_AGENTS
        and all(turns >= 1 for turns in state.auto_resume.values())
    )


# --- add_agent --------------------------------------------------------------------------------


def test_add_returns_the_name_and_adds_the_agent(manager: LifecycleManager, state: State) -> None:
    agent = Agent(name="new")
    assert manager.add_agent("c", agent, {}, state) == "c"
    assert state.agents["c"] is agent


def test_add_resolves_a_name_that_is_taken_with_the_next_number(
    manager: LifecycleManager, state: State
) -> None:
    first = state.agents["a"]
    assert [manager.add_agent("a", Agent(), {}, state) for _ in range(3)] == ["a_1", "a_2", "a_3"]
    assert state.agents["a"] is first
    state.agents.pop("a_2")
    assert manager.add_agent("a", Agent(), {}, state) == "a_2"


def test_add_is_refused_at_25_agents_and_returns_the_name_unchanged(
    manager: LifecycleManager,
) -> None:
    state = State()
    for number in range(25):
        assert manager.add_agent("x", Agent(), {}, state) == (f"x_{number}" if number else "x")
    before = copy.deepcopy(state)
    assert manager.add_agent("x", Agent(), {}, state) == "x"
    assert manager.add_agent("y", Agent(), {}, state) == "y"
    assert state == before
    manager.remove_agent("x", state)
    assert manager.add_agent("y", Agent(), {}, state) == "y"
    assert "y" in state.agents


@pytest.mark.parametrize(("name", "initial"), [("", {}), ("c", None), ("c", [1])])
def test_add_refuses_an_empty_name_and_a_state_that_is_not_a_dict(
    manager: LifecycleManager, state: State, name: str, initial: Any
) -> None:
    assert manager.add_agent(name, Agent(), initial, state) == name
    assert set(state.agents) == {"a", "b"}


@pytest.mark.parametrize("name", [5, object(), [], None, ("a",), b"a"])
def test_a_name_that_is_no_text_is_refused_with_a_warning(
    manager: LifecycleManager, state: State, name: Any
) -> None:
    before = copy.deepcopy(state)
    with capture_logs() as logs:
        assert manager.add_agent(name, Agent(), {}, state) is name
        assert manager.remove_agent(name, state) is False
        assert manager.pause_agent(name, None, state) is False
        assert manager.resume_agent(name, state) is False
    assert state == before
    assert [(each["event"], each["log_level"]) for each in logs] == [
        ("lifecycle_validation_failed", "warning")
    ] * 4


def test_add_lets_the_state_refuse_what_is_not_an_agent(manager: LifecycleManager) -> None:
    state = State(agents=Checked())
    with pytest.raises(ValidationError):
        manager.add_agent("c", "no agent", {}, state)  # type: ignore[misc]  # what is refused
    assert state == State()


# --- remove_agent -----------------------------------------------------------------------------


def test_remove_returns_true_and_removes_the_agent(manager: LifecycleManager, state: State) -> None:
    assert manager.remove_agent("a", state) is True
    assert set(state.agents) == {"b"}


def test_remove_takes_a_pause_and_its_counter_with_it(
    manager: LifecycleManager, state: State
) -> None:
    manager.pause_agent("a", 3, state)
    manager.remove_agent("a", state)
    assert (state.paused_agents, state.auto_resume) == (set(), {})


# --- pause_agent ------------------------------------------------------------------------------


def test_pause_without_turns_lasts_until_resumed(manager: LifecycleManager, state: State) -> None:
    assert manager.pause_agent("a", None, state) is True
    assert (state.paused_agents, state.auto_resume) == ({"a"}, {})
    assert manager.process_auto_resume(state) == []
    assert state.paused_agents == {"a"}


def test_pause_with_turns_keeps_the_counter(manager: LifecycleManager, state: State) -> None:
    assert manager.pause_agent("a", 5, state) is True
    assert state.auto_resume == {"a": 5}


@pytest.mark.parametrize("turns", [0, -1, True, 1.5, "2"])
def test_pause_refuses_turns_that_are_not_a_positive_whole_number(
    manager: LifecycleManager, state: State, turns: Any
) -> None:
    assert manager.pause_agent("a", turns, state) is False
    assert (state.paused_agents, state.auto_resume) == (set(), {})


# --- resume_agent -----------------------------------------------------------------------------


def test_resume_ends_the_pause_and_its_counter(manager: LifecycleManager, state: State) -> None:
    manager.pause_agent("a", 5, state)
    assert manager.resume_agent("a", state) is True
    assert (state.paused_agents, state.auto_resume) == (set(), {})


# --- get_active_agents, process_auto_resume ---------------------------------------------------


def test_active_are_all_that_are_not_paused_and_the_state_is_untouched(
    manager: LifecycleManager, state: State
) -> None:
    manager.pause_agent("a", 2, state)
    before = copy.deepcopy(state)
    active = manager.get_active_agents(state)
    assert active == {"b": state.agents["b"]}
    active.clear()
    assert state == before


def test_auto_resume_counts_down_once_per_turn_and_resumes_at_zero(
    manager: LifecycleManager, state: State
) -> None:
    manager.pause_agent("a", 1, state)
    manager.pause_agent("b", 3, state)
    assert manager.process_auto_resume(state) == ["a"]
    assert (state.paused_agents, state.auto_resume) == ({"b"}, {"b": 2})
    assert manager.process_auto_resume(state) == []
    assert manager.process_auto_resume(state) == ["b"]
    assert (state.paused_agents, state.auto_resume) == (set(), {})
    assert manager.process_auto_resume(state) == []


# --- log events -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [5, None, [], object(), b"a"])
def test_a_name_that_is_no_text_is_refused_by_every_operation(
    manager: LifecycleManager, state: State, name: Any
) -> None:
    before = copy.deepcopy(list(state.agents))
    assert manager.add_agent(name, Agent(), {}, state) is name
    assert not manager.remove_agent(name, state)
    assert not manager.pause_agent(name, None, state)
    assert not manager.resume_agent(name, state)
    assert (list(state.agents), state.paused_agents) == (before, set())


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_without_configuration_nothing_is_written_to_standard_output(
    manager: LifecycleManager,
    state: State,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    structlog.reset_defaults()
    with caplog.at_level("INFO", logger="loopwright"):
        manager.pause_agent("b", None, state)
        manager.pause_agent("b", None, state)
    assert capsys.readouterr().out == ""
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_each_operation_is_logged_with_its_fields(manager: LifecycleManager, state: State) -> None:
    with capture_logs() as logs:
        manager.add_agent("a", Agent(), {}, state)
        manager.pause_agent("a", 2, state)
        manager.pause_agent("b", None, state)
        manager.resume_agent("b", state)
        manager.process_auto_resume(state)
        manager.process_auto_resume(state)
        manager.remove_agent("a", state)
    info = {"event": "lifecycle_operation", "log_level": "info", "turn": 7}
    assert logs == [
        {**info, "operation": "add_agent", "agent_name": "a", "resolved_name": "a_1"},
        {**info, "operation": "pause_agent", "agent_name": "a", "auto_resume_turns": 2},
        {**info, "operation": "pause_agent", "agent_name": "b", "auto_resume_turns": None},
        {**info, "operation": "resume_agent", "agent_name": "b"},
        {**info, "operation": "resume_agent", "agent_name": "a"},
        {**info, "operation": "remove_agent", "agent_name": "a"},
    ]


def test_each_refusal_is_logged_as_a_warning_with_its_reason(manager: LifecycleManager) -> None:
    state = State(agents={f"a{number}": Agent() for number in range(25)})
    with capture_logs() as logs:
        manager.add_agent("z", Agent(), {}, state)
        manager.remove_agent("z", state)
        manager.pause_agent("a1", 0, state)
        manager.resume_agent("a1", state)
    reasons = [entry.pop("reason") for entry in logs]
    warned = {"event": "lifecycle_validation_failed", "log_level": "warning", "turn": 7}
    assert logs == [
        {**warned, "operation": "add_agent", "agent_name": "z"},
        {**warned, "operation": "remove_agent", "agent_name": "z"},
        {**warned, "operation": "pause_agent", "agent_name": "a1"},
        {**warned, "operation": "resume_agent", "agent_name": "a1"},
    ]
    assert "25 is the limit" in reasons[0]
    assert reasons[1] == "there is no agent 'z'"
    assert "whole number from 1, not 0" in reasons[2]
    assert reasons[3] == "agent 'a1' is not paused"


# --- any state, any parts ---------------------------------------------------------------------


def test_any_object_with_the_four_attributes_will_do(manager: LifecycleManager) -> None:
    class Model(BaseModel):
        model_config = ConfigDict(validate_assignment=True)
        agents: dict[str, Agent] = {}
        paused_agents: set[str] = set()
        auto_resume: dict[str, int] = {}
        turn: int = 0

    state = Model()
    assert manager.add_agent("a", Agent(), {"x": 1}, state) == "a"
    assert manager.pause_agent("a", 1, state)
    assert manager.process_auto_resume(state) == ["a"]
    assert manager.get_active_agents(state) == {"a": state.agents["a"]}


def test_the_parts_can_be_handed_in() -> None:
    heard: list[str] = []

    class Log:
        def info(self, event: str, /, **fields: Any) -> None:
            heard.append(f"{event} {fields['operation']}")

        warning = info

    manager = LifecycleManager(LifecycleValidator(max_agents=1), PauseTracker(), logger=Log())
    state = State()
    manager.add_agent("a", Agent(), {}, state)
    manager.add_agent("b", Agent(), {}, state)
    assert list(state.agents) == ["a"]
    assert heard == ["lifecycle_operation add_agent", "lifecycle_validation_failed add_agent"]


# --- invariants -------------------------------------------------------------------------------

NAMES = st.sampled_from(["", "a", "b", "a_1", "zoe", *(f"n{number}" for number in range(30))])
TURNS = st.one_of(st.none(), st.integers(-1, 4))
OPERATIONS = st.one_of(
    st.tuples(st.just("add"), NAMES, TURNS),
    st.tuples(st.just("remove"), NAMES, TURNS),
    st.tuples(st.just("pause"), NAMES, TURNS),
    st.tuples(st.just("resume"), NAMES, TURNS),
    st.tuples(st.just("turn"), NAMES, TURNS),
)


@given(st.lists(OPERATIONS, max_size=80), st.integers(0, 25))
@settings(max_examples=examples(40), deadline=None)
def test_whatever_is_asked_the_invariants_hold_and_refusals_change_nothing(
    asked: list[tuple[str, str, int | None]], already: int
) -> None:
    manager = LifecycleManager(logger=structlog.wrap_logger(structlog.testing.CapturingLogger()))
    state = State(agents={f"n{number}": Agent() for number in range(already)})
    for operation, name, turns in asked:
        before = copy.deepcopy(state)
        match operation:
            case "add":
                resolved = manager.add_agent(name, Agent(), {}, state)
                changed = len(state.agents) > len(before.agents)
                assert changed == (bool(name) and len(before.agents) < MAX_AGENTS)
                assert (resolved == name) or (changed and resolved.startswith(f"{name}_"))
            case "remove":
                assert manager.remove_agent(name, state) == (name in before.agents)
                changed = name in before.agents
            case "pause":
                changed = manager.pause_agent(name, turns, state)
                able = name in before.agents and name not in before.paused_agents
                assert changed == (able and (turns is None or turns >= 1))
            case "resume":
                changed = manager.resume_agent(name, state)
                assert changed == (name in before.paused_agents)
            case _:
                resumed = manager.process_auto_resume(state)
                due = [each for each, left in before.auto_resume.items() if left == 1]
                assert resumed == due
                assert state.paused_agents == before.paused_agents - set(due)
                changed = bool(before.auto_resume)
        assert changed == (state != before)
        assert keeps_its_invariants(state)
        active = manager.get_active_agents(state)
        assert active.keys() | state.paused_agents == state.agents.keys()
        assert not active.keys() & state.paused_agents


def test_each_operation_takes_less_than_a_millisecond_at_25_agents() -> None:
    manager = LifecycleManager(logger=structlog.wrap_logger(structlog.testing.CapturingLogger()))
    best: dict[str, float] = {}

    def timed(name: str, began: float) -> None:
        best[name] = min(best.get(name, 1.0), time.perf_counter() - began)

    for _ in range(20):  # the best of many: a busy machine is no defect
        state = State(agents={f"n{number}": Agent() for number in range(24)})
        for name, call in (
            ("add", lambda s: manager.add_agent("n1", Agent(), {}, s)),
            ("pause", lambda s: manager.pause_agent("n2", 2, s)),
            ("active", manager.get_active_agents),
            ("turn", manager.process_auto_resume),
            ("resume", lambda s: manager.resume_agent("n2", s)),
            ("remove", lambda s: manager.remove_agent("n2", s)),
        ):
            began = time.perf_counter()
            call(state)
            timed(name, began)
    assert max(best.values()) < 0.001, best
