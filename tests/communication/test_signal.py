"""How an agent signals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from communication.errors import CommunicationError, MailboxError, SignalError
from communication.mailbox import ReadingKind
from communication.signal import REMARKS, signal
from communication.words import LONGEST_REPLY, MOST_REPLIES
from tests.communication.hearing import AGENT, mail, read

if TYPE_CHECKING:
    from pathlib import Path


def test_every_type_is_read_back_as_the_signal_it_was_meant_to_be(env: dict[str, str]) -> None:
    for kind, state in (
        ("task_complete", "complete"),
        ("blocked", "blocked"),
        ("pr_created", "pr_created"),
        ("question", "question"),
    ):
        path = signal(
            env,
            kind,
            summary="all of it",
            blocked_on=["T002", "a key"],
            reason="waiting",
            pr_url="local://pr/1",
            question="which key?",
        )
        reading = read(path, spawn_id="spawn-7", task_id="T001")
        assert reading.kind is ReadingKind.SIGNAL, reading.problem
        assert reading.entry is not None
        assert reading.entry.lifecycle_state == state
        word = reading.breakpoint
        assert word is not None
        assert (word.type, word.summary, word.blocked_on) == (kind, "all of it", ("T002", "a key"))
        assert (word.reason, word.pr_url, word.question) == (
            "waiting",
            "local://pr/1",
            "which key?",
        )
        assert read(path, spawn_id="spawn-8").kind is ReadingKind.STALE


def test_each_signal_counts_on_and_keeps_what_else_is_in_the_file(
    env: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "communications.json"
    path.write_text(mail(_meta={"v": 1}, other={"x": 1}, **{AGENT: {"mission": "all"}}))
    signal(env, "blocked", blocked_on="T002")
    signal(env, "task_complete")
    found = json.loads(path.read_text())
    assert found["_meta"] == {"v": 1}
    assert found["other"] == {"x": 1}
    assert found[AGENT]["mission"] == "all"
    assert found[AGENT]["breakpoint"] == {
        "type": "task_complete",
        "task_id": "T001",
        "spawn_id": "spawn-7",
        "seq": 2,
    }


def test_missing_variables_are_named_with_what_to_do(env: dict[str, str]) -> None:
    del env["LOOPWRIGHT_SPAWN_ID"]
    env["LOOPWRIGHT_AGENT_ID"] = ""
    with pytest.raises(SignalError, match="LOOPWRIGHT_AGENT_ID, LOOPWRIGHT_SPAWN_ID") as caught:
        signal(env, "task_complete")
    assert "inside an agent's process" in str(caught.value)
    assert isinstance(caught.value, CommunicationError)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("finished", "use one of: task_complete"), ("blocked", "blocked_on"), ("question", "text")],
)
def test_a_signal_that_could_not_be_read_is_refused_before_it_is_written(
    env: dict[str, str], tmp_path: Path, kind: str, reason: str
) -> None:
    with pytest.raises(SignalError, match=reason):
        signal(env, kind)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("itself", ["T001", AGENT])
def test_nothing_is_blocked_on_itself(env: dict[str, str], tmp_path: Path, itself: str) -> None:
    with pytest.raises(SignalError, match="is this very task"):
        signal(env, "blocked", blocked_on=["T002", itself])
    assert list(tmp_path.iterdir()) == []
    path = signal(env, "blocked", blocked_on=["T002"])
    path.write_text(path.read_text().replace("T002", itself))
    reading = read(path, spawn_id="spawn-7", task_id="T001")
    assert reading.kind is ReadingKind.INVALID
    assert "is this very task" in reading.problem


def test_arguments_that_are_no_unicode_are_written_readably(env: dict[str, str]) -> None:
    reading = read(signal(env, "task_complete", summary="caf\udce9 ready"))
    assert reading.breakpoint is not None
    assert reading.breakpoint.summary == "caf? ready"


def test_a_folder_that_does_not_exist_is_named(env: dict[str, str], tmp_path: Path) -> None:
    env["LOOPWRIGHT_COMM_FILE"] = str(tmp_path / "gone" / "communications.json")
    with pytest.raises(MailboxError, match="folder must exist"):
        signal(env, "task_complete")


def test_replies_are_for_remarks_that_the_agent_was_told(env: dict[str, str]) -> None:
    env[REMARKS] = "r1abc r2def"
    path = signal(env, "pr_created", replies=[("r2def", "Done."), (" r1abc ", "No: \udce9")])
    reading = read(path, spawn_id="spawn-7", task_id="T001")
    assert reading.breakpoint is not None
    assert reading.breakpoint.replies == {"r2def": "Done.", "r1abc": "No: ?"}


@pytest.mark.parametrize(
    ("kind", "replies", "reason"),
    [
        ("pr_created", [("r9", "x")], "no remark 'r9' .* the summary names r1abc, r2def"),
        ("pr_created", [("r1abc", " ")], "'r1abc' is empty"),
        ("pr_created", [("r1abc", "x"), (" r1abc", "y")], "two replies to remark 'r1abc'"),
        (
            "task_complete",
            [("r1abc", "x" * (LONGEST_REPLY + 1))],
            "4,001 characters, at most 4,000",
        ),
        ("task_complete", [(f"r{n}", "x") for n in range(MOST_REPLIES + 1)], "at most 50"),
        ("question", [("r1abc", "x")], "with task_complete or pr_created, not with question"),
    ],
)
def test_a_reply_that_could_not_be_posted_is_refused_at_once(
    env: dict[str, str], tmp_path: Path, kind: str, replies: list[tuple[str, str]], reason: str
) -> None:
    env[REMARKS] = "r1abc r2def"
    with pytest.raises(SignalError, match=reason):
        signal(env, kind, question="Which?", replies=replies)
    assert list(tmp_path.iterdir()) == []


def test_who_was_told_no_remark_has_none_to_reply_to(env: dict[str, str]) -> None:
    with pytest.raises(SignalError, match="the summary names no remark"):
        signal(env, "pr_created", replies=[("r1abc", "Done.")])
