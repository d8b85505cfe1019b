"""A program that uses the loop and what belongs to it, as its users write theirs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ci.events import CIEvent, CIEventType
from ci.local import LocalCIProvider
from lifecycle import (
    Agent,
    AgentLifecycle,
    AgentLifecycleLoop,
    AgentState,
    ContextBuilder,
    ContextSnapshot,
    LoopResult,
    LoopResultType,
    Plan,
    Task,
)
from lifecycle.errors import LifecycleError, PlanError, SettingsError
from lifecycle.record import Filter
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager


def whole(repo: Path, task: Task) -> AgentLifecycleLoop:
    """Build the loop from its parts."""
    return AgentLifecycleLoop(
        repo_dir=repo,
        plan=Plan(tasks=[task]),
        ci_provider=LocalCIProvider(repo, test_command="pytest -q"),
        terminal_manager=TerminalManager(repo),
        branch_manager=BranchManager(repo),
        workspace_manager=WorkspaceManager(repo),
        comm_file_path=repo / "communications.json",
        max_retries=100,
        retry_interval=30.0,
    )


def configured(repo: str, tasks: list[Task]) -> AgentLifecycleLoop:
    """Build it with paths as texts, tasks as a list and settings as a dict."""
    return AgentLifecycleLoop(
        repo_dir=repo,
        plan=tasks,
        ci_provider=None,
        terminal_manager=TerminalManager(repo),
        branch_manager=BranchManager(repo),
        workspace_manager=WorkspaceManager(repo, root="../agents"),
        comm_file_path="communications.json",
        store=SqliteStore.in_memory(),
        settings={"max_live_agents": 2, "stay_for_people": False},
    )


def fresh(repo: str, task: Task) -> AgentLifecycleLoop:
    """Build it from a repository alone; settings may be read anew for each decision."""
    first = AgentLifecycleLoop.for_repository(repo, task, max_retries=3, test_command="pytest -q")
    first.plan.task(task.id)
    return AgentLifecycleLoop.for_repository(repo, settings=lambda: Settings(max_retries=3))


async def run(loop: AgentLifecycleLoop, agent: Agent, task: Task) -> str:
    """Run it to its end; end a block by the caller's word."""
    result: LoopResult = await loop.run_agent_loop(agent, task)
    if result.result_type is LoopResultType.BLOCKED:
        print(result.blocked_on, result.error)
        result = await loop.run_agent_loop(agent, task, unblock="the key is in .env")
    if result.result_type == LoopResultType.PR_CREATED:
        print(result.pr_url, result.provider_pr_url)
    print(result.spawn_count + result.retry_count, result.to_json())
    await loop.notify(CIEvent(type=CIEventType.BUILD_SUCCESS, agent_id=agent.agent_id))
    await loop.cleanup_agent(agent.agent_id)
    await loop.shutdown()
    return result.summary


async def records(path: Path) -> list[AgentLifecycle]:
    """Keep records by hand."""
    async with await SqliteStore.open(path) as store:
        made = await store.create(AgentLifecycle(agent_id="agent-T001", task="Calculator"))
        made.state = AgentState.RUNNING
        made = await store.update(made)
        found: AgentLifecycle | None = await store.get(made.agent_id)
        page = await store.list(Filter(states=(AgentState.RUNNING,)))
        gone: bool = await store.delete(made.agent_id)
        return [*page.records, *([found] if found is not None and not gone else [])]


def summary(task: Task) -> str:
    """Make a snapshot and render it."""
    builder = ContextBuilder()
    snapshot: ContextSnapshot = builder.capture(
        task=task, agent_id="agent-T001", captured_at=0.0, attempt=1, retry_count=1
    )
    again = ContextSnapshot.model_validate_json(snapshot.model_dump_json())
    return builder.render(again)


async def main(repo: Path) -> None:
    """Do all of it."""
    task = Task(id="T001", title="Calculator", description="...", dependencies=[], verify=["true"])
    agent = Agent(agent_id="agent-T001", command=["./my-agent"], env={"MODE": "fast"})
    other = Agent(agent_id="agent-T002", adapter="claude")
    try:
        print(await run(whole(repo, task), agent, task))
        print(await run(configured(str(repo), [task]), other, task))
        print(await run(fresh(str(repo), task), agent, task))
    except (PlanError, SettingsError) as problem:
        print(f"fix this first: {problem}")
    except LifecycleError as problem:
        print(problem)
    print(summary(task), await records(repo / "other.db"))


if __name__ == "__main__":
    asyncio.run(main(Path.cwd()))
