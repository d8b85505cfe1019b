"""The rules every engine keeps: it decides as the machine does, whatever dies or comes twice.

An engine joins by a module with a subclass of `EngineContract`, or of some of its groups, and a
fixture `plays`. Nothing here
knows an engine but by its port and the store; the world around it is simulated.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from lifecycle.errors import LifecycleError
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import AwaitingHuman, Blocked, Capturing, Rejected
from lifecycle.machine.table import IllegalTransition, decide
from lifecycle.plan import Agent
from lifecycle.record import AgentLifecycle, PendingEffect, Transaction
from lifecycle.result import LoopResultType
from lifecycle.working_copy import facts_of
from tests.lifecycle.engine.stories import AGENT, DEMO, Play, Story, crowd
from tests.lifecycle.every_state import EVERY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lifecycle.engine.port import Engine
    from lifecycle.machine.events import Event

EVERY_PLACE = bool(os.environ.get("LOOPWRIGHT_EVERY_CRASH"))
"""Set by `make crash`, engines crash at each place; else at each seventh, each story at others."""
APART, PAIRS, WALKS = (1, 12, 48) if EVERY_PLACE else (7, 3, 6)
DONE = {"type": "task_complete", "summary": "done"}
STORIES = {
    "the demo": Story(DEMO),
    "agents that linger at their breakpoints": Story(
        {number: steps[:-1] for number, steps in DEMO.items()}
    ),
    "an agent that always fails": Story(
        {0: [("commit", "z.txt"), ("exit", 1)]}, settings={"max_retries": 2}
    ),
    "gates that stay red": Story(
        {0: [("commit", "z.txt"), ("say", DONE), ("exit", 0)]},
        gates={"test": 1},
        settings={"max_retries": 1},
    ),
    "files left uncommitted, then done": Story(
        {1: [("dirty", "d.txt"), ("say", DONE)], 0: [("commit", "d.txt"), ("say", DONE)]}
    ),
    "red CI unblocks too": Story(DEMO, red_builds=frozenset({1})),
    "a question that is answered": Story(
        {1: [("say", {"type": "question", "question": "Tabs or spaces?"}), ("exit", 0)],
         2: [("commit", "x.txt"), ("say", DONE), ("exit", 0)]},
        people=(("AwaitingHuman", lambda at: on.Answered(at=at, by="Ada", text="Spaces.")),),
    ),
    "accepted at the end": Story(
        {1: [("commit", "x.txt"), ("say", DONE), ("exit", 0)]},
        people=(("Completed", lambda at: on.AcceptRequested(at=at, by="Ada")),),
    ),
    "rejected at the end": Story(
        {1: [("commit", "x.txt"), ("say", DONE), ("exit", 0)]},
        people=(("Completed", lambda at: on.RejectRequested(at=at, by="Ada", why="no")),),
    ),
    "paused and resumed while blocked": Story(
        {1: [("say", {"type": "blocked", "blocked_on": ["keys"]}), ("exit", 0)],
         2: [("say", DONE), ("exit", 0)]},
        people=(("Blocked", lambda at: on.PauseRequested(at=at, by="Ada")),
                ("Suspended", lambda at: on.ResumeRequested(at=at, by="Ada")),
                ("Blocked", lambda at: on.Unblocked(at=at, by="Ada", note="there"))),
        with_ci=False,
    ),
    "rejected while the agent works": Story(
        {1: [("dirty", "x.txt")]},
        people=(("Working", lambda at: on.RejectRequested(at=at, by="Ada", why="no")),),
    ),
    "blocked until a person unblocks": Story(
        {1: [("say", {"type": "blocked", "blocked_on": ["keys"]}), ("exit", 0)],
         2: [("say", DONE), ("exit", 0)]},
        people=(("Blocked", lambda at: on.Unblocked(at=at, by="Ada", note="there")),),
        with_ci=False,
    ),
    "a budget of two attempts": Story(
        {0: [("commit", "z.txt"), ("exit", 1)]}, settings={"budget_attempts": 2}
    ),
}  # fmt: skip
ENDS = {
    "the demo": ("Completed", 3, 0, ["blocked", "pr_created", "task_complete"]),
    "agents that linger at their breakpoints": (
        *("Completed", 3, 0), ["blocked", "pr_created", "task_complete"]
    ),
    "an agent that always fails": ("Rejected", 3, 2, ["error", "error", "error"]),
    "gates that stay red": ("Rejected", 2, 1, ["gate_failed", "gate_failed"]),
    "files left uncommitted, then done": ("Completed", 2, 1, ["gate_failed", "task_complete"]),
    "red CI unblocks too": ("Completed", 3, 0, ["blocked", "pr_created", "task_complete"]),
    "a question that is answered": ("Completed", 2, 0, ["question", "task_complete"]),
    "accepted at the end": ("Accepted", 1, 0, ["task_complete"]),
    "rejected at the end": ("Rejected", 1, 0, ["task_complete"]),
    "paused and resumed while blocked": ("Completed", 2, 0, ["blocked", "task_complete"]),
    "rejected while the agent works": ("Rejected", 1, 0, ["interrupted"]),
    "blocked until a person unblocks": ("Completed", 2, 0, ["blocked", "task_complete"]),
    "a budget of two attempts": ("Rejected", 2, 2, ["error", "error"]),
}  # fmt: skip
"""The last work state, attempts, charged retries, and how the attempts ended."""
SURE = tuple(name for name in STORIES if "budget" not in name)
"""Those that end in the same way whoever dies: what was begun in vain counts for a budget."""
GOING_ON = (
    "the demo",
    "agents that linger at their breakpoints",
    "gates that stay red",
    "a question that is answered",
)
"""Those in which agents and CI have much to do while no runner runs."""
CRASHED = (
    *((name, "frozen") for name in SURE if name != "red CI unblocks too"),
    *((name, "going on") for name in GOING_ON),
)
ASKED: tuple[Callable[[float], Event], ...] = (
    lambda at: on.PauseRequested(at=at, by="Ada"),
    lambda at: on.ResumeRequested(at=at, by="Ada"),
    lambda at: on.StopRequested(at=at, by="Ada"),
    lambda at: on.AcceptRequested(at=at, by="Ada"),
    lambda at: on.RejectRequested(at=at, by="Ada", why="no"),
    lambda at: on.Unblocked(at=at, by="Ada", note="there"),
    lambda at: on.Answered(at=at, by="Ada", text="Spaces."),
    lambda at: on.Guided(at=at, by="Ada", text="mind the sums"),
)
"""What people ask for."""


class Plays(Protocol):
    """Makes the stage for a story, with the engine under test; each has a store of its own."""

    def __call__(self, name: str, story: Story) -> Play: ...


async def played(plays: Plays, name: str, story: Story, *crashes: int, **more: Any) -> Play:
    play = await plays(name, story).to_the_end(*crashes, **more)
    await play.check()
    return play


class SameDecisions:
    """An engine decides as the machine does."""

    @pytest.mark.parametrize("name", STORIES)
    async def test_every_story_ends_as_the_machine_decides(self, plays: Plays, name: str) -> None:
        play = await played(plays, "one", STORIES[name])
        picture = await play.picture()
        outcomes = [outcome for _, outcome, _, _ in picture["ledger"]]
        told = (picture["work"], picture["attempts"], picture["retry_count"], outcomes)
        assert told == ENDS[name], told

    async def test_the_ledger_and_the_audit_are_the_same_each_time(self, plays: Plays) -> None:
        first, again = [await played(plays, name, STORIES["the demo"]) for name in ("one", "two")]
        assert await first.picture() == await again.picture()
        assert await first.audit() == await again.audit()
        assert await first.audit()


class AskedInAnyState:
    """People are answered alike, whoever decides."""

    @pytest.mark.parametrize("number", range(len(EVERY)))
    async def test_what_people_ask_of_any_state_comes_to_what_the_machine_says(
        self, plays: Plays, number: int
    ) -> None:
        state = EVERY[number][0]
        for place, asked in enumerate(ASKED):
            play = plays(str(place), Story({}))
            event, agent = asked(play.world.now), Agent(agent_id=AGENT, command=("agent",))
            record = AgentLifecycle(
                agent_id=AGENT, task="T", task_id="T001", work=state,
                facts=facts_of(play.story.task, agent),
            )  # fmt: skip
            record.derive()
            await play.store.create(record)
            if isinstance(state, Capturing):
                order = do.TakeSnapshot(attempt=state.tally.attempt)
                ordered = PendingEffect(effect_id="e", agent_id=AGENT, effect=order)
                await play.store.commit(Transaction(record=record, effects=(ordered,)))
            refused = ""
            async with play.engine() as engine:
                try:
                    await engine.ask(AGENT, event)
                except LifecycleError as problem:
                    refused = str(problem)
            journal = await play.store.journal(AGENT)
            assert await play.store.requests() == ()
            now = await play.store.get(AGENT)
            assert now is None or await play.replayed(state) == now.work
            if any(isinstance(entry.event, type(event)) for entry in journal):
                assert not refused
            elif not refused:  # then it came to nothing, by the machine's own word
                assert now is not None
                assert now.work is not None
                assert decide(now.work, event, play.policy()).state == now.work


class Refusals:
    """What is not possible is said so."""

    async def test_what_the_machine_forbids_is_refused_with_its_words(self, plays: Plays) -> None:
        play = await played(plays, "one", STORIES["rejected at the end"])
        async with play.engine() as engine:
            asked = on.ResumeRequested(at=play.world.now, by="Ada")
            with pytest.raises(IllegalTransition) as machine:
                decide(await play.replayed(), asked, play.policy())
            assert machine.value.why
            with pytest.raises(LifecycleError, match=f"{AGENT} is rejected; {machine.value.why}"):
                await engine.ask(AGENT, asked)

    async def test_what_is_asked_in_vain_is_refused_with_what_is_the_case(
        self, plays: Plays
    ) -> None:
        play = await played(plays, "one", STORIES["the demo"])
        async with play.engine() as engine:
            for asked in (on.PauseRequested, on.StopRequested, on.ResumeRequested):
                with pytest.raises(LifecycleError, match=f"{AGENT} is done; there is nothing to"):
                    await engine.ask(AGENT, asked(at=play.world.now, by="Ada"))


class Crashes:
    """An engine may die anywhere."""

    apart, pairs, deaths = APART, PAIRS, 60
    """Each so manieth place; pairs of places; places at the beginning, one after the other."""

    @pytest.mark.parametrize(("name", "meanwhile"), CRASHED)
    async def test_a_crash_at_any_point_ends_in_the_same_record(
        self, plays: Plays, name: str, meanwhile: str
    ) -> None:
        """`going on`: agents and CI do all they can while no runner runs; else they stand still."""
        story = STORIES[name]
        whole = await played(plays, "whole", story)
        picture = await whole.picture()
        places = whole.lives[0].passed
        first = (2 * list(STORIES).index(name) + (meanwhile == "frozen")) % self.apart
        for number, place in list(enumerate(places, 1))[first :: self.apart]:
            play = await played(plays, str(number), story, number, goes_on=meanwhile == "going on")
            assert await play.picture() == picture, f"crash {number} of {len(places)}: {place}"
            assert len(play.lives) == 2

    @pytest.mark.parametrize("name", SURE)
    async def test_two_crashes_in_a_row_end_in_the_same_record(
        self, plays: Plays, name: str
    ) -> None:
        story = STORIES[name]
        whole = await played(plays, "whole", story)
        picture = await whole.picture()
        last = len(whole.lives[0].passed)
        chance = random.Random(name)  # noqa: S311  # the same pairs in each run
        for number in range(self.pairs):
            first, second = chance.randint(1, last), chance.randint(1, last // 2)
            goes_on = chance.random() < 0.5
            play = await played(plays, str(number), story, first, second, goes_on=goes_on)
            passed = [life.passed[-1:] for life in play.lives]
            assert await play.picture() == picture, f"crashes {first}, {second}: {passed}"

    async def test_an_engine_that_dies_at_each_of_its_first_acts_is_survived(
        self, plays: Plays
    ) -> None:
        story = STORIES["the demo"]
        picture = await (await played(plays, "whole", story)).picture()
        play = await played(plays, "many", story, *range(1, self.deaths))
        assert await play.picture() == picture


class Disorder:
    """Facts may come twice, late, and in any order."""

    @pytest.mark.parametrize("seed", range(WALKS))
    async def test_facts_that_come_twice_late_or_in_another_order_break_nothing(
        self, plays: Plays, seed: int
    ) -> None:
        chance = random.Random(seed)  # noqa: S311  # the same walk in each run
        script = {**DEMO, 0: [("say", DONE), ("exit", 0)]}
        play = plays("one", Story(script, red_builds=frozenset({chance.randint(1, 3)})))
        play.world.chance = chance
        known: dict[int, Event] = {}

        again: list[asyncio.Future[None]] = []

        async def meddle(engine: Engine) -> None:
            events = play.world.forge.events
            match chance.randrange(6):
                case 0 if events:
                    engine.hear(chance.choice(events))
                case 1:
                    if (asked := await play.guided()) is not None:
                        known[asked.request_id] = asked.event
                case 2 if known:
                    # The same request, handed in by somebody who does not know that it was.
                    request = chance.choice(list(known))
                    again.append(
                        asyncio.ensure_future(play.asked_again(engine, request, known[request]))
                    )
                case 3:
                    await engine.settle("T001")

        play.meddle = meddle
        await play.to_the_end(*(chance.randint(1, 80) for _ in range(chance.randrange(3))))
        await play.check()
        journal = await play.store.journal(AGENT)
        heard = [entry.event.text for entry in journal if isinstance(entry.event, on.Guided)]
        assert len(heard) == len(set(heard)) <= len(known)
        assert all([await play.store.request_outcome(each) is not None for each in known])


class Requests:
    """What is asked takes effect once."""

    async def test_a_request_takes_effect_once_however_often_it_is_asked(
        self, plays: Plays
    ) -> None:
        play = await played(plays, "one", Story({1: [("say", DONE), ("exit", 0)]}))
        event = on.Guided(at=play.world.now, by="Ada", text="mind the sums")
        request = await play.store.ask(AGENT, event)
        for _ in range(2):  # of an engine, and of the one after it
            async with play.engine() as engine:
                for _ in range(3):
                    await engine.ask(AGENT, event, request=request)
        journal = await play.store.journal(AGENT)
        assert sum(isinstance(entry.event, on.Guided) for entry in journal) == 1


class Deadlines:
    """Time passes for who waits, and for nobody who is paused."""

    async def test_a_deadline_that_passes_while_no_engine_lives_is_met_by_the_next(
        self, plays: Plays
    ) -> None:
        say = ("say", {"type": "blocked", "blocked_on": ["keys"]})
        story = Story({1: [say, ("exit", 0)]}, with_ci=False, settings={"blocked_timeout": 3600.0})
        play = plays("one", story)
        await play.until(Blocked)
        play.world.now += 7200.0
        await play.until(AwaitingHuman)
        await play.check(ends=False)

    async def test_no_deadline_passes_while_a_lifecycle_is_paused(self, plays: Plays) -> None:
        say = ("say", {"type": "blocked", "blocked_on": ["keys"]})
        story = Story({1: [say, ("exit", 0)]}, with_ci=False, settings={"blocked_timeout": 3600.0})
        play = plays("one", story)
        await play.until(Blocked)
        async with play.engine() as engine:
            await engine.ask(AGENT, on.PauseRequested(at=play.world.now, by="Ada"))
        play.world.now += 7200.0
        async with play.engine() as engine:
            record = await engine.ask(AGENT, on.ResumeRequested(at=play.world.now, by="Ada"))
        assert isinstance(record.work, Blocked)
        assert record.work.until > play.world.now


class Slots:
    """No more run at once than may."""

    async def test_no_more_agents_live_at_once_than_there_are_slots(
        self, plays: Plays, tmp_path: Path
    ) -> None:
        like = plays("one", Story(DEMO))
        play, results = await crowd(tmp_path / "crowd", 12, slots=3, like=like)
        assert {each.result_type for each in results} == {LoopResultType.TASK_COMPLETE}
        assert play.world.most_alive <= 3
        assert (play.world.doubled, play.world.alive()) == ([], [])


class BudgetsOverCrashes:
    """What was used stays used."""

    budget_apart = 7
    """Each so manieth place at which an engine dies."""

    async def test_a_budget_holds_over_a_crash(self, plays: Plays) -> None:
        story = STORIES["a budget of two attempts"]
        whole = await played(plays, "whole", story)
        for number in range(1, len(whole.lives[0].passed), self.budget_apart):
            play = await played(plays, str(number), story, number)
            record = await play.store.get(AGENT)
            assert record is not None
            assert isinstance(record.work, Rejected)
            assert record.work.tally.attempts == 2


class BeginningAndEnd:
    """One owner at a time, from the first call to the last."""

    async def test_a_lifecycle_runs_once_at_a_time_and_is_seen_while_it_does(
        self, plays: Plays
    ) -> None:
        play = plays("one", Story({1: [("dirty", "x.txt")]}))
        agent = Agent(agent_id=AGENT, command=("agent",))
        async with play.engine() as engine:
            run = asyncio.ensure_future(engine.run(agent, play.story.task))
            await play.settled()
            assert list(engine.running()) == [AGENT]
            with pytest.raises(LifecycleError, match="running already"):
                await engine.run(agent, play.story.task)
            engine.drain(AGENT)
            assert (await run).result_type is LoopResultType.SHUTDOWN
            assert not engine.running()
        await play.check(ends=False)

    async def test_nothing_begins_once_an_engine_is_shutting_down(self, plays: Plays) -> None:
        play = plays("one", Story(DEMO))
        async with play.engine() as engine:
            await engine.shutdown()
            agent = Agent(agent_id=AGENT, command=("agent",))
            result = await engine.run(agent, play.story.task)
        assert result.result_type is LoopResultType.SHUTDOWN
        assert play.world.actors == {}

    async def test_what_nobody_knows_cannot_be_asked(self, plays: Plays) -> None:
        play = plays("one", Story(DEMO))
        async with play.engine() as engine:
            with pytest.raises(LifecycleError, match="there is no lifecycle"):
                await engine.ask("agent-T404", on.AcceptRequested(at=play.world.now, by="Ada"))


class EngineContract(
    SameDecisions,
    AskedInAnyState,
    Refusals,
    Crashes,
    Disorder,
    Requests,
    Deadlines,
    Slots,
    BudgetsOverCrashes,
    BeginningAndEnd,
):
    """What is promised by every engine."""
