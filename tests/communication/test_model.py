"""The forms of an entry, and their JSON schema."""

from __future__ import annotations

import subprocess
import sys

import pytest

from communication.model import Breakpoint, BreakpointType, MailboxEntry, mailbox_schema


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("complete", "task_complete"),
        ("completed", "task_complete"),
        ("Done", "task_complete"),
        ("task-complete", "task_complete"),
        ("blocked", "blocked"),
        ("pr", "pr_created"),
        ("PR created", "pr_created"),
        ("waiting", "question"),
        ("question", "question"),
        (None, "blocked"),
        ("", "question"),
    ],
)
def test_words_that_mean_the_same_fit_together(state: str | None, kind: str) -> None:
    said = {"type": kind, "reason": "no key", "question": "which key?"}
    entry = MailboxEntry.model_validate({"lifecycle_state": state, "breakpoint": said})
    assert entry.breakpoint is not None
    assert entry.breakpoint.type is BreakpointType(kind)


def test_one_blocker_may_stand_alone_and_nulls_mean_nothing() -> None:
    one = Breakpoint.model_validate({"type": "blocked", "blocked_on": "T002", "summary": None})
    assert one.blocked_on == ("T002",)
    assert one.summary == ""
    none = Breakpoint.model_validate(
        {"type": "task_complete", "blocked_on": None, "spawn_id": "", "unknown": 1}
    )
    assert none.blocked_on == ()
    assert none.spawn_id is None


def test_free_words_are_read_however_they_are_written_and_unknown_ones_are_kept() -> None:
    entry = MailboxEntry.model_validate(
        {
            "mission": None,
            "working_on": 5,
            "done": "the parser",
            "next": ["the lexer", None, 3],
            "requests": [["agent-2", "review"], "anyone there?"],
            "added": [["agent-3", "yes", "may I?"], "from nobody", ["agent-4", "no"]],
            "mood": {"today": "fine"},
        }
    )
    assert entry.mission == ""
    assert entry.working_on == "5"
    assert entry.done == ("the parser",)
    assert entry.next == ("the lexer", "3")
    assert entry.requests == (("agent-2", "review"), ("*", "anyone there?"))
    assert entry.added == (
        ("agent-3", "yes", "may I?"),
        ("", "from nobody", ""),
        ("agent-4", "no", ""),
    )
    assert entry.model_extra == {"mood": {"today": "fine"}}


def test_the_schema_describes_every_field_and_needs_nothing_but_the_type() -> None:
    schema = mailbox_schema()
    assert schema["type"] == "object"
    definitions = schema["$defs"]
    assert schema["additionalProperties"] == {"$ref": "#/$defs/MailboxEntry"}
    assert set(definitions["Breakpoint"]["properties"]) == set(Breakpoint.model_fields)
    assert definitions["Breakpoint"]["required"] == ["type"]
    assert set(definitions["MailboxEntry"]["properties"]) == set(MailboxEntry.model_fields)
    assert "required" not in definitions["MailboxEntry"]
    assert definitions["BreakpointType"]["enum"] == list(BreakpointType)


def test_what_agents_start_often_does_not_load_what_it_does_not_need() -> None:
    heavy = "{'pydantic', 'watchfiles', 'asyncio', 'dataclasses', 'inspect'}"
    code = f"import sys, communication.signal; sys.exit(str({heavy} & set(sys.modules) or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_replies_written_by_hand_are_held_to_the_same_limits() -> None:
    assert Breakpoint.model_validate({"type": "pr_created", "replies": None}).replies == {}
    told = Breakpoint.model_validate({"type": "task_complete", "replies": {"r1": "Done."}})
    assert told.replies == {"r1": "Done."}
    for wrong in ({"r1": ""}, {"r1": 5}, ["r1"], {f"r{n}": "x" for n in range(51)}):
        with pytest.raises(ValueError, match=r"repl(y|ies)|string|dictionary"):
            Breakpoint.model_validate({"type": "pr_created", "replies": wrong})
    with pytest.raises(ValueError, match="not with blocked"):
        Breakpoint.model_validate({"type": "blocked", "reason": "x", "replies": {"r1": "x"}})
