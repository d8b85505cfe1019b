"""What a real runner tells: each reason once, also over restarts, and a digest at the end."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestrator.loopkit import ASK, BLOCK, DONE, World, of_store, until
from tests.orchestrator.notify.receivers import told
from tests.orchestrator.web.browser import programs

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore

FAILS = {"attempts": {"default": [{"exit": 1}]}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.settings(
        "retry_interval = 0.1\nstop_grace = 0.3\nbreakpoint_check_interval = 0.1\n"
        f'[[notify]]\nname = "file"\ncommand = "cat >> {tmp_path}/told.jsonl"\n'
    )
    return made


def of(world: World, *names: str) -> list[dict[str, Any]]:
    """Return what was told of these types."""
    found = told(world.folder / "told.jsonl")
    return [each for each in found if not names or each["type"] in names]


def text_of(each: dict[str, Any]) -> str:
    return f"{each['type']}.{each['reason']} {each['task_id']}"


async def waiting(store: SqliteStore) -> tuple[str, ...]:
    return await store.notifications.channels_waiting()


def test_a_person_is_reminded_of_a_pull_request_that_nobody_merges(world: World) -> None:
    toml = world.repo / "loopwright.toml"
    toml.write_text(f"pr_reminder = 0.5\n{toml.read_text()}")
    steps = [{"write": "a"}, {"commit": "A"}, {"breakpoint": "pr_created"}]
    agent = world.script("agent", {"attempts": {"1": steps, "default": [DONE]}})
    with world.live("run", "x", "--command", agent) as runner:
        reminders = until(
            lambda: len(found := of(world, "needs_you")) > 1 and found, lambda: of(world)
        )
        assert {each["reason"] for each in reminders} == {"pr_timeout"}
        assert "waits for its merge since" in reminders[0]["text"]
        assert "you are reminded of it at" in world.call("show", "T001", "--why").stdout
        world.call("pr", "merge", "1")
        runner.ends(0)


def test_a_night_is_told_reason_by_reason_and_once(world: World) -> None:
    plan = world.plan_of(
        {
            "T01": {"attempts": {"1": [ASK], "default": [DONE]}},
            "T02": {"attempts": {"default": [BLOCK]}},
            "T03": FAILS,
            "T04": {"attempts": {"default": [DONE]}},
        },
        {"T03": {"max_retries": 0}},
    )
    wanted = {"needs_you.question T01", "needs_you.blocked T02", "given_up.max_retries T03"}
    with world.live("up", plan, "--no-server"):
        until(lambda: wanted <= set(map(text_of, of(world))), lambda: of(world))
        (digest,) = until(lambda: of(world, "all_done"), lambda: of(world))
    assert "1 done, waiting for your decision (T04)" in digest["text"]
    assert "2 waiting for you (T01, T02)" in digest["text"]
    assert "1 given up (T03)" in digest["text"]
    (question,) = [each for each in of(world) if each["reason"] == "question"]
    assert question["text"] == "T01 asks: Blue or green?"
    assert question["command"].startswith("loopwright answer")
    assert question["url"] == ""

    with world.live("up", "--no-server"):
        world.call("answer", "T01", "green")
        until(lambda: len(of(world, "all_done")) == 2, lambda: of(world))
    everything = list(map(text_of, of(world, "needs_you", "given_up")))
    assert sorted(everything) == sorted(wanted)
    assert not of(world, "runner_stopped")
    listed = world.json("notify", "list")
    assert len(listed["items"]) == 5
    assert {send["state"] for each in listed["items"] for send in each["sends"]} == {"sent"}
    (channel,) = listed["channels"]
    assert (channel["name"], channel["sent"], channel["failing_since"]) == ("file", 5, None)


def test_a_budget_is_told_at_four_fifths_and_when_it_is_used_up(world: World) -> None:
    agent = world.script("agent", FAILS)
    args = ("run", "Do it", "--task-id", "T001", "--command", agent)
    text = (world.repo / "loopwright.toml").read_text()
    world.settings("budget_attempts = 5\nstuck_limit = 0\n" + text)
    world.call(*args, "--no-stay", code=None)
    found = of(world, "budget")
    assert [each["reason"] for each in found] == ["80", "100"]
    assert "4 of 5 attempts" in found[0]["text"]
    assert found[0]["command"] == "loopwright costs"
    assert not of(world, "given_up")


def test_a_channel_that_fails_holds_up_nothing(world: World) -> None:
    text = (world.repo / "loopwright.toml").read_text()
    world.settings(text + '\n[[notify]]\nname = "broken"\ncommand = "exit 7"\n')
    agent = world.script("agent", {"attempts": {"default": [DONE]}})
    done = world.call("run", "Do it", "--task-id", "T001", "--command", agent)
    assert "broken" in done.stderr
    assert [each["type"] for each in of(world)] == ["all_done"]
    assert of_store(world.repo, waiting) == ("broken",)
    checks = {each["what"]: each for each in world.json("doctor", code=None)["checks"]}
    assert checks["notify broken"]["level"] == "warn"
    assert "failing since" in world.call("notify", "list").stdout


def test_no_secret_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2hunter2hunter2"  # noqa: S105  # of nobody
    monkeypatch.setenv("MY_API_KEY", secret)
    text = (world.repo / "loopwright.toml").read_text()
    world.settings('pass_env = ["MY_API_KEY"]\n' + text)
    ask = {"breakpoint": {"type": "question", "question": f"Is {secret} right?"}}
    agent = world.script("agent", {"attempts": {"default": [ask]}})
    world.call("run", "Do it", "--task-id", "T001", "--command", agent, "--no-stay", code=3)
    (question,) = of(world, "needs_you")
    assert secret not in str(of(world))
    assert "Is ***" in question["text"]


def test_a_runner_that_was_killed_is_told_of_by_the_next_one(world: World) -> None:
    agent = world.script("agent", {"attempts": {"default": [ASK]}})
    with world.live("run", "Do it", "--task-id", "T001", "--command", agent) as live:
        until(lambda: of(world, "needs_you"), "the question is told")
        until(lambda: not of_store(world.repo, waiting), "and noted")
        live.process.kill()
        live.process.wait()
    with world.live("up", "--no-server"):
        (stopped,) = until(lambda: of(world, "runner_stopped"), lambda: of(world))
    assert "killed" in stopped["text"]
    assert len(of(world, "needs_you")) == 1


def test_what_was_there_before_is_not_told(world: World) -> None:
    agent = world.script("agent", {"attempts": {"default": [ASK]}})
    world.call("run", "Do it", "--task-id", "T001", "--command", agent, "--no-stay", code=3)
    (world.folder / "told.jsonl").unlink()

    async def forget(store: SqliteStore) -> None:
        for key in await store.all("notify"):
            await store.remove("notify", key)

    of_store(world.repo, forget)
    world.call("up", "--no-server", "--no-stay", code=3)
    assert [each["type"] for each in of(world)] == []


def test_a_usage_limit_is_told_when_it_is_met_and_when_it_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = {"attempts": {"1": programs.codex_is_limited(), "default": [DONE]}}
    places = programs.install(world.folder, {"T01": limited, "T02": limited})
    monkeypatch.setenv("PATH", f"{places}{os.pathsep}{os.environ['PATH']}")
    text = (world.repo / "loopwright.toml").read_text()
    world.settings(f"limit_interval = 0.3\n{text}")
    plan = {
        "agents": {"codex": {"adapter": "codex"}},
        "tasks": [{"id": each, "agent": "codex"} for each in ("T01", "T02")],
    }
    world.call("up", world.plan(json.dumps(plan), "plan.json"), "--no-server", "--no-stay")
    found = of(world, "usage_limit")
    assert [each["reason"] for each in found] == ["met", "over"]
    assert "usage limit of codex is reached; work continues by itself at" in found[0]["text"]
    assert len(of(world, "all_done")) == 1


def test_a_budget_that_tasks_share_is_told_once(world: World) -> None:
    text = (world.repo / "loopwright.toml").read_text()
    world.settings("plan_budget_attempts = 5\nday_budget_attempts = 10\n" + text)
    plan = world.plan_of({f"T{n}": {"attempts": {"default": [DONE]}} for n in range(1, 9)})
    world.call("up", plan, "--no-server", "--no-stay", code=None)
    found = of(world, "budget")
    assert [(each["reason"], each["task_id"]) for each in found] == [("80", ""), ("100", "")]
    assert "the budget of the plan" in found[0]["text"]
    assert "4 of 5 attempts" in found[0]["text"]


def test_who_waits_for_a_task_that_goes_on_needs_nobody_after_a_restart(world: World) -> None:
    go = world.folder / "go"
    waits = {"breakpoint": {"type": "blocked", "reason": "its work", "blocked_on": ["T02"]}}
    plan = world.plan_of(
        {
            "T01": {"attempts": {"1": [waits], "default": [DONE]}},
            "T02": {"attempts": {"default": [{"wait_file": str(go)}, DONE]}},
        }
    )
    with world.live("up", plan, "--no-server") as runner:
        world.comes_to("Blocked", "agent-T01")
        world.comes_to("Working", "agent-T02")
        runner.process.kill()
        runner.process.wait()
    with world.live("up", plan, "--no-server"):
        until(lambda: of(world, "runner_stopped"), lambda: of(world))
        go.touch()
        until(lambda: of(world, "all_done"), lambda: of(world))
    assert not of(world, "needs_you")
