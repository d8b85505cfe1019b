"""The loop from a repository alone, and what is refused before anything starts."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ci.local.provider import LocalCIProvider
from lifecycle.errors import ArgumentError, LifecycleError, PlanError, SettingsError
from lifecycle.loop import AgentLifecycleLoop, LoopResultType
from lifecycle.plan import Agent, Plan, Task
from runtime.branches import BranchManager
from runtime.errors import RepositoryError
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from tests.lifecycle.world import AGENT, DONE, PATIENCE, SHORT, World, commit, says

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.result import LoopResult

ROOT = Path(__file__).resolve().parents[2]
SHORT_OF_ALL = {name: value for name, value in SHORT.items() if name != "max_retries"}


async def _run(loop: AgentLifecycleLoop, agent: Agent, task: Task) -> LoopResult:
    return await asyncio.wait_for(loop.run_agent_loop(agent, task), PATIENCE)


def _whole(world: World, **more: Any) -> AgentLifecycleLoop:
    parts: dict[str, Any] = {
        "repo_dir": world.repo,
        "plan": world.task(),
        "ci_provider": None,
        "terminal_manager": TerminalManager(world.repo),
        "branch_manager": BranchManager(world.repo),
        "workspace_manager": WorkspaceManager(world.repo),
        "store": world.store,
        "settings": dict(SHORT),
    }
    return AgentLifecycleLoop(**{**parts, **more})


# --- a repository is enough -------------------------------------------------------------------


async def test_a_repository_and_a_task_are_enough(world: World) -> None:
    task = world.task(verify=["test -f x.txt"])
    loop = AgentLifecycleLoop.for_repository(str(world.repo), task, **SHORT)
    result = await _run(loop, world.agent([*commit("x.txt"), DONE]), task)
    assert (result.result_type, result.summary) == (LoopResultType.TASK_COMPLETE, "all is done")
    assert world.paths.database.exists()
    assert world.git("status", "--porcelain") == ""


async def test_only_a_test_command_brings_local_ci_with_its_settings(world: World) -> None:
    loop = AgentLifecycleLoop.for_repository(
        world.repo, [world.task()], test_command="test -f x.txt", auto_merge=True, **SHORT
    )
    script = {1: [*commit("x.txt"), says("pr_created", summary="done")], 2: [DONE]}
    result = await _run(loop, world.agent(script), world.task())
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert (world.repo / "x.txt").exists(), "its pull request was merged"
    assert AgentLifecycleLoop.for_repository(world.repo)._ci is None


async def test_max_retries_by_its_name_is_kept_to_exactly(world: World) -> None:
    loop = AgentLifecycleLoop.for_repository(
        world.repo, max_retries=4, store=world.store, **SHORT_OF_ALL
    )
    result = await _run(loop, world.agent([{"exit": 1}]), world.task())
    assert (result.result_type, result.spawn_count) == (LoopResultType.MAX_RETRIES, 5)


async def test_settings_by_name_come_before_those_of_a_function_or_a_dict(world: World) -> None:
    given: dict[str, Any] = {**SHORT, "max_retries": 50}
    for settings in (given, world.read_settings):
        loop = AgentLifecycleLoop.for_repository(
            world.repo, settings=settings, store=world.store, max_retries=0
        )
        result = await _run(loop, world.agent([{"exit": 1}]), world.task())
        assert (result.result_type, result.spawn_count) == (LoopResultType.MAX_RETRIES, 1)


def test_workspaces_lie_where_the_setting_says(world: World) -> None:
    loop = AgentLifecycleLoop.for_repository(world.repo, worktrees_dir="../mine")
    assert isinstance(loop._workspaces, WorkspaceManager)
    assert loop._workspaces.root == (world.folder / "mine").resolve()


def test_a_forge_that_nothing_would_ask_is_refused_before_anything_starts(world: World) -> None:
    with pytest.raises(ArgumentError, match=r"providers names github.*ci_provider="):
        AgentLifecycleLoop.for_repository(world.repo, world.task(), providers=("local", "github"))
    assert not world.paths.database.exists()
    own = LocalCIProvider(world.repo, test_command="true")
    AgentLifecycleLoop.for_repository(world.repo, providers=("github",), ci_provider=own)


def test_the_arguments_of_the_class_replace_its_parts(world: World) -> None:
    ci = LocalCIProvider(str(world.repo), test_command="true")
    loop = AgentLifecycleLoop.for_repository(world.repo, ci_provider=ci, store=world.store)
    assert (loop._ci, loop._given_store) == (ci, world.store)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_retrys": 1}, "max_retrys is not a setting; did you mean 'max_retries'"),
        ({"zzz": 1}, "zzz is not a setting; `loopwright schema settings` lists all"),
        ({"max_retries": -1}, "max_retries: Input should be greater than or equal to 0"),
        ({"settings": {"gate_timeout": "soon"}}, "gate_timeout: Input should be a valid number"),
    ],
)
def test_an_unknown_or_impossible_setting_is_refused_by_its_name(
    world: World, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(SettingsError, match=told):
        AgentLifecycleLoop.for_repository(world.repo, **given)
    assert not world.paths.root.exists()


# --- paths and plans --------------------------------------------------------------------------


async def test_paths_may_be_texts(world: World) -> None:
    repo, mailbox = str(world.repo), world.folder / "communications.json"
    loop = AgentLifecycleLoop(
        repo_dir=repo,
        plan=Plan(tasks=[world.task()]),
        ci_provider=LocalCIProvider(repo),
        terminal_manager=TerminalManager(repo),
        branch_manager=BranchManager(repo),
        workspace_manager=WorkspaceManager(repo, root=str(world.folder / "agents")),
        comm_file_path=str(mailbox),
        settings=dict(SHORT),
    )
    result = await _run(loop, world.agent([*commit("x.txt"), DONE]), world.task())
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert mailbox.exists()
    assert (world.folder / "agents" / AGENT / "x.txt").exists()


@pytest.mark.parametrize(
    "given",
    [lambda task: task, lambda task: [task], lambda task: (task,), lambda task: Plan(tasks=[task])],
    ids=["a task", "a list", "a tuple", "a plan"],
)
def test_a_plan_may_be_tasks_or_one_task(world: World, given: Callable[[Task], Any]) -> None:
    task = world.task()
    assert _whole(world, plan=given(task)).plan.tasks == (task,)


async def test_a_task_outside_the_plan_is_refused_before_anything_starts(world: World) -> None:
    loop = _whole(world)
    with pytest.raises(PlanError, match="no task T002 in the plan; it holds: T001"):
        await loop.run_agent_loop(world.agent([DONE]), world.task("T002"))
    assert not world.paths.root.exists()


async def test_without_a_plan_any_task_may_be_run(world: World) -> None:
    result = await _run(_whole(world, plan=None), world.agent([DONE]), world.task("T002"))
    assert result.result_type is LoopResultType.TASK_COMPLETE


@pytest.mark.parametrize(
    ("wrong", "kind", "told"),
    [
        ({"repo_dir": 5}, ArgumentError, "repo_dir is an int; give a path"),
        ({"comm_file_path": 5}, ArgumentError, "comm_file_path is an int; give a path"),
        ({"settings": 5}, ArgumentError, "settings is an int; give a dict"),
        ({"plan": "T001"}, ArgumentError, "plan is a str; give a Plan, a list of tasks or one Ta"),
        ({"plan": ["T001"]}, ArgumentError, "a task of the plan is a str; give a Task"),
        ({"plan": [Task(id="A", dependencies=["B"])]}, PlanError, "B, which is not in the plan"),
        ({"plan": [Task(id="A"), Task(id="A")]}, PlanError, "two tasks have the id A"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_it_should_be(
    world: World, wrong: dict[str, Any], kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        _whole(world, **wrong)


@pytest.mark.parametrize("kind", [LifecycleError, TypeError])
async def test_agent_and_task_in_the_wrong_order_are_refused(
    world: World, kind: type[Exception]
) -> None:
    agent: Any = world.agent([DONE])
    task: Any = world.task()
    with pytest.raises(kind, match="agent is a Task; give an Agent"):
        await _whole(world).run_agent_loop(task, agent)
    with pytest.raises(kind, match="task is None; give a Task"):
        await _whole(world).run_agent_loop(agent, None)  # type: ignore[arg-type]  # on purpose
    assert not world.paths.root.exists()


@pytest.mark.parametrize("name", ["not-there", "plain", "a-file"])
def test_a_folder_that_is_no_repository_is_refused(world: World, name: str) -> None:
    (world.folder / "plain").mkdir()
    (world.folder / "a-file").write_text("")
    place = world.folder / name
    with pytest.raises(RepositoryError, match=name):
        AgentLifecycleLoop.for_repository(place)
    with pytest.raises(RepositoryError, match=name):
        _whole(world, repo_dir=place)
    assert not (place / ".loopwright").exists()


def test_type_checkers_are_told_of_every_field_of_plans_tasks_and_agents() -> None:
    """Their `__init__` for type checkers takes lists, too, and is written by hand."""
    tree = ast.parse((ROOT / "lifecycle" / "plan.py").read_text("utf-8"))
    classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
    for model in (Task, Agent, Plan):
        made = [
            each
            for each in ast.walk(classes[model.__name__])
            if isinstance(each, ast.FunctionDef) and each.name == "__init__"
        ]
        names = [argument.arg for each in made for argument in each.args.kwonlyargs]
        assert names == list(model.model_fields), model.__name__
