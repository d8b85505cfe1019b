"""What people ask of a lifecycle, of a live runner and of a stopped repository."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import ASK, BLOCK, DONE, until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.orchestrator.loopkit import World

WRITE = {"write": {"path": "a.txt", "text": "theirs\n"}}
QUICK_TO_BLOCK = "blocked_timeout = 0.2\nretry_interval = 0.1\nstop_grace = 0.3\n"


def _begun(world: World, first: Mapping[str, object], *later: Mapping[str, object]) -> None:
    """Leave agent-T001 where its first attempt's word left it, with no runner alive."""
    world.settings(QUICK_TO_BLOCK)
    steps = {"attempts": {"1": [WRITE, {"commit": "A"}, first],
                          "default": [*later, DONE]}}  # fmt: skip
    world.call("run", "x", "--command", world.script("agent", steps), code=None)


# --- a stopped repository ---------------------------------------------------------------------


def test_accept_merges_into_the_base_and_says_as_which_commit(world: World) -> None:
    _begun(world, DONE)
    said = world.call("accept", "agent-T001").stdout
    commit = world.git("rev-parse", "--short=7", "main")
    assert said == f"agent-T001: accepted, merged into main as {commit}\n"
    assert (world.repo / "a.txt").exists()
    assert world.branches() == ["main"]
    again = world.json("accept", "agent-T001")
    assert (again["changed"], again["state"]) == (False, "accepted")
    assert "already accepted" in again["text"]


def test_accept_with_a_conflict_changes_nothing_and_names_the_file(world: World) -> None:
    _begun(world, DONE)
    world.settings(QUICK_TO_BLOCK + 'on_conflict = "ask"\n')
    (world.repo / "a.txt").write_text("mine\n")
    world.git("add", "-A")
    world.git("commit", "-qm", "Mine")
    before = world.git("rev-parse", "main")
    done = world.call("accept", "agent-T001", code=3)
    assert "not merged: agent/agent-T001 and main both changed a.txt" in done.stdout
    assert "loopwright guide agent-T001" in done.stderr
    assert world.git("rev-parse", "main") == before
    assert world.row()["work_kind"] == "Completed"


@pytest.mark.parametrize("left", [BLOCK, {"exit": 1}], ids=["blocked", "given up"])
def test_reject_removes_the_workspace_and_says_under_which_ref_the_work_is_kept(
    world: World, left: Mapping[str, object]
) -> None:
    world.settings(QUICK_TO_BLOCK)
    agent = world.script("agent", [WRITE, {"commit": "A"}, left])
    world.call("run", "x", "--command", agent, "--max-retries", "0", code=None)
    head = world.git("rev-parse", "agent/agent-T001")
    found = world.json("reject", "agent-T001", "--why", "too late", "--by", "Ada")
    assert found["text"].startswith("rejected: workspace and branch are removed, its work is kept")
    assert "refs/loopwright/saved/agent-T001/" in found["text"]
    assert head in {world.git("rev-parse", ref) for ref in found["saved_refs"]}
    assert world.branches() == ["main"]
    assert world.row()["error"].startswith("rejected by Ada: too late")
    assert "was rejected before" in world.call("reject", "agent-T001").stdout


def test_pause_holds_and_resume_releases(world: World) -> None:
    _begun(world, BLOCK)
    assert "paused; continue with" in world.call("pause", "agent-T001").stdout
    again = world.call("pause", "agent-T001", code=2).stderr
    assert "is paused already; continue with: loopwright resume agent-T001" in again
    assert world.row()["work_kind"] == "Suspended"
    assert world.json("up", code=3)["held"] == ["agent-T001"]
    world.call("resume", "agent-T001")
    assert world.row()["work_kind"] == "Blocked"
    again = world.call("resume", "agent-T001", code=2).stderr
    assert "is stopped because no runner is alive; start it with: loopwright up" in again


