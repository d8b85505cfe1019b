"""The population of a live runner: what is asked of it happens to running loops."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from lifecycle.audit import Audit
from lifecycle.machine import events as on
from lifecycle.machine.states import Suspended
from lifecycle.plan import Agent, Task
from lifecycle.result import LoopResult, LoopResultType
from lifecycle.store.audit_trail import MemoryTrail
from orchestrator.crew import Crew
from orchestrator.population import TURNS, Population
from orchestrator.settingtrail import SettingTrail
from tests.lifecycle.world import DONE, HANG, World, commit, git, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lifecycle.engine import Engine
    from lifecycle.record import AgentLifecycle

UP = {"write": {"path": "up.txt", "text": "u"}}
NEVER = 3600.0


@pytest.fixture(scope="module")
def first_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with one commit, to be copied."""
    repo = tmp_path_factory.mktemp("template") / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "a.txt").write_text("a\n")
    git(repo, "add", ".")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    git(repo, *who, "commit", "-qm", "first")
    return repo


@pytest.fixture
def world(tmp_path: Path, first_commit: Path) -> World:
    """Return a user's repository with one commit on main."""
    shutil.copytree(first_commit, tmp_path / "repo")
    return World(tmp_path)


class Runner:
    """A runner as `up` makes one, without its view."""

    def __init__(self, world: World, engine: Engine) -> None:
        self.world, self.engine = world, engine
        self.results: dict[str, LoopResult | Exception | None] = {}
        self.logs: list[dict[str, Any]] = []
        engine.parts.report = self._report
        self.trail = MemoryTrail()
        self.crew = Crew(engine, ended=self._ended, late=lambda _who, _seconds: None)
        audit = Audit(self.trail, now=lambda: 1.0)
        self.population = Population(
            engine,
            self.begin,
            audit=audit,
            settings=SettingTrail(audit, world.store, engine.parts.settings, by="ada"),
            by="ada",
        )
        engine.revive = self._revive

    def _report(self, event: str, /, **fields: object) -> None:
        self.logs.append({"event": event, **fields})

    async def _ended(
        self, agent_id: str, result: LoopResult | None, problem: Exception | None
    ) -> None:
        self.population.left(agent_id, await self.world.store.get(agent_id))
        self.results[agent_id] = result or problem

    def begin(self, agent: Agent, task: Task, *, resume: bool = True) -> None:
        self.population.joined(agent)
        self.crew.start(agent, task, resume=resume)

    def _revive(self, record: AgentLifecycle) -> None:
        self.begin(
            Agent.model_validate(record.facts["agent"]), Task.model_validate(record.facts["task"])
        )

    def work(self, agent_id: str) -> str:
        owner = self.engine.owner(agent_id)
        return "" if owner is None else type(owner.state).__name__

    async def at(self, agent_id: str, state: str) -> None:
        await until(lambda: self.work(agent_id) == state)

    async def over(self, agent_id: str) -> LoopResult:
        await until(lambda: agent_id in self.results)
        found = self.results[agent_id]
        assert isinstance(found, LoopResult)
        return found


@asynccontextmanager
async def running(
    world: World, held: tuple[str, ...] = (), **settings: Any
) -> AsyncIterator[Runner]:
    own = {"retry_interval": 0.05, "retry_interval_cap": NEVER, "max_live_agents": 10}
    world.settings.update(own | settings)
    async with world.loop().opened() as engine:
        runner = Runner(world, engine)
        await runner.population.open(held)
        yield runner
        engine.revive = None
        await runner.crew.shutdown()
        await runner.crew.run()
        await runner.population.aclose()


def crashes_then(world: World, *then: Any) -> dict[int, list[Any]]:
    """Fail the first attempt once the file `go` is there, then do something else."""
    go = {"wait_file": str(world.folder / "go")}
    return {1: [*commit("x.txt"), go, {"exit": 1}], 0: [*commit("y.txt"), *then]}


async def test_an_agent_that_is_added_runs_under_its_resolved_name(world: World) -> None:
    async with running(world) as runner:
        add = runner.population.add_agent
        names = [add("bob", world.agent([*commit("x"), DONE]), {"title": "T"}) for _ in range(2)]
        assert names == ["bob", "bob_1"]
        assert set(runner.population.get_active_agents()) == {"bob", "bob_1"}
        for name in names:
            result = await runner.over(name)
            assert (result.result_type, result.task_id) == (LoopResultType.TASK_COMPLETE, name)
        assert runner.population.state.agents == {}


