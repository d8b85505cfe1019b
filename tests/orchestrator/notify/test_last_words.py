"""What is told around the end of a runner: nothing is lost by it, and no channel holds it up."""

from __future__ import annotations

import shutil
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.notify.outbox import PATIENCE
from tests.orchestrator.loopkit import ASK, DONE, SETTINGS, World, of_store, until
from tests.orchestrator.notify.receivers import receiver, told

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore

STORING = "before notification is stored"
FAILS = {"attempts": {"default": [{"exit": 1}]}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.settings(f"{SETTINGS}{to_file(made)}")
    return made


def to_file(world: World, more: str = "") -> str:
    return f'[[notify]]\nname = "file"\ncommand = "cat >> {world.folder}/told.jsonl"\n{more}'


def of(world: World, *names: str) -> list[dict[str, Any]]:
    found = told(world.folder / "told.jsonl")
    return [each for each in found if not names or each["type"] in names]


def run(world: World, script: object) -> tuple[str, ...]:
    return "run", "Do it", "--task-id", "T001", "--command", world.script("agent", script)


async def listed(store: SqliteStore) -> list[str]:
    return [each.type for _, each, _ in await store.notifications.list()]


@pytest.mark.parametrize("kind", ["webhook", "mail", "command"])
def test_a_channel_that_hangs_does_not_hold_up_a_runner_that_is_told_to_end(
    world: World, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        channel = {
            "webhook": f'webhook = "http://127.0.0.1:{port}/"\nsecret = "env:SECRET"\n',
            "mail": f'url = "mailto://127.0.0.1:{port}?from=a@b.org&to=c@d.org&mode=insecure"\n',
            "command": f'command = "touch {world.folder}/begun; sleep 60"\n',
        }[kind]
        world.settings(f'{SETTINGS}[[notify]]\nname = "slow"\n{channel}')
        with world.live(*run(world, {"attempts": {"default": [ASK]}})) as runner:
            deaf.settimeout(40)
            asked = () if kind == "command" else deaf.accept()[:1]
            until(lambda: asked or (world.folder / "begun").exists(), "it is sent")
            began = time.monotonic()
            runner.signal(signal.SIGINT)
            runner.ends(130)
            assert time.monotonic() - began < PATIENCE
            for connection in asked:
                connection.close()
    world.settings(f"{SETTINGS}{to_file(world).replace('file', 'slow', 1)}")
    with world.live("up", "--no-server"):
        (question,) = until(lambda: of(world, "needs_you"), "the next runner sends it")
    assert question["text"] == "T001 asks: Blue or green?"


def test_a_budget_that_was_used_up_when_the_runner_died_is_told_by_the_next(world: World) -> None:
    world.settings(f"budget_attempts = 1\n{SETTINGS}{to_file(world)}")
    with world.live(*run(world, FAILS), LOOPWRIGHT_CRASH_AT=STORING) as killed:
        assert killed.process.wait(40) == -9
    assert not of(world)
    with world.live("up", "--no-server"):
        (found,) = until(lambda: of(world, "budget"), lambda: of(world))
    assert (found["reason"], found["task_id"]) == ("100", "T001")


def test_a_digest_that_the_runner_died_before_is_told_by_the_next(world: World) -> None:
    with world.live(*run(world, [DONE]), LOOPWRIGHT_CRASH_AT=STORING) as killed:
        assert killed.process.wait(40) == -9
    assert not of(world)
    with world.live("up", "--no-server"):
        (found,) = until(lambda: of(world, "all_done"), lambda: of(world))
        until(lambda: of_store(world.repo, waiting) == (), "it is noted")
    assert "1 done, waiting for your decision (T001)" in found["text"]


async def waiting(store: SqliteStore) -> tuple[str, ...]:
    return await store.notifications.channels_waiting()


def test_a_runner_that_lost_its_records_tells_all_channels_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    with receiver() as got, socket.create_server(("127.0.0.1", 0)) as deaf:
        hook = '[[notify]]\nname = "{}"\nwebhook = "{}"\nsecret = "env:SECRET"\n'
        slow = hook.format("slow", f"http://127.0.0.1:{deaf.getsockname()[1]}/")
        world.settings(f"{SETTINGS}{slow}{hook.format('hook', got.url)}")
        with world.live(*run(world, {"attempts": {"default": [ASK]}})) as runner:
            until(lambda: [each for each in got.got if each["type"] == "needs_you"], "a question")
            shutil.rmtree(world.repo / ".loopwright")
            found = until(lambda: [e for e in got.got if e["type"] == "runner_stopped"], "its end")
            runner.signal(signal.SIGINT)
            runner.process.wait(40)
    assert len(found) == 1
    assert "stopped by itself" in found[0]["text"]


@pytest.mark.parametrize("value", ["file:~nobody-here/url", "file:a\\u0000b"])
def test_a_channel_whose_value_cannot_be_read_loses_nothing_of_another(
    world: World, value: str
) -> None:
    broken = f'[[notify]]\nname = "broken"\nurl = "{value}"\n'
    world.settings(f"{SETTINGS}{broken}{to_file(world)}")
    done = world.call(*run(world, [DONE]))
    assert [each["type"] for each in of(world)] == ["all_done"]
    assert "cannot be read" in done.stderr
    assert of_store(world.repo, waiting) == ("broken",)


def test_without_a_channel_nothing_is_stored(world: World) -> None:
    world.settings(SETTINGS)
    args = run(world, {"attempts": {"1": [ASK], "default": [DONE]}})
    world.call(*args, "--no-stay", code=3)

    async def kept(store: SqliteStore) -> dict[str, Any]:
        return await store.all("notify")

    assert of_store(world.repo, kept) == {}
    assert of_store(world.repo, listed) == []


def test_a_channel_that_comes_while_a_runner_runs_is_used(world: World) -> None:
    world.settings(SETTINGS)
    go = world.folder / "go"
    with world.live(*run(world, [{"wait_file": str(go)}, DONE])):
        world.comes_to("Working")
        world.settings(f"{SETTINGS}{to_file(world)}")
        world.call("settings", "approve")
        go.touch()
        until(lambda: of(world, "all_done"), lambda: of(world))


def test_no_character_of_a_message_steers_a_terminal(world: World) -> None:
    text = "\x1b[31mRed\x07 \u202eor\x00 \x9bgreen?"
    ask = {"breakpoint": {"type": "question", "question": text}}
    world.call(*run(world, {"attempts": {"default": [ask]}}), "--no-stay", code=3)
    (question,) = of(world, "needs_you")
    assert question["text"].isprintable()
    assert "Red" in question["text"]