def test_what_cannot_be_is_refused_with_the_reason(world: World) -> None:
    _begun(world, ASK)
    for command, told in (
        (("accept", "agent-T001"), "only completed work can be accepted"),
        (("accept", "T001"), "agent-T001 needs you"),
        (("stop", "agent-T0O1"), "did you mean agent-T001?"),
        (("guide", "agent-T001", " "), "say something"),
    ):
        assert told in world.call(*command, code=2).stderr
    world.call("answer", "agent-T001", "green")
    world.call("up")
    assert "is done; only an open" in world.call("answer", "agent-T001", "x", code=2).stderr
    for verb in ("resume", "pause", "stop"):
        refused = world.call(verb, "agent-T001", code=2).stderr
        assert f"agent-T001 is done; there is nothing to {verb}" in refused
    world.call("accept", "agent-T001")
    for verb in ("resume", "pause", "stop", "unblock"):
        assert "agent-T001 is accepted; " in world.call(verb, "agent-T001", code=2).stderr


def test_an_accept_of_an_unknown_name_is_refused_logged_and_audited(world: World) -> None:
    _begun(world, DONE)
    refused = world.call("accept", "agent-T001", "agent-T0O1", "--by", "Ada", code=2)
    assert "there is no lifecycle 'agent-T0O1'" in refused.stderr
    (entry,) = [each for each in world.json("audit", "list") if each["subject"] == "agent-T0O1"]
    assert (entry["action"], entry["actor"], entry["outcome"]) == ("accept", "Ada", "refused")
    log = (world.repo / ".loopwright" / "runner.log").read_text().splitlines()
    events = [json.loads(line) for line in log if "agent-T0O1" in line]
    assert [(each["event"], each["operation"]) for each in events] == [
        ("lifecycle_validation_failed", "accept_agent")
    ]


def test_why_somebody_asked_for_something_stands_in_journal_audit_and_show(world: World) -> None:
    _begun(world, BLOCK)
    asked = {
        "pause": ("suspend", "the key is late"),
        "resume": ("resume", "it came"),
        "stop": ("stop", "wrong key"),
        "unblock": ("unblock", "it is here now"),
        "accept": ("accept", "well done"),
    }
    world.call("pause", "agent-T001", "--why", asked["pause"][1], "--by", "Ada")
    shown = world.call("show", "agent-T001", "--why").stdout
    assert "by Ada (the key is late)" in shown
    world.call("resume", "agent-T001", "--why", asked["resume"][1])
    world.call("stop", "agent-T001", "--why", asked["stop"][1])
    world.call("unblock", "agent-T001", "--why", asked["unblock"][1])
    world.call("resume", "agent-T001")
    world.call("up")
    world.call("accept", "agent-T001", "--why", asked["accept"][1])
    journal = world.call("events", "agent-T001").stdout
    audit = {(each["action"], each["reason"]) for each in world.json("audit", "list")}
    for action, why in asked.values():
        assert why in journal
        assert (action, why) in audit


# --- a live runner ----------------------------------------------------------------------------


def test_a_live_loop_is_paused_resumed_answered_and_guided(world: World) -> None:
    hold = {"wait_file": str(world.folder / "go")}
    steps = {"attempts": {"1": [hold, ASK], "2": [{"read_prompt": str(world.folder / "prompt")},
                          DONE]}}  # fmt: skip
    with world.live("run", "x", "--command", world.script("agent", steps)) as runner:
        world.comes_to("Working")
        assert "will be paused after attempt 1" in world.call("pause", "agent-T001").stdout
        again = world.call("pause", "agent-T001", code=2).stderr
        assert "is working (attempt 1); it will be paused after this attempt already" in again
        assert "noted for the next" in world.call("guide", "agent-T001", "Be brief").stdout
        (world.folder / "go").touch()
        world.comes_to("Suspended")
        assert world.call("resume", "agent-T001").stdout == "agent-T001: resumed\n"
        world.comes_to("AwaitingHuman")
        assert world.call("answer", "agent-T001", "green").stdout.startswith("agent-T001: answered")
        runner.ends(0)
    prompt = (world.folder / "prompt").read_text()
    assert "Be brief" in prompt
    assert "green" in prompt


