"""The simulated world with a clock: agents take their time, providers have their bad hours.

It keeps a diary of every process: what it was told to do, what it reported, how it ended. The
oracle reads only that, and the script.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci.interface import PullRequestState
from tests.lifecycle.engine.simulated import World
from tests.lifecycle.night import lines as said
from tests.lifecycle.night.script import MINUTE, steps_of

if TYPE_CHECKING:
    from runtime.process import SpawnOrder
    from tests.lifecycle.engine.simulated import Actor
    from tests.lifecycle.night.script import Deed, Job, Night, Trouble

CI_TAKES, MERGE_TAKES = 7 * MINUTE, 25 * MINUTE
AT_FIRST = 20.0
ASKS_AGAIN = 4 * MINUTE
OURS = ("wait", "work", "meet", "gate", "end", "fail", "stay", "signal")
"""What agents of the night do beside what agents of all stories do."""


@dataclass(eq=False)
class Ran:
    """One process, as the world saw it."""

    agent_id: str
    attempt: int
    program: str
    mark: str
    life: int
    began: float
    deed: Deed | None = None
    met: Trouble | None = None
    """The trouble that it met."""
    ended: float | None = None
    by_itself: bool = False
    word: str = ""
    told: str = ""
    """What it told of its end, in the words of the documentation."""
    used: int = 0
    tokens: int = 0
    """Reported so far."""
    cost: float | None = None


@dataclass
class Diary:
    """What happened, in order."""

    runs: list[Ran] = field(default_factory=list)
    lives: list[tuple[float, float | None]] = field(default_factory=list)
    """When each runner began, and died."""
    resumed: list[tuple[float, str, str]] = field(default_factory=list)
    """When a person asked to go on, and what she saw."""


class NightWorld(World):
    """Everybody outside of the runner, for a whole night."""

    def __init__(self, folder: Path, night: Night) -> None:
        super().__init__(folder, {}, gates={})
        self.night = night
        self.diary = Diary()
        self.life = -1
        self.jobs: dict[str, Job] = {job.agent.agent_id: job for job in night.jobs}
        self.asked: list[str] = []
        """Who asked a person for something; whoever tends to that takes it off."""
        self._runs: dict[str, Ran] = {}
        self._open: dict[str, Ran] = {}
        self._due: dict[str, float] = {}
        self._deeds: dict[tuple[str, int], Deed] = {}
        self._next: dict[str, int] = {}
        self._mute: set[str] = set()
        self._ci_due: dict[object, float] = {}

    # --- time ---------------------------------------------------------------------------------

    def step(self) -> bool:
        """Let one of those whose time has come do one thing."""
        for actor in self.alive():
            if actor.steps and self._due[actor.mark] <= self.now:
                self._act(actor, *actor.steps.popleft())
                return True
        return self._ci_step()

    def next_due(self) -> float | None:
        """Return when somebody outside does the next thing."""
        dues = [self._due[each.mark] for each in self.alive() if each.steps]
        forge = self.forge
        dues += [self._ci_due.get(each, self.now) for each in (*forge.building, *forge.merging)]
        return min(dues, default=None)

    def _ci_step(self) -> bool:
        forge = self.forge
        for branch, sha in tuple(forge.building):
            if branch in self._mute:
                forge.building.remove((branch, sha))
            elif self._ci_due.setdefault((branch, sha), self.now + CI_TAKES) <= self.now:
                forge.building.remove((branch, sha))
                forge.building.appendleft((branch, sha))
                return forge.step()
        for number in tuple(forge.merging):
            if self._ci_due.setdefault(number, self.now + MERGE_TAKES) <= self.now:
                held, forge.building = forge.building, deque()
                forge.fate = PullRequestState.MERGED
                forge.merging.remove(number)
                forge.merging.appendleft(number)
                done = forge.step()
                forge.building = held
                return done
        return False

    # --- what a process does ------------------------------------------------------------------

    def steps_of(self, order: SpawnOrder) -> list[tuple[str, Any]]:
        """Begin a process: what it does depends on the script and on what is in its way now."""
        name = Path(order.command[0]).name
        program = "" if name == "agent" else name
        key = order.agent_id, order.attempt
        ran = Ran(order.agent_id, order.attempt, program, order.spawn_id, self.life, self.now)
        self._runs[order.spawn_id] = self._open[order.spawn_id] = ran
        self.diary.runs.append(ran)
        self._due[order.spawn_id] = self.now
        self._mute.discard(f"agent/{order.agent_id}")
        begins = {"claude": said.claude_begins, "codex": said.codex_begins}.get(program, list)()
        trouble = self.night.trouble(program, self.now)
        if trouble is not None and not (program == "codex" and trouble.kind == "network"):
            return [("write", begins), ("wait", AT_FIRST), ("meet", trouble)]
        if key not in self._deeds:
            deeds = self.jobs[order.agent_id].deeds
            index = self._next.get(order.agent_id, 0)
            self._deeds[key] = deeds[min(index, len(deeds) - 1)]
            self._next[order.agent_id] = index + 1
        ran.deed = deed = self._deeds[key]
        return [("write", begins), ("wait", AT_FIRST), *steps_of(deed, order.attempt)]

    def _act(self, actor: Actor, verb: str, what: Any) -> None:
        ran = self._runs[actor.mark]
        if verb == "write":
            self._write(actor, what)
            return
        does = getattr(self, f"_{verb}", None) if verb in OURS else None
        if does is not None:
            does(actor, ran, what)
            return
        ran.by_itself = ran.by_itself or verb == "exit"
        super()._act(actor, verb, what)

    def _wait(self, actor: Actor, ran: Ran, seconds: float) -> None:
        self._due[ran.mark] = self.now + seconds
        assert actor.alive

    def _gate(self, actor: Actor, ran: Ran, code: int) -> None:
        self.gates[f"check {self.jobs[actor.agent_id].task.id}"] = code
        assert ran.ended is None

    def _end(self, actor: Actor, ran: Ran, what: None) -> None:
        self._write(actor, self._last_lines(ran))
        ran.told = "no_breakpoint"
        assert what is None

    def _stay(self, actor: Actor, ran: Ran, what: None) -> None:
        assert actor.alive
        assert ran.ended is None
        assert what is None

    def _signal(self, actor: Actor, ran: Ran, number: int) -> None:
        ran.told, ran.by_itself = "crash", True
        actor.end(None, number)

    def _work(self, actor: Actor, ran: Ran, what: tuple[int, int]) -> None:
        number, tokens = what
        trouble = self.night.trouble(ran.program, self.now)
        if trouble is not None:
            if trouble.kind == "network" and ran.program == "codex":
                # It waits until the network is there again, for ever if need be.
                self._write(actor, [said.CODEX_WAITS])
                actor.steps.extendleft([("work", (number, tokens)), ("wait", ASKS_AGAIN)])
            else:
                actor.steps.clear()
                self._meet(actor, ran, trouble)
            return
        ran.used += tokens
        if ran.program == "claude":
            ran.tokens = ran.used
            self._write(actor, said.claude_step(number, tokens))
        elif ran.program == "codex":
            self._write(actor, said.codex_step(number))
        else:
            self._write(actor, [f"step {number}"])

    def _last_lines(self, ran: Ran) -> list[str]:
        if ran.program == "claude":
            ran.cost = said.cost_of(ran.used)
            return said.claude_ends(ran.used)
        if ran.program == "codex":
            ran.tokens = ran.used
            return said.codex_ends(ran.used)
        return ["done"]

    def _meet(self, actor: Actor, ran: Ran, trouble: Trouble) -> None:
        ran.met = trouble
        self._fail(actor, ran, trouble.kind, trouble.until if trouble.named else None)
        actor.steps.append(("exit", 1))

    def _fail(self, actor: Actor, ran: Ran, kind: str, reset: float | None = None) -> None:
        ran.told = kind
        if ran.program == "claude":
            ran.cost = said.cost_of(ran.used)
            lines = said.claude_fails(kind, ran.used, reset)
        elif ran.program == "codex":
            lines = said.codex_fails(kind, reset)
        else:
            # Its words are its own: only its exit code tells.
            ran.told, ran.met = "error", None
            lines = [said.COMMAND_ERRORS[kind]]
        self._write(actor, lines)

    def _write(self, actor: Actor, lines: list[str]) -> None:
        actor.order.log.parent.mkdir(parents=True, exist_ok=True)
        with actor.order.log.open("a") as log:
            log.write("".join(f"{each}\n" for each in lines))

    def _say(self, actor: Actor, word: dict[str, Any]) -> None:
        ran = self._runs[actor.mark]
        ran.word = word["type"]
        kind = ran.deed.kind if ran.deed is not None else ""
        if kind in ("ask", "block_person"):
            self.asked.append(ran.agent_id)
        if kind in ("block_person", "block_for_ever"):
            self._mute.add(f"agent/{ran.agent_id}")
        super()._say(actor, word)

    # --- the diary ----------------------------------------------------------------------------

    def note_ends(self) -> None:
        """Write down who is gone; to be called before time goes on."""
        for mark, ran in tuple(self._open.items()):
            actor = self.actors.get(mark)
            if actor is None or actor.alive:
                continue
            del self._open[mark]
            ran.ended = self.now
