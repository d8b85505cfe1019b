"""What a runner ends because it has to, or what is ended in its place, was interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.engine.engine import LocalEngine
from lifecycle.machine import events as on
from lifecycle.owner.owner import Owner
from lifecycle.plan import Agent
from tests.lifecycle.engine.simulated import Life
from tests.lifecycle.engine.stories import AGENT, Play, Story

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.services import MachineServices

TAKEN = "its lock is another runner's"
DONE = {"type": "task_complete", "summary": "done"}
HANGS = Story({1: [("dirty", "d.txt")], 0: [("commit", "d.txt"), ("say", DONE), ("exit", 0)]})


class Ousted(Play):
    """A story in which another runner takes the lock and ends the first agent; then all is well."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kills = 0
        self.world.people += [(self._hangs, self._kill), (self._hangs, self._kill)]

    def _hangs(self) -> bool:
        alive = self.world.alive()
        return bool(alive) and not alive[0].steps

    def _kill(self) -> None:
        self.kills += 1
        self.world.alive()[0].end(None, 15)

    def _machine(self, life: Life, clock: SteppedClock) -> MachineServices:
        machine, asked = super()._machine(life, clock), [TAKEN]
        machine.shared.gone = lambda: asked.pop() if asked and self.kills == 1 else ""
        return machine


async def test_an_agent_that_another_runner_ended_was_interrupted_and_one_that_others_killed_not(
    tmp_path: Path,
) -> None:
    play = await Ousted(HANGS, tmp_path / "play").to_the_end()
    ends = [entry.event for entry in await play.store.journal(AGENT)]
    told = [event.interrupted for event in ends if isinstance(event, on.AgentExited)]
    assert told == [TAKEN, ""], "the third signalled and was stopped"
    attempts = [actor.attempt for actor in play.world.actors.values()]
    assert attempts == [1, 1, 2]
    rows = await play.store.attempts(AGENT)
    assert [row.outcome for row in rows] == ["killed", "task_complete"]
    record = await play.store.get(AGENT)
    assert record is not None
    assert record.work is not None
    assert (record.work.tally.interruptions, record.work.tally.retry_count) == (1, 1)


@pytest.mark.parametrize(
    ("how", "is_ours"),
    [
        ({"signal": 15}, True),
        ({"signal": 9}, True),
        ({"exit_code": 143}, True),
        ({"exit_code": 1}, False),
        ({"exit_code": 0}, False),
    ],
)
async def test_an_agent_that_is_killed_while_its_runner_shuts_down_was_interrupted(
    tmp_path: Path,
    how: dict[str, Any],
    is_ours: bool,  # noqa: FBT001  # a parameter
) -> None:
    play = Play(HANGS, tmp_path / "play")
    engine = LocalEngine(play._machine(Life(), SteppedClock()))
    owner = await engine._own(Agent(agent_id=AGENT, command=("agent",)), HANGS.task)
    assert isinstance(owner, Owner)
    exited = on.AgentExited(at=1.0, attempt=1, **how)
    owner.emit(exited)
    owner.drain()
    owner.emit(exited)
    before, during = (owner._inbox.take().event for _ in range(2))
    assert before == exited, "nobody shut anything down then"
    assert isinstance(during, on.AgentExited)
    assert bool(during.interrupted) == is_ours