async def test_an_agent_beyond_the_limit_is_not_added_and_the_refusal_is_held(
    world: World,
) -> None:
    async with running(world) as runner:
        hang = world.agent([HANG])
        runner.population.state.agents.update({f"a{number}": hang for number in range(25)})
        assert runner.population.add_agent("bob", hang, {"title": "T"}) == "bob"
        assert len(runner.population.state.agents) == 25
        assert not runner.crew.runs("bob")
        held = runner.trail._entries
        await until(lambda: held[-1].action == "add_agent")
        entry = held[-1]
        assert (entry.actor, entry.action, entry.outcome) == ("ada", "add_agent", "refused")
        assert "25 is the limit" in entry.reason
    warned = [log for log in runner.logs if log["event"] == "lifecycle_validation_failed"]
    assert [log["agent_name"] for log in warned] == ["bob"]


@pytest.mark.parametrize(
    ("name", "agent", "initial"),
    [("bob", "nobody", {"title": "T"}), ("../b", None, {}), ("bob", None, {"titel": "T"})],
)
async def test_what_is_no_agent_name_or_task_is_refused_by_its_model(
    world: World, name: str, agent: Any, initial: dict[str, Any]
) -> None:
    async with running(world) as runner:
        with pytest.raises(ValidationError):
            runner.population.add_agent(name, agent or world.agent([DONE]), initial)
        assert runner.population.state.agents == {}
        assert runner.population.add_agent("", world.agent([DONE]), {}) == ""
        assert runner.population.state.agents == {}


async def test_a_pause_lets_the_present_attempt_end_and_starts_no_other_until_resumed(
    world: World,
) -> None:
    async with running(world, retry_interval=NEVER) as runner:
        population = runner.population
        population.add_agent("bob", world.agent(crashes_then(world, DONE)), {"title": "T"})
        await runner.at("bob", "Working")
        assert population.pause_agent("bob")
        assert population.get_active_agents() == {}
        assert not population.pause_agent("bob")
        (world.folder / "go").touch()
        await runner.at("bob", "Suspended")
        assert [row.outcome for row in await world.store.attempts("bob")] == ["error"]
        assert population.resume_agent("bob")
        assert not population.resume_agent("bob")
        await runner.at("bob", "BackingOff")
        assert set(population.get_active_agents()) == {"bob"}


async def test_an_agent_that_was_added_this_moment_can_be_paused(world: World) -> None:
    async with running(world) as runner:
        population = runner.population
        population.add_agent("bob", world.agent(crashes_then(world, DONE)), {"title": "T"})
        assert population.pause_agent("bob")
        (world.folder / "go").touch()
        await runner.at("bob", "Suspended")
        assert population.resume_agent("bob")
        result = await runner.over("bob")
        assert result.result_type is LoopResultType.TASK_COMPLETE


async def test_a_turn_is_an_attempt_that_gets_its_place_and_pauses_end_after_theirs(
    world: World,
) -> None:
    async with running(world, retry_interval=NEVER) as runner:
        population = runner.population
        population.add_agent("bob", world.agent(crashes_then(world, DONE)), {"title": "T"})
        await runner.at("bob", "Working")
        assert population.state.turn == 1
        population.pause_agent("bob", 2)
        (world.folder / "go").touch()
        await runner.at("bob", "Suspended")
        done = world.agent([*commit("z.txt"), DONE])
        population.add_agent("eve", done, {"title": "E"})
        await runner.over("eve")
        assert (population.state.turn, population.state.auto_resume) == (2, {"bob": 1})
        assert await world.store.all(TURNS) == {"bob": {"turns": 1}}
        population.add_agent("joe", done, {"title": "J"})
        await runner.over("joe")
        assert population.state.paused_agents == set()
        await runner.at("bob", "BackingOff")
        assert await world.store.all(TURNS) == {}
    done_by = [log for log in runner.logs if log["event"] == "lifecycle_operation"]
    assert [(log["operation"], log["agent_name"], log["turn"]) for log in done_by] == [
        ("add_agent", "bob", 0),
        ("pause_agent", "bob", 1),
        ("add_agent", "eve", 1),
        ("add_agent", "joe", 2),
        ("resume_agent", "bob", 3),
    ]


async def test_turns_pass_also_when_all_are_paused(world: World) -> None:
    async with running(world) as runner:
        population = runner.population
        population.add_agent("bob", world.agent(crashes_then(world, DONE)), {"title": "T"})
        await runner.at("bob", "Working")
        population.pause_agent("bob", 3)
        (world.folder / "go").touch()
        result = await runner.over("bob")
        assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
        resumed = [
            entry.event
            for entry in await world.store.journal("bob")
            if isinstance(entry.event, on.ResumeRequested)
        ]
        assert [event.by for event in resumed] == ["auto-resume"]