def test_stop_ends_a_live_attempt_keeps_its_work_and_ends_the_run(world: World) -> None:
    agent = world.script(
        "agent", {"attempts": {"1": [{"write": "half.txt"}, {"hang": {}}], "default": [DONE]}}
    )
    with world.live("run", "x", "--command", agent) as runner:
        world.comes_to("Working")
        until((world.workspace() / "half.txt").exists, "it is at work")
        world.call("stop", "agent-T001", "--by", "Ada")
        assert "stopped" in runner.ends(3)
        assert "a stop is asked for by Ada" in runner.err
    row = world.row()
    assert (row["work_kind"], row["retry_count"]) == ("Suspended", 0)
    assert world.git("for-each-ref", "refs/loopwright/saved/agent-T001")


def test_reject_ends_a_live_attempt_for_good(world: World) -> None:
    with world.live("run", "x", "--command", world.script("agent", [{"hang": {}}])) as runner:
        world.comes_to("Working")
        assert "rejected" in world.call("reject", "agent-T001", "--why", "no").stdout
        runner.ends(6)
    assert world.branches() == ["main"]


def test_a_local_pull_request_is_merged_by_the_live_runner_that_waits_for_it(
    world: World,
) -> None:
    steps = {
        "attempts": {
            "1": [{"write": "a.txt"}, {"commit": "A"}, {"breakpoint": "pr_created"}],
            "default": [DONE],
        }
    }
    with world.live("run", "x", "--command", world.script("agent", steps)) as runner:
        world.comes_to("PrPending")
        until(lambda: "agent/agent-T001" in world.call("pr", "list").stdout, "it is listed")
        assert "pull request 1 is merged" in world.call("pr", "merge", "1").stdout
        runner.ends(0)
    assert (world.repo / "a.txt").exists()
    assert world.json("pr", "list")["pull_requests"][0]["state"] == "merged"


def test_a_local_pull_request_is_merged_or_closed_on_a_stopped_repository(world: World) -> None:
    world.settings('pr_merge_timeout = 0.3\nstop_grace = 0.3\ntest_command = "test ! -e bad"\n')
    steps = [{"write": "bad"}, {"commit": "A"}, {"breakpoint": "pr_created"}]
    agent = world.script("agent", {"attempts": {"1": steps, "default": [BLOCK]}})
    world.call("run", "x", "--command", agent, "--max-retries", "0", code=None)
    assert "not green" in world.call("pr", "merge", "1", code=3).stdout
    assert world.call("pr", "close", "1").stdout == "pull request 1 is closed\n"
    assert "there is no local pull request 7" in world.call("pr", "merge", "7", code=3).stdout


def test_a_runner_of_another_task_does_not_start_what_was_released_and_that_is_said(
    world: World,
) -> None:
    _begun(world, BLOCK)
    with world.live("run", "y", "--command", world.script("other", [{"hang": {}}])):
        world.comes_to("Working", "agent-T002")
        assert "(loopwright run y) does not run it" in world.call("unblock", "agent-T001").stdout
    assert world.row()["work_kind"] == "BackingOff"


def test_an_open_question_is_not_unblocked_without_an_answer(world: World) -> None:
    with world.live("run", "x", "--command", world.script("agent", [ASK])) as runner:
        world.comes_to("AwaitingHuman")
        refused = world.call("unblock", "agent-T001", code=2)
        assert 'loopwright answer agent-T001 "TEXT"' in refused.stderr
        runner.signal(signal.SIGINT)
        runner.ends(130)


def test_a_summary_calls_an_uncommitted_file_new_or_modified_as_it_is(world: World) -> None:
    edits = [
        {"write": {"path": "wip.txt", "text": "x"}},
        {"write": {"path": "README.md", "text": "y"}},
    ]
    agent = world.script("agent", [*edits, ASK])
    world.settings("blocked_timeout = 0.2\nstop_grace = 0.3\n")
    world.call("run", "x", "--command", agent, code=3)
    told = world.call("summary", "agent-T001").stdout
    assert "- new `wip.txt`" in told
    assert "- modified `README.md`" in told


def test_a_next_attempt_is_held_until_its_summary_is_read(world: World) -> None:
    world.call("run", "a", "--command", world.script("agent", [ASK]), code=None)
    agent = world.json("ps")["lifecycles"][0]["agent_id"]

    assert "paused" in world.call("summary", "hold", agent, "--by", "Ada").stdout

    why = world.call("show", agent, "--why").stdout
    assert "Ada" in why
    assert "its summary is to be read first" in why
    world.call("resume", agent)
