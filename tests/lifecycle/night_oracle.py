"""Says of a night what was not as it has to be; from the script and the diary alone.

What the runner kept is only looked at to be compared. Nothing of `lifecycle.machine` decides here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lifecycle.machine.states import AwaitingHuman, Completed, Rejected
from tests.lifecycle.night_ledger import faults_of
from tests.lifecycle.night_model import Model, Rest
from tests.lifecycle.night_money import Books
from tests.lifecycle.night_turns import Turns

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle
    from tests.lifecycle.night import Kept, NightPlay
    from tests.lifecycle.night_script import Job
    from tests.lifecycle.night_world import Ran

HAIR = 1e-3
WAKES = {"ci": ("blocked",), "pr": ("pr_created",), "person": ("blocked", "question")}
"""What ends which waits."""
SLOW = 45.0
"""Seconds that a start may come late: agents are looked at in between, and so is the clock."""


class Known(NamedTuple):
    """Which program an agent found at rest, and when."""

    at: float
    agent_id: str
    program: str
    rest: Rest


class Oracle:
    """Looks at one night."""

    def __init__(self, play: NightPlay, kept: dict[str, Kept]) -> None:
        self.play, self.kept = play, kept
        self.night, self.diary = play.night, play.world.diary
        self.wrong: list[str] = list(play.problems)
        self.jobs: dict[str, Job] = {job.agent.agent_id: job for job in self.night.jobs}
        self.turns = Turns(self.diary, kept, self.night.settings["idle_limit"])
        self.models = {
            agent_id: Model(job, self.night.settings) for agent_id, job in self.jobs.items()
        }
        self.books = Books(self.night, self.turns)
        self._board: list[Known] = []
        self._forgotten: list[tuple[float, frozenset[str]]] = []
        self._completed: dict[str, float] = {}

    def judge(self) -> list[str]:
        """Return everything that is wrong."""
        self._crowds()
        self._replay()
        self.wrong += self.books.judge()
        for agent_id in self.jobs:
            for at, text in faults_of(self.kept[agent_id], self.turns, agent_id):
                self.say(agent_id, at, text)
            self._end(agent_id)
        return self.wrong

    def say(self, agent_id: str, at: float, text: str) -> None:
        """Note what is wrong."""
        hour = (at - self.diary.lives[0][0]) / 3600
        self.wrong.append(f"{agent_id} at {hour:.3f} h: {text}")

    # --- in the order of the clock ------------------------------------------------------------

    def _replay(self) -> None:
        facts: list[tuple[float, int, int, str, Ran | str]] = []
        for turn in (turn for mine in self.turns.of.values() for turn in mine):
            for ran, kind in zip(turn.runs, turn.kinds, strict=True):
                facts.append((ran.began, 2, len(facts), "", ran))
                facts.append((self.turns.seen_at(ran), 0, len(facts), kind, ran))
        for at, agent_id, why in self.diary.woken:
            facts.append((at, 1, len(facts), why, agent_id))
        for at, agent_id, why in self.diary.resumed:
            facts.append((at, 1, len(facts), why, agent_id))
        for at, _, _, what, who in sorted(facts, key=lambda each: each[:3]):
            if isinstance(who, str):
                self._heard(at, who, what)
            elif what:
                self._ended(at, who, what)
            else:
                self._started(who)

    def _heard(self, at: float, agent_id: str, what: str) -> None:
        model = self.models[agent_id]
        if what in WAKES:
            model.woken(at, WAKES[what])
            return
        model.resumed(at, what)
        self._forgotten.append((at, frozenset(model.job.programs)))

    def _ended(self, at: float, ran: Ran, kind: str) -> None:
        model = self.models[ran.agent_id]
        rest = model.ends(ran, kind, at)
        model.due = model.due._replace(latest=model.due.latest + self.turns.gap_after(ran))
        if model.state == "completed":
            self._completed[model.job.task.id] = at
        if rest is not None and rest.over is not None:
            self._board.append(Known(at, ran.agent_id, ran.program, rest))

    def _started(self, ran: Ran) -> None:
        model, at = self.models[ran.agent_id], ran.began
        if model.state not in ("waiting", "breaker"):
            self.say(ran.agent_id, at, f"attempt {ran.attempt} began although it was {model.state}")
        elif at < model.due.soonest - HAIR:
            early = model.due.soonest - at
            self.say(ran.agent_id, at, f"attempt {ran.attempt} began {early:.1f} s too early")
        else:
            self._in_time(model, ran)
        missing = set(model.job.task.dependencies) - set(self._completed)
        if missing:
            self.say(ran.agent_id, at, f"it began before {', '.join(sorted(missing))} was done")
        if not self._was_let_in_before(ran):
            self._program(model, ran)
            self.wrong += self.books.begins(ran)
        model.starts()

    def _was_let_in_before(self, ran: Ran) -> bool:
        """Tell whether an earlier runner had let it in: that is not asked once more."""
        born, again = self.diary.lives[ran.life][0], self.kept[ran.agent_id].again
        return any(ran.attempt == number and born <= at <= ran.began for number, at in again)

    def _program(self, model: Model, ran: Ran) -> None:
        """Hold that it is the first of the chain that nobody knows to be limited."""
        at = ran.began
        chain = model.job.programs
        if ran.program not in chain:
            self.say(ran.agent_id, at, f"{ran.program} is none of its programs")
            return
        own = model.rests.get(ran.program)
        if own is not None and own.is_sure(at + HAIR):
            self.say(ran.agent_id, at, f"{ran.program} was tried before its own wait was over")
        for known in self._board:
            if known.program == ran.program and self._counts(known, ran):
                text = f"{ran.program} was tried although {known.agent_id} knew of its limit"
                self.say(ran.agent_id, at, text)
        for better in chain[: chain.index(ran.program)]:
            rest = model.rests.get(better)
            rests = [each.rest for each in self._board if each.program == better]
            if not any(each.may_last(at) for each in (*rests, *([rest] if rest else []))):
                self.say(ran.agent_id, at, f"{ran.program} was taken although {better} was free")

    def _counts(self, known: Known, ran: Ran) -> bool:
        """Tell whether the runner knew this when it began the process."""
        at = ran.began
        if known.at >= at - HAIR or not known.rest.is_sure(at + HAIR):
            return False
        if any(
            known.at <= when + SLOW and known.program in names for when, names in self._forgotten
        ):
            return False
        born = self.diary.lives[ran.life][0]
        if known.at < born:
            # An earlier runner learned it: it is known as long as whoever met it is not at an end.
            mine = self.turns.of[known.agent_id]
            return any(turn.last.began > born for turn in mine)
        return True

    def _in_time(self, model: Model, ran: Ran) -> None:
        at = ran.began
        frees = []
        for program in model.job.programs:
            own = [model.rests[program]] if program in model.rests else []
            rests = own + [each.rest for each in self._board if each.program == program]
            ends = [each.over.latest for each in rests if each.over is not None]
            mended = all(each.over is not None for each in own)
            frees.append(max(ends, default=0.0) if mended else float("inf"))
        needed = [self._completed.get(each, 0.0) for each in model.job.task.dependencies]
        latest = max(model.due.latest, min(frees), *needed)
        late = at - latest - self.books.excused(ran, latest, at)
        if late > SLOW:
            self.say(ran.agent_id, at, f"attempt {ran.attempt} began {late:.0f} s too late")

    # --- at the end ---------------------------------------------------------------------------

    def _crowds(self) -> None:
        most = self.night.settings["max_live_agents"]
        if self.play.world.most_alive > most:
            self.wrong.append(f"{self.play.world.most_alive} agents were alive at once")
        self.wrong += [f"{mark} was started beside another" for mark in self.play.world.doubled]
        self.wrong += [f"{actor.mark} is alive at the end" for actor in self.play.world.alive()]

    def _end(self, agent_id: str) -> None:
        model, record = self.models[agent_id], self.kept[agent_id].record
        work = record.work
        assert work is not None
        at, label = self.play.world.now, label_of(record)
        if work.tally.retry_count != model.retries:
            text = f"{work.tally.retry_count} retries are counted, {model.retries} were due"
            self.say(agent_id, at, text)
        spawned = max((turn.attempt for turn in self.turns.of.get(agent_id, [])), default=0)
        if work.tally.spawn_count != spawned:
            self.say(agent_id, at, f"{work.tally.spawn_count} attempts are counted, not {spawned}")
        expected = self._expected(model)
        if label not in expected:
            self.say(agent_id, at, f"it ended as {label} ({record.error}), not as {expected}")
        if label == "budget" and not self.books.is_used_up(agent_id, record.error or ""):
            self.say(agent_id, at, f"it was ended by a budget that is not used up: {record.error}")

    def _expected(self, model: Model) -> tuple[str, ...]:
        needs = [f"agent-{name}" for name in model.job.task.dependencies]
        if any(label_of(self.kept[name].record) != "completed" for name in needs):
            return ("dependency",)
        if model.state == "blocked":
            return ("blocked_timeout",)
        if model.state == "breaker" and model.due.latest >= model.until:
            return ("budget", "no_progress")
        if model.state in ("waiting", "breaker"):
            return ("budget",)
        return (model.state,)


def label_of(record: AgentLifecycle) -> str:
    """Name the end that a lifecycle came to."""
    match record.work:
        case Completed():
            return "completed"
        case Rejected(reason=reason):
            return str(reason)
        case AwaitingHuman(about=about):
            return str(about)
        case other:
            return type(other).__name__
