"""Strategies: any fact, any policy. What is drawn is small, so that walks meet themselves often."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_type_hints

from hypothesis import strategies as st

from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import Gate, Word
from tests.machine.playbook import PROCESS

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

TASKS = ("T000", "T001")

some_tasks = st.lists(st.sampled_from(TASKS), unique=True, max_size=2).map(tuple)

words = st.builds(
    Word,
    type=st.sampled_from(["task_complete", "blocked", "pr_created", "question"]),
    summary=st.sampled_from(["", "done so far"]),
    blocked_on=some_tasks,
    reason=st.sampled_from(["", "no key"]),
    pr_url=st.sampled_from(["", "local://pr/1", "local://pr/2"]),
)

gates = st.lists(
    st.builds(Gate, command=st.just("pytest"), ok=st.booleans(), code=st.sampled_from([0, 1, None])),
    max_size=2,
).map(tuple)

policies = st.builds(
    Policy,
    max_retries=st.integers(1, 5),
    max_attempts=st.integers(1, 8),
    retry_interval=st.sampled_from([0.0, 30.0]),
    retry_interval_cap=st.sampled_from([10.0, 600.0]),
    blocked_timeout=st.sampled_from([1.0, 86_400.0]),
    pr_merge_timeout=st.sampled_from([1.0, 3600.0]),
    stuck_limit=st.integers(2, 4),
    max_faults=st.integers(0, 3),
    has_gates=st.booleans(),
    review_summaries=st.booleans(),
    seed=st.integers(0, 9),
)

BY_NAME: dict[str, SearchStrategy[Any]] = {
    "at": st.just(0.0),
    "attempt": st.just(0),
    "task_id": st.sampled_from(TASKS),
    "ci": st.sampled_from(["", "none", "pending", "green", "red"]),
    "sha": st.sampled_from(["", "h1", "h2"]),
    "head": st.sampled_from(["h1", "h2"]),
    "tree": st.sampled_from(["", "t1", "t2"]),
    "url": st.sampled_from(["", "local://pr/1", "local://pr/2"]),
    "number": st.integers(1, 2),
    "problem": st.sampled_from(["", "", "no space"]),
    "exit_code": st.sampled_from([None, 0, 1]),
    "signal": st.sampled_from([None, 9]),
    "word": words,
    "done": some_tasks,
    "open": some_tasks,
    "dirty": st.sampled_from([(), (), ("a.py",)]),
    "gates": gates,
    "baseline": gates,
    "process": st.just(PROCESS),
}
BY_TYPE: dict[Any, SearchStrategy[Any]] = {
    str: st.sampled_from(["", "some text"]),
    bool: st.booleans(),
    int: st.integers(0, 2),
    on.Fault: st.sampled_from(on.Fault),
    on.PrFate: st.sampled_from(on.PrFate),
    Word | None: st.none() | words,
    tuple[str, ...]: st.sampled_from([(), ("a.py",)]),
}


def facts(kind: type[on.Event]) -> SearchStrategy[on.Event]:
    """Draw any event of one kind; instant and attempt are to be set by who tells it."""
    hints = get_type_hints(kind)
    drawn = {}
    for field in fields(kind):
        known = BY_TYPE.get(hints[field.name])
        if known is None or (field.name in BY_NAME and hints[field.name] is not bool):
            known = BY_NAME[field.name]
        if hints[field.name] == Word | None:
            known = st.none() | words
        drawn[field.name] = known
    return st.builds(kind, **drawn)
