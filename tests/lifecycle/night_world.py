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
from tests.lifecycle import night_lines as said
from tests.lifecycle.night_deeds import steps_of
from tests.lifecycle.night_script import MINUTE
from tests.lifecycle.simulated import BASE, KILL, World

if TYPE_CHECKING:
    from runtime.process import SpawnOrder
    from tests.lifecycle.night_script import Deed, Job, Night, Trouble
    from tests.lifecycle.simulated import Actor

CI_TAKES, MERGE_TAKES = 7 * MINUTE, 25 * MINUTE
AT_FIRST = 20.0
ASKS_AGAIN = 4 * MINUTE
OURS = ("wait", "write", "work", "meet", "gate", "end", "fail", "flood", "stay", "signal")
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
    signal: int | None = None
    by_itself: bool = False
    word: str = ""
    words: str = ""
    told: str = ""
    """What it told of its end, in the words of the documentation."""
    flooded: bool = False
    stays: bool = False
    waits: bool = False
    """It asks in vain for the network."""
    waited: float = 0.0
    """When it last did."""
    silent_since: float = 0.0
    used: int = 0
    tokens: int = 0
    """Reported so far."""
    cost: float | None = None
    tree: str = ""
    fresh: bool = False
    """Its workspace was not yet touched when it ended."""


@dataclass
class Diary:
    """What happened, in order."""

    runs: list[Ran] = field(default_factory=list)
    lives: list[tuple[float, float | None]] = field(default_factory=list)
    """When each runner began, and died."""
    woken: list[tuple[float, str, str]] = field(default_factory=list)
    """When something that an agent waits for happened."""
    resumed: list[tuple[float, str, str]] = field(default_factory=list)
    """When a person asked to go on, and what she saw."""
    crowded: list[tuple[float, int]] = field(default_factory=list)
    """How many were alive, at each change."""


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
                self.diary.woken.append((self.now, branch.removeprefix("agent/"), "ci"))
                return forge.step()
        for number in tuple(forge.merging):
            if self._ci_due.setdefault(number, self.now + MERGE_TAKES) <= self.now:
                held, forge.building = forge.building, deque()
                forge.fate = PullRequestState.MERGED
                forge.merging.remove(number)
                forge.merging.appendleft(number)
                branch = forge.pulls[number - 1].branch
                self.diary.woken.append((self.now, branch.removeprefix("agent/"), "pr"))
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
        ran.silent_since = self.now
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
        self._write(actor, ran, self._last_lines(ran))
        ran.told = "no_breakpoint"
        assert what is None

    def _flood(self, actor: Actor, ran: Ran, lines: int) -> None:
        self._write(actor, ran, ['{"type":"item.updated"}'] * lines)
        ran.flooded = True

    def _stay(self, actor: Actor, ran: Ran, what: None) -> None:
        ran.stays = True
        assert actor.alive
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
                ran.waits, ran.waited = True, self.now
                self._write(actor, ran, [said.CODEX_WAITS])
                actor.steps.extendleft([("work", (number, tokens)), ("wait", ASKS_AGAIN)])
            else:
                actor.steps.clear()
                self._meet(actor, ran, trouble)
            return
        ran.waits = False
        ran.used += tokens
        if ran.program == "claude":
            ran.tokens = ran.used
            self._write(actor, ran, said.claude_step(number, tokens))
        elif ran.program == "codex":
            self._write(actor, ran, said.codex_step(number))
        else:
            self._write(actor, ran, [f"step {number}"])

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
        self._write(actor, ran, lines)

    def _write(self, actor: Actor, ran: Ran, lines: list[str]) -> None:
        ran.silent_since = self.now
        actor.order.log.parent.mkdir(parents=True, exist_ok=True)
        with actor.order.log.open("a") as log:
            log.write("".join(f"{each}\n" for each in lines))

    def _say(self, actor: Actor, word: dict[str, Any]) -> None:
        ran = self._runs[actor.mark]
        ran.word, ran.words = word["type"], str(sorted(word.items()))
        kind = ran.deed.kind if ran.deed is not None else ""
        if kind in ("ask", "block_person"):
            self.asked.append(ran.agent_id)
        if kind in ("block_person", "block_for_ever"):
            self._mute.add(f"agent/{ran.agent_id}")
        super()._say(actor, word)

    # --- the diary ----------------------------------------------------------------------------

    def note_ends(self) -> None:
        """Write down who is gone; to be called before time goes on."""
        before = len(self._open)
        for mark, ran in tuple(self._open.items()):
            actor = self.actors.get(mark)
            if actor is None or actor.alive:
                continue
            del self._open[mark]
            space = self.spaces[ran.agent_id]
            ran.ended = self.now
            ran.signal = actor.how.signal if actor.how else KILL
            ran.tree = f"{space.head} {sorted(space.dirty)}"
            ran.fresh = space.head == BASE and not space.dirty
        if len(self._open) != before or not self.diary.crowded:
            self.diary.crowded.append((self.now, len(self._open)))
        elif self.diary.crowded[-1][1] != before:
            self.diary.crowded.append((self.now, before))