async def test_one_that_is_removed_is_ended_and_its_work_is_kept(world: World) -> None:
    async with running(world) as runner:
        population = runner.population
        population.add_agent("bob", world.agent([*commit("x.txt"), UP, HANG]), {"title": "T"})
        await runner.at("bob", "Working")
        folder = world.workspace.with_name("bob")
        await until((folder / "up.txt").exists)
        population.pause_agent("bob", 5)
        assert population.remove_agent("bob")
        assert not population.remove_agent("bob")
        assert population.state.auto_resume == {}
        result = await runner.over("bob")
        assert result.error == "person: rejected by ada: removed from the population"
        assert world.marked() == []
        assert not folder.exists()
        assert "x.txt" in world.git("ls-tree", "--name-only", "refs/loopwright/saved/bob/head")


async def test_what_people_ask_for_by_request_shows_in_the_population(world: World) -> None:
    async with running(world, retry_interval=NEVER) as runner:
        population = runner.population
        population.add_agent("bob", world.agent([HANG]), {"title": "T"})
        await runner.at("bob", "Working")
        at = time.time()  # noqa: TID251  # people have clocks
        await world.store.put(TURNS, "bob", {"turns": 4})
        await world.store.ask("bob", on.PauseRequested(at=at, by="eve"))
        await until(lambda: population.state.auto_resume == {"bob": 4})
        assert population.state.paused_agents == {"bob"}
        await world.store.ask("bob", on.ResumeRequested(at=at, by="eve"))
        await until(lambda: not population.state.paused_agents)
        assert population.state.auto_resume == {}
        await until(lambda: not world.store._documents[TURNS])


async def test_what_a_person_stopped_does_not_go_on_by_itself(world: World) -> None:
    async with running(world, retry_interval=NEVER) as runner:
        population = runner.population
        population.add_agent("bob", world.agent([HANG]), {"title": "T"})
        await runner.at("bob", "Working")
        population.pause_agent("bob", 1)
        at = time.time()  # noqa: TID251  # people have clocks
        await world.store.ask("bob", on.StopRequested(at=at, by="eve", pause=True))
        result = await runner.over("bob")
        assert result.result_type is LoopResultType.SHUTDOWN
        assert population.state.paused_agents == {"bob"}
        assert population.state.auto_resume == {}
        assert population.next_turn() == []
        assert population.resume_agent("bob")
        await runner.at("bob", "Working")
        assert population.state.paused_agents == set()


async def test_turns_that_are_left_outlive_the_runner(world: World) -> None:
    agent, task = world.agent(crashes_then(world, DONE), "bob"), Task(id="T", title="T")
    async with running(world, retry_interval=NEVER) as runner:
        runner.begin(agent, task)
        await runner.at("bob", "Working")
        runner.population.pause_agent("bob", 3)
        (world.folder / "go").touch()
        await runner.at("bob", "Suspended")
        runner.population.next_turn()
    record = await world.record("bob")
    assert isinstance(record.work, Suspended)
    async with running(world, held=("bob",), retry_interval=NEVER) as runner:
        assert runner.population.state.paused_agents == {"bob"}
        assert runner.population.state.auto_resume == {"bob": 2}
        runner.begin(agent, task, resume=False)
        await runner.at("bob", "Suspended")
        assert runner.population.next_turn() == []
        assert runner.population.next_turn() == ["bob"]
        await runner.at("bob", "BackingOff")


async def test_a_plan_may_bring_more_than_the_limit_and_then_nobody_can_be_added(
    world: World,
) -> None:
    hang = world.agent([HANG])
    async with running(world, max_live_agents=1) as runner:
        for number in range(26):
            each = hang.model_copy(update={"agent_id": f"a{number}"})
            runner.begin(each, Task(id=f"T{number}"))
        await until(lambda: len(runner.engine.owners()) == 26)
        assert runner.population.add_agent("bob", hang, {"title": "T"}) == "bob"
        assert "bob" not in runner.population.state.agents
        assert runner.population.remove_agent("a25")
        await runner.over("a25")
        assert len(runner.population.state.agents) == 25


async def test_each_change_of_a_setting_is_held_once_with_what_it_was(world: World) -> None:
    async with running(world, max_retries=7) as runner:
        held = runner.trail._entries
        began = {entry.subject: json.loads(entry.details) for entry in held}
        assert began["max_retries"] == {"from": 100, "to": 7}
        assert {entry.action for entry in held} == {"setting"}
        count = len(held)
        world.settings["max_retries"] = 8
        runner.population.next_turn()
        await until(lambda: len(held) > count)
        entry = held[-1]
        assert (entry.actor, entry.subject, entry.outcome) == ("ada", "max_retries", "changed")
        assert json.loads(entry.details) == {"from": 7, "to": 8}
    world.settings["stop_grace"] = 0.2
    async with running(world, max_retries=8) as runner:
        assert [entry.subject for entry in runner.trail._entries] == ["stop_grace"]
