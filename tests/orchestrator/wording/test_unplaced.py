"""What is missing that a worker takes a lifecycle is said, and what a person does about it."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.store.rows.workers import WorkerRow
from orchestrator.wording.unplaced import missing

NOW = 1_000_000.0


def worker(name: str, **more: Any) -> WorkerRow:
    given = {"machine": "m", "version": "1", "slots": 1, "lease": 60.0, "seen_at": NOW - 1.0}
    return WorkerRow(**{"name": name, **given, **more})


A, B = worker("a", programs=("codex",)), worker("b", labels=("gpu",), programs=("claude",))
GONE = worker("c", labels=("gpu",), seen_at=NOW - 300.0)
LEAVES = worker("d", labels=("gpu",), draining=True)


@pytest.mark.parametrize(
    ("known", "asking", "label", "said"),
    [
        ((), (), "", "no worker is up: begin one with `loopwright worker --name NAME`"),
        ((A,), (), "gpu", "no worker with the label gpu is up: begin one with"),
        ((A,), (), "gpu", "`loopwright worker --name NAME --label gpu`"),
        ((A, GONE), (), "gpu", "(c was last heard of at "),
        ((A, LEAVES), (), "gpu", "(d takes no new work)"),
        ((GONE,), ("c",), "gpu", "no worker with the label gpu is up"),
    ],
)
def test_who_is_missing_is_named(
    known: tuple[WorkerRow, ...], asking: tuple[str, ...], label: str, said: str
) -> None:
    assert said in missing(known, asking, NOW, label=label)


def test_a_program_that_no_worker_has_is_named_with_those_that_lack_it() -> None:
    said = missing((A, B), (), NOW, programs=("kimi", "gemini"))
    assert "no worker has the agent program kimi or gemini (not there: a, b)" in said


def test_what_every_worker_refuses_is_told_with_their_reasons() -> None:
    a = worker("a", lacks=("refused agent-T001: colour is not a setting",))
    b = worker("b", lacks=("refused agent-T001: the disk is full",))
    said = missing((a, b), ("a", "b"), NOW, agent_id="agent-T001")
    assert said == ("every worker refuses it: a: colour is not a setting, b: the disk is full")
    assert not missing((a, B), (), NOW, agent_id="agent-T001")
    assert not missing((a, b), (), NOW, agent_id="agent-T002")


@pytest.mark.parametrize(
    ("known", "asking", "label", "programs"),
    [
        ((A,), (), "", ()),
        ((), ("unknown",), "", ("claude",)),
        ((A, B), (), "gpu", ("claude",)),
        ((A, B), (), "", ("claude", "codex")),
        ((A,), ("unknown",), "gpu", ("claude",)),
    ],
)
def test_nothing_is_said_where_a_worker_may_take_it(
    known: tuple[WorkerRow, ...], asking: tuple[str, ...], label: str, programs: tuple[str, ...]
) -> None:
    assert not missing(known, asking, NOW, label=label, programs=programs)
