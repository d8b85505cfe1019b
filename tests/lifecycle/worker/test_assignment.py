"""What is sent to a worker is small, holds no secret, and is there what it was here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.errors import ArgumentError, SettingsError
from lifecycle.json_form import decode, encode
from lifecycle.machine import events as on
from lifecycle.machine.states import Preparing, Tally
from lifecycle.past import FACT_BYTES, fitted_fact
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry
from lifecycle.settings import Settings
from lifecycle.worker.assignment import (
    MOST_BYTES,
    NOT_FOR_NAMES,
    Assignment,
    News,
    fitted,
    settings_for,
    travelling,
)
from lifecycle.working_copy import LocalCopy, facts_of
from runtime.masking.masker import Masker

AGENT = "agent-T001"
TOKEN = "ghp_" + "k3J9" * 9


def local_copy(**task: Any) -> LocalCopy:
    made = Task(id="T001", title="Calculator", dependencies=["T000"], **task)
    agent = Agent(agent_id=AGENT, command=("./agent",), env={"API_TOKEN": TOKEN})
    record = AgentLifecycle(
        agent_id=AGENT, task="Calculator", task_id="T001", facts=facts_of(made, agent),
        work=Preparing(tally=Tally(attempt=3)),
    )  # fmt: skip
    local = LocalCopy(record=record, task=made, agent=agent)
    local.note_attempt(AttemptRow(agent_id=AGENT, attempt=2, outcome="crash"))
    return local


def assignment(local: LocalCopy, **more: Any) -> Assignment:
    copy, told = travelling(local), settings_for(Settings(), Masker())
    return Assignment(**{"assignment_id": "a.1", "copy": copy, "settings": told, **more})


def sent(given: Assignment) -> Assignment:
    return decode(Assignment, encode(given))


def test_a_worker_works_on_what_the_coordinator_has() -> None:
    local = local_copy()
    there = sent(assignment(local)).local_copy()
    assert (there.task, there.record, there.ledger) == (local.task, local.record, local.ledger)
    assert (there.agent_id, there.attempt) == (AGENT, 3)


def test_what_a_worker_notes_stays_on_the_worker() -> None:
    given = assignment(local_copy())
    given.local_copy().note_attempt(AttemptRow(agent_id=AGENT, attempt=3))
    assert [row.attempt for row in given.copy.ledger] == [2]


def test_news_bring_a_copy_up_to_date_and_tell_nothing_twice() -> None:
    there = sent(assignment(local_copy())).local_copy()
    entry = JournalEntry(
        agent_id=AGENT, seq=7, at=2.0, event=on.Guided(at=2.0, by="Ada", text="round up"),
        rule="note", before="Preparing", after="Preparing",
    )  # fmt: skip
    newer = replace(there.record, version=5)
    row = AttemptRow(agent_id=AGENT, attempt=3, spawn_id="s")
    news = decode(News, encode(News(record=newer, journal=(entry,), row=row)))
    for _ in range(2):
        news.onto(there)
    assert (there.record, there.seq, there.recent, there.ledger[-1]) == (newer, 7, [entry], row)
    News(record=replace(newer, version=4)).onto(there)
    assert there.record == newer


def test_settings_travel_as_values_without_what_the_coordinator_alone_needs() -> None:
    mine = Settings.model_validate({
        "verify": ["make check"], "on_conflict": "ask", "forge_url": "https://forge.test",
        "github_app_key": "/home/me/key.pem", "worktrees_dir": "/mnt/mine", "stop_grace": 3.5,
        "agent_args": [f"--token={TOKEN}"], "pass_env": ["API_TOKEN"],
    })  # fmt: skip
    masker = Masker()
    masker.learn_from({"API_TOKEN": TOKEN})
    told = assignment(local_copy(), settings=settings_for(mine, masker))
    text = encode(told)
    for secret in (TOKEN, "forge.test", "key.pem", "/mnt/mine"):
        assert secret not in text
    there = sent(told).read_settings()
    assert (there.verify, there.on_conflict) == (("make check",), "ask")
    assert (there.stop_grace, there.pass_env) == (3.5, ("API_TOKEN",))
    assert there.worktrees_dir == there.forge_url == ""


def test_a_setting_of_a_newer_coordinator_is_refused_by_name() -> None:
    told = settings_for(Settings(), Masker()) | {"colour": "red"}
    with pytest.raises(SettingsError, match="colour is not a setting"):
        sent(assignment(local_copy(), settings=told)).read_settings()


def test_an_assignment_of_a_large_plan_is_cut_to_size() -> None:
    many = {f"agent-{number:05}": f"{number:05}" for number in range(9000)}
    small = fitted(assignment(local_copy(), tasks=many))
    most = MOST_BYTES - NOT_FOR_NAMES
    assert most - 100 < len(encode(small)) <= most
    assert small.tasks.items() <= many.items()
    assert fitted(small) is small


def test_a_record_for_which_there_is_no_room_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"cannot be sent to a worker: .*\d bytes more"):
        fitted(assignment(local_copy(description="x" * MOST_BYTES)))


def test_a_fact_about_many_files_with_long_names_is_cut_so_that_it_may_travel() -> None:
    names = tuple(f"\u0444{number}" * 20 for number in range(200))
    fact = on.SnapshotTaken(
        at=1.0, attempt=1, head="h", tree="t", dirty=names, changed_files=names, spawn_id="s-1"
    )
    told = fitted_fact(fact)
    assert len(encode(fact)) > MOST_BYTES
    assert len(encode(told)) <= FACT_BYTES
    assert isinstance(told, on.SnapshotTaken)
    assert (told.at, told.attempt, told.spawn_id) == (1.0, 1, "s-1")
    small = on.SnapshotTaken(at=1.0, attempt=1, head="h", tree="t")
    assert fitted_fact(small) is small
