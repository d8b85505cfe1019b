"""The loop as its users know it: how it is built, what it answers, what it leaves."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from ci.local.provider import LocalCIProvider
from lifecycle.errors import RepositoryBusyError
from lifecycle.loop import AgentLifecycleLoop, LoopResult, LoopResultType
from lifecycle.plan import Agent, Plan, Task
from lifecycle.record import AgentState
from lifecycle.store.lock import RunnerLock
from lifecycle.store.sqlite.store import SqliteStore
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from tests.lifecycle.world import AGENT, DONE, HANG, PATIENCE, Step, World, commit, git, says

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.reporting import Committed

STORY = {
    1: [*commit("x.txt"), says("blocked", blocked_on=["ci"], summary="waits for CI")],
    2: [*commit("y.txt"), says("pr_created", summary="a pull request")],
    3: [DONE],
}


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "one per workspace"])
async def test_the_python_example_runs_as_written(world: World, shared: bool) -> None:  # noqa: FBT001  # a parameter
    repo = world.repo
    task = Task(
        id="T001", title="Calculator", description="...", dependencies=[], verify=["test -f x.txt"]
    )
    agent = Agent(
        agent_id="agent-T001", command=[sys.executable, "-m", "runtime.agents.scripted",
                                        str(world.script(STORY))]
    )  # fmt: skip
    loop = AgentLifecycleLoop(
        repo_dir=repo,
        plan=Plan(tasks=[task]),
        ci_provider=LocalCIProvider(repo, test_command="test -f x.txt", auto_merge=True),
        terminal_manager=TerminalManager(repo),
        branch_manager=BranchManager(repo),
        workspace_manager=WorkspaceManager(repo),
        comm_file_path=repo / "communications.json" if shared else None,
        max_retries=100,
        retry_interval=30.0,
    )
    result = await asyncio.wait_for(loop.run_agent_loop(agent, task), PATIENCE)
    assert result == LoopResult(
        result_type=LoopResultType.TASK_COMPLETE,
        task_id="T001",
        agent_id="agent-T001",
        summary="all is done",
        spawn_count=3,
    )
    assert (repo / ".loopwright" / "state.db").exists()
    assert (repo / "communications.json").exists() is shared
    # The merge of the pull request came to the user's branch, and nothing else did.
    assert world.git("status", "--porcelain") == ""
    assert (repo / "y.txt").exists()


async def test_an_agent_that_completes_is_done_in_one_attempt(world: World) -> None:
    result = await world.run([*commit("x.txt"), DONE])
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert (result.spawn_count, result.retry_count, result.summary) == (1, 0, "all is done")
    record = await world.record()
    assert (record.state, record.changed_files) == ("completed", ["x.txt"])
    assert record.submission_summary == "all is done"


async def test_work_of_one_file_of_text_is_recorded_whole(world: World) -> None:
    await world.run([*commit("x.txt", "print('hello')\n"), DONE])
    assert (await world.record()).generated_code == "print('hello')\n"


@pytest.mark.parametrize(
    "steps",
    [
        [*commit("x.txt"), *commit("y.txt")],
        commit("x.txt", "long " * 10_000),
        commit("x.txt", "a\0b"),
    ],
    ids=["two files", "a long one", "no text"],
)
async def test_of_other_work_the_commits_alone_tell(world: World, steps: list[Step]) -> None:
    await world.run([*steps, DONE])
    record = await world.record()
    assert record.changed_files
    assert record.generated_code is None


async def test_a_second_run_of_what_is_complete_starts_nobody(world: World) -> None:
    first = await world.run([*commit("x.txt"), DONE])
    assert await world.run([{"exit": 1}]) == first


async def test_observers_that_raise_are_reported_and_harm_nobody(world: World) -> None:
    heard, told = list[str](), list[tuple[str, dict[str, object]]]()

    def broken(news: Committed) -> None:
        raise RuntimeError(f"no room for {news.after}")

    def report(event: str, /, **fields: object) -> None:
        told.append((event, fields))

    repo = world.repo
    loop = AgentLifecycleLoop(
        repo_dir=repo,
        plan=Plan(tasks=(world.task(),)),
        ci_provider=None,
        terminal_manager=TerminalManager(repo),
        branch_manager=BranchManager(repo),
        workspace_manager=WorkspaceManager(repo),
        store=world.store,
        settings=world.read_settings,
        observers=(broken, lambda news: heard.append(news.after)),
        report=report,
    )
    run = loop.run_agent_loop(world.agent([*commit("x.txt"), DONE]), world.task())
    result = await asyncio.wait_for(run, PATIENCE)
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert heard[-1] == "Completed"
    failures = [fields for event, fields in told if event == "observer_failed"]
    assert len(failures) == len(heard)
    assert failures[-1]["reason"] == "RuntimeError: no room for Completed"
    assert str(failures[-1]["observer"]).endswith("broken")


async def test_the_records_are_kept_by_the_other_names(world: World) -> None:
    async with await SqliteStore.open(world.paths.database) as store:
        world.store = store
        loop = world.loop()
        made = await loop.create_lifecycle("test-001", "task")
        made.state = AgentState.RUNNING
        await loop.update_lifecycle(made)
    world.store = SqliteStore.in_memory()
    loop = AgentLifecycleLoop(
        repo_dir=world.repo,
        plan=Plan(tasks=(world.task(),)),
        ci_provider=None,
        terminal_manager=TerminalManager(world.repo),
        branch_manager=BranchManager(world.repo),
        workspace_manager=WorkspaceManager(world.repo),
        settings=world.read_settings,
    )
    with RunnerLock(world.paths.root, who="another") as _:
        assert await loop.get_lifecycle("test-001") == made, "another runner is no obstacle"
    async with loop.opened():
        assert await loop.get_lifecycle("test-001") == made
        assert await loop.delete_lifecycle("test-001")
    assert not await loop.delete_lifecycle("test-001")
    assert await loop.get_lifecycle("test-001") is None


async def test_retries_used_up_end_with_max_retries(world: World) -> None:
    result = await world.run([*commit("x.txt"), {"exit": 3}], max_retries=1)
    assert result.result_type is LoopResultType.MAX_RETRIES
    assert (result.spawn_count, result.retry_count) == (2, 1)
    assert "1 of 1 retries used" in str(result.error)
    assert "exit code 3" in str(result.error)
    assert await world.outcomes() == ["error", "error"]


async def test_the_ledger_tells_who_committed_what_also_of_agents_that_are_over_at_once(
    world: World,
) -> None:
    fails: Step = {"exit": 1}
    both = [*commit("b.txt"), *commit("c.txt"), fails]
    await world.run({1: [*commit("a.txt"), fails], 2: both, 3: [fails], 4: [DONE]}, max_retries=9)
    rows = await world.attempts()
    assert [row.commits for row in rows] == [1, 2, 0, 0]
    assert [row.head_before for row in rows[1:]] == [row.head_after for row in rows[:-1]]
    told = [entry.event for entry in await world.journal()]
    assert [type(event).__name__ for event in told].count("AgentSpawned") == len(rows)


async def test_a_command_that_does_not_exist_ends_with_an_error_at_once(world: World) -> None:
    loop = world.loop()
    agent = Agent(agent_id=AGENT, command=("/no/such/agent",))
    result = await loop.run_agent_loop(agent, world.task())
    assert result.result_type is LoopResultType.ERROR
    assert "/no/such/agent was not found" in str(result.error)
    assert result.spawn_count == 0
    assert not world.paths.log(AGENT, 1).exists(), "a log shows that a process began"


async def test_a_person_who_is_not_there_ends_with_blocked(world: World) -> None:
    result = await world.run([says("blocked", blocked_on=["keys"])], blocked_timeout=0.2)
    assert result.result_type is LoopResultType.BLOCKED
    assert result.blocked_on == ["keys"]


async def test_shutdown_answers_shutdown(world: World) -> None:
    async with world.running([HANG]) as running:
        await running.at("Working")
        await running.loop.shutdown()
        result = await running.result()
    assert result.result_type is LoopResultType.SHUTDOWN
    assert world.marked() == []


async def test_the_users_checkout_is_not_touched(world: World) -> None:
    (world.repo / "a.txt").write_text("changed, not committed\n")
    (world.repo / "mine.txt").write_text("untracked\n")
    looked = ("--no-optional-locks", "status", "--porcelain")
    before = world.git("rev-parse", "HEAD"), world.git(*looked)
    index = (world.repo / ".git" / "index").read_bytes()
    await world.run([*commit("a.txt", "the agent's"), DONE])
    assert (world.git("rev-parse", "HEAD"), world.git(*looked)) == before
    assert (world.repo / "a.txt").read_text() == "changed, not committed\n"
    assert (world.repo / ".git" / "index").read_bytes() == index
    assert world.git("show", f"agent/{AGENT}:a.txt") == "the agent's"


async def test_the_agent_gets_what_was_promised_and_none_of_the_runners_secrets(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "secret-value")
    monkeypatch.setenv("MY_KEY", "passed-by-name")
    world.settings["pass_env"] = ("MY_KEY", "NOT_SET")
    out = world.folder / "env.json"
    await world.run([{"env": {"path": str(out), "prefix": ""}}, DONE])
    found = json.loads(out.read_text())
    assert "secret-value" not in found.values()
    assert (found["MY_KEY"], "NOT_SET" in found) == ("passed-by-name", False)
    ours = {name: value for name, value in found.items() if name.startswith("LOOPWRIGHT_")}
    spawn_id = ours.pop("LOOPWRIGHT_SPAWN_ID")
    assert spawn_id.startswith(f"{AGENT}.")
    assert int(ours.pop("LOOPWRIGHT_PORT")) > 1024
    assert ours.pop("LOOPWRIGHT_MACHINE_ID") == (await world.record()).facts["machine"]
    assert ours == {
        "LOOPWRIGHT_AGENT_ID": AGENT,
        "LOOPWRIGHT_TASK_ID": "T001",
        "LOOPWRIGHT_ATTEMPT": "1",
        "LOOPWRIGHT_COMM_FILE": str(world.workspace / "communications.json"),
        "LOOPWRIGHT_SUMMARY_FILE": str(world.paths.summary(AGENT, 1)),
    }


async def test_the_agent_reads_its_prompt_on_standard_input_in_its_workspace(world: World) -> None:
    out = world.folder / "prompt.md"
    pwd = world.folder / "pwd"
    task = world.task(title="Add", description="Add two numbers.")
    told = {"run": {"argv": ["sh", "-c", f"pwd > {pwd}"]}}
    await world.run([{"read_prompt": str(out)}, told, DONE], task=task)
    assert "Add two numbers." in out.read_text()
    assert out.read_text() == world.prompt(1)
    assert pwd.read_text().strip() == str(world.workspace)


async def test_what_the_agent_prints_is_in_the_log_of_its_attempt(world: World) -> None:
    first: list[Step] = [{"say": "hello"}, {"err": "oh"}, {"exit": 1}]
    await world.run({1: first, 2: [{"say": "again"}, DONE]})
    assert world.paths.log(AGENT, 1).read_text() == "hello\noh\n"
    assert world.paths.log(AGENT, 2).read_text() == "again\n"


async def test_state_is_for_its_owner_alone_and_never_committed(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])
    assert world.paths.root.stat().st_mode & 0o777 == 0o700
    assert ".loopwright" not in world.git("ls-tree", "-r", "--name-only", f"agent/{AGENT}")
    assert "communications.json" not in world.git("ls-tree", "-r", "--name-only", f"agent/{AGENT}")
    assert world.git("status", "--porcelain", "--untracked-files=all") == ""


async def test_records_are_in_the_repository_and_counters_go_on(
    world: World, tmp_path: Path
) -> None:
    database = tmp_path / "state.db"
    async with await SqliteStore.open(database) as store:
        loop = world.loop(store=store)
        world.settings["max_retries"] = 1
        first = await loop.run_agent_loop(world.agent([{"exit": 1}]), world.task())
    assert first.retry_count == 1
    async with await SqliteStore.open(database) as store:
        second = await world.loop(store=store).run_agent_loop(world.agent([DONE]), world.task())
    assert second == first


async def test_another_task_under_the_same_agent_is_refused(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])
    with pytest.raises(Exception, match="has a record for task T001"):
        await world.run([DONE], task=world.task("T002"))


async def test_a_repository_without_a_commit_is_refused_with_what_to_do(world: World) -> None:
    empty = world.folder / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    world.repo = empty
    result = await world.loop().run_agent_loop(world.agent([DONE]), world.task())
    assert result.result_type is LoopResultType.ERROR
    assert "commit" in str(result.error)


async def test_a_second_runner_is_refused_while_the_first_one_lives(world: World) -> None:
    with RunnerLock(world.paths.root), pytest.raises(RepositoryBusyError, match=str(os.getpid())):
        await world.loop().run_agent_loop(world.agent([DONE]), world.task())
