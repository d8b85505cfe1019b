# ruff: noqa: ASYNC240  # nothing else runs in the loops of these tests
"""Agents that are programs: what they get, how they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.errors import StoreError
from lifecycle.fleet.api.instances import InstanceState
from lifecycle.fleet.api.registry import AgentDefinition, CommandAgent
from lifecycle.fleet.errors import (
    AgentInitializationError,
    InvalidOperationError,
    IsolationUnavailableError,
    SpawnTimeoutError,
)
from lifecycle.fleet.spawner.spawner import AgentSpawner
from lifecycle.store.reading import open_reader
from lifecycle.store.sqlite.driver import FileDriver
from lifecycle.store.sqlite.store import SqliteStore
from runtime.limits import Limits
from runtime.processes import limit_shell
from tests.lifecycle.fleet.spawner_world import alive, staged, until

S = InstanceState
AT_ONCE = {"type": "immediate", "max_retries": 2}
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("daemon", "w").write(f"{os.getpid()}\\n")
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


async def number_in(file: Path) -> int:
    await until(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


async def test_a_program_gets_its_prompt_its_context_and_a_folder_of_its_own(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        echo = stage.shell(
            'cat; echo; cat "$LOOPWRIGHT_CONTEXT_FILE"; echo; pwd; '
            'echo "$LOOPWRIGHT_INSTANCE_ID $EXTRA"',
            env={"EXTRA": "more"},
        )
        instance = await stage.spawner.spawn(
            stage.request_for(echo, Prompt="say hello", depth="deep")
        )
        ended = await stage.until_state(instance.instance_id, S.TERMINATED)

        said = Path(ended.details["log"]).read_text().splitlines()
        assert said[0] == "say hello"
        assert json.loads(said[1]) == {"Prompt": "say hello", "depth": "deep"}
        assert said[2] == ended.details["workspace"]
        assert said[3] == f"{instance.instance_id} more"
        assert not Path(ended.details["workspace"]).exists()
        assert ended.details["exit_code"] == 0


async def test_a_program_works_where_its_context_says(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        place = tmp_path / "place"
        place.mkdir()
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("pwd > here"), workspace=str(place))
        )
        await stage.until_state(instance.instance_id, S.TERMINATED)

        assert (place / "here").read_text().strip() == str(place)


async def test_a_program_that_cannot_be_started_leaves_nothing_behind(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        gone = AgentDefinition(name="gone", runs=CommandAgent(command=("/no/such/program",)))
        stage.spawner.registry.register(gone)

        with pytest.raises(AgentInitializationError, match="was not found"):
            await stage.spawner.spawn(stage.request_for(gone))

        assert stage.terminals.live() == ()
        assert list((tmp_path / ".loopwright" / "instances").iterdir()) == []
        assert await stage.spawner.get_active_instances() == ()


async def test_a_program_that_ends_before_it_is_ready_says_why(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        with pytest.raises(AgentInitializationError, match=r"exit code 3.*no licence"):
            await stage.spawner.spawn(
                stage.request_for(stage.shell("echo no licence; exit 3", ready_text="ready"))
            )
        assert list((tmp_path / ".loopwright" / "instances").iterdir()) == []


async def test_a_program_that_does_not_get_ready_in_time_is_ended_with_its_daemon(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        program = stage.program(DAEMON, ready_text="never", cwd=tmp_path)

        with pytest.raises(SpawnTimeoutError):
            await stage.spawner.spawn(stage.request_for(program, {"initialization_timeout": 1.0}))

        assert not alive(await number_in(tmp_path / "daemon"))
        assert stage.terminals.live() == ()


@pytest.mark.parametrize(
    ("script", "words", "details"),
    [
        ("echo out of luck >&2; exit 7", "exit code 7; its last output: out of luck",
         {"exit_code": 7}),
        ("kill -KILL $$", "ended by signal 9", {"signal": 9}),
    ],
)  # fmt: skip
async def test_a_program_that_fails_is_failed_with_its_last_words(
    tmp_path: Path, script: str, words: str, details: dict[str, int]
) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request_for(stage.shell(script)))
        failed = await stage.until_state(instance.instance_id, S.FAILED)

        assert failed.error_message == words
        assert failed.details.items() >= details.items()
        assert failed.terminated_at is not None
        assert stage.told.of("agent_crashed")[0]["error"] == failed.error_message


async def test_the_execution_timeout_ends_a_program_and_is_named(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        options = {"resource_limits": {"execution_timeout": 60, "max_memory_mb": 512},
                   "allow_weaker": True}  # fmt: skip
        instance = await stage.spawner.spawn(stage.request_for(stage.shell("sleep 600"), options))
        clock.advance(59)
        assert alive(instance.details["pid"])
        clock.advance(2)

        failed = await stage.until_state(instance.instance_id, S.FAILED)

        assert failed.error_message == "execution timeout 60 s"
        assert failed.details["limit"] == "execution timeout 60 s"


async def test_suspension_freezes_the_tree_and_its_clock(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        count = "n=0; while :; do n=$((n+1)); echo $n > count; sleep 0.005; done"
        program = stage.shell(count, cwd=tmp_path)
        options = {"resource_limits": {"execution_timeout": 60}, "allow_weaker": True}
        instance = await stage.spawner.spawn(stage.request_for(program, options))
        await number_in(tmp_path / "count")

        await stage.spawner.suspend(instance.instance_id)
        before = (tmp_path / "count").read_text()
        clock.advance(1000)
        await asyncio.sleep(0.1)

        assert (tmp_path / "count").read_text() == before
        assert (await stage.now(instance.instance_id)).state is S.SUSPENDED
        await stage.spawner.resume(instance.instance_id)
        await until(lambda: (tmp_path / "count").read_text() not in ("", before))
        clock.advance(61)
        failed = await stage.until_state(instance.instance_id, S.FAILED)
        assert failed.error_message is not None
        assert failed.error_message.startswith("execution timeout 60 s")


async def test_a_suspended_program_can_be_terminated_and_a_working_one_suspended(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path, sample_interval=0.02) as stage:
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("while :; do echo x; sleep 0.01; done"))
        )
        await stage.until_state(instance.instance_id, S.PROCESSING)

        await stage.spawner.suspend(instance.instance_id)
        assert (await stage.now(instance.instance_id)).state is S.SUSPENDED
        result = await stage.spawner.terminate(instance.instance_id)

        assert result.success
        assert not alive(instance.details["pid"])
        with pytest.raises(InvalidOperationError, match=r"is a program|terminated"):
            await stage.spawner.process(instance.instance_id, "work")


async def test_a_program_needs_nothing_but_its_definition(tmp_path: Path) -> None:
    runs = CommandAgent(command=("/bin/sh", "-c", "exec sleep 600"))
    async with AgentSpawner() as spawner:
        instance = await spawner.spawn(AgentDefinition(name="p", runs=runs))
        assert alive(instance.details["pid"])
        folder = Path(instance.details["log"]).parent
        assert folder.is_dir()

    assert not alive(instance.details["pid"])
    assert not folder.parent.exists()
    ended = await spawner.get_instance(instance)
    assert ended is not None
    assert ended.state is S.TERMINATED
    del tmp_path


async def test_nothing_lives_whose_record_cannot_be_written(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "state.db")
    async with staged(tmp_path, store=store) as stage:
        sleeper = stage.shell("sleep 600")
        await store.aclose()
        assert isinstance(store._driver, FileDriver)
        store._driver._reader = open_reader(tmp_path / "state.db")

        with pytest.raises(StoreError):
            await stage.spawner.spawn(stage.request_for(sleeper))

        assert stage.terminals.live() == ()
        await store.aclose()


async def test_a_store_that_cannot_write_keeps_nobody_from_ending_an_agent(
    tmp_path: Path,
) -> None:
    store = await SqliteStore.open(tmp_path / "state.db")
    async with staged(tmp_path, store=store) as stage:
        instance = await stage.spawner.spawn(stage.request_for(stage.shell("sleep 600")))
        await store.aclose()

        result = await stage.spawner.terminate(instance.instance_id)

        assert result.success
        assert "record could not be written" in result.problems[0]
        assert stage.terminals.live() == ()


async def test_a_limit_that_fires_is_named_in_the_record(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        hog = stage.program("held = [bytearray(1 << 20) for _ in range(400)]")
        options = {"resource_limits": {"max_memory_mb": 64}}
        missing = limit_shell.missing(Limits(memory_mb=64))
        if missing:
            # Where memory cannot be limited that is said, and nothing is started.
            with pytest.raises(IsolationUnavailableError, match="memory"):
                await stage.spawner.spawn(stage.request_for(hog, options))
            return
        instance = await stage.spawner.spawn(stage.request_for(hog, options))

        failed = await stage.until_state(instance.instance_id, S.FAILED)

        assert failed.error_message is not None
        assert failed.error_message.startswith("memory limit 64 MB")
        assert failed.details["limit"] == "memory limit 64 MB"
