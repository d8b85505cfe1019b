"""Says of a night what was not as it has to be; from the script and the diary alone.

What the runner kept is only looked at to be compared. Nothing of `lifecycle.machine` decides here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.machine.states import AwaitingHuman, Completed, Rejected
from tests.lifecycle.night_model import Model, Rest
from tests.lifecycle.night_money import Books
from tests.lifecycle.night_script import GOOD

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle, AttemptRow, Spending
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


@dataclass
class Turn:
    """One attempt: a process, or several where a runner died."""

    attempt: int
    runs: list[Ran]
    kinds: list[str]
    """How each of them ended."""

    @property
    def last(self) -> Ran:
        """The process that decided."""
        return self.runs[-1]


class Oracle:
    """Looks at one night."""

    def __init__(self, play: NightPlay, kept: dict[str, Kept]) -> None:
        self.play, self.kept = play, kept
        self.night, self.diary = play.night, play.world.diary
        self.wrong: list[str] = list(play.problems)
        self.jobs: dict[str, Job] = {job.agent.agent_id: job for job in self.night.jobs}
        self.turns = self._turns()
        self.models = {
            agent_id: Model(job, self.night.settings) for agent_id, job in self.jobs.items()
        }
        self.books = Books(self)
        self._board: list[Known] = []
        self._forgotten: list[tuple[float, frozenset[str]]] = []
        self._completed: dict[str, float] = {}

    def judge(self) -> list[str]:
        """Return everything that is wrong."""
        self._crowds()
        self._replay()
        self.wrong += self.books.judge()
        for agent_id in self.jobs:
            self._ledger(agent_id)
            self._end(agent_id)
        return self.wrong

    def say(self, agent_id: str, at: float, text: str) -> None:
        """Note what is wrong."""
        hour = (at - self.diary.lives[0][0]) / 3600
        self.wrong.append(f"{agent_id} at {hour:.3f} h: {text}")

    # --- what a process's end was -------------------------------------------------------------

    def died(self, ran: Ran) -> float:
        """Return when the runner died that had started it."""
        died = self.diary.lives[ran.life][1]
        return float("inf") if died is None else died

    def is_lost(self, ran: Ran) -> bool:
        """Tell whether no runner saw its end; where both fell together the runner's word counts."""
        ended, died = ran.ended or 0.0, self.died(ran)
        if ended != died:
            return ended > died
        row = self._row(ran)
        return row is None or row.outcome in ("interrupted", "")

    def seen_at(self, ran: Ran) -> float:
        """Return when a runner learned of its end."""
        ended, died = ran.ended or 0.0, self.died(ran)
        if ended < died:
            return ended
        again = self.diary.lives[ran.life + 1][0]
        row = self._row(ran) if ended == died else None
        return again if row is None or row.ended_at != ended else ended

    def is_torn(self, ran: Ran) -> bool:
        """Tell whether it began, or ended, in the very moment in which its runner died.

        Then it depends on which of both came first what is known of it.
        """
        return self.died(ran) in (ran.began, ran.ended)

    def was_noted(self, ran: Ran) -> bool:
        """Tell whether what it used is in the books; of those that are not torn it has to be."""
        if not self.is_torn(ran):
            return True
        booked = [each for each in self.kept[ran.agent_id].spendings if each.attempt == ran.attempt]
        runs = [each for each in self.diary.runs if each.agent_id == ran.agent_id]
        tokens = sum(each.tokens for each in runs if each.attempt == ran.attempt)
        return any(each.tokens == tokens for each in booked)

    def _row(self, ran: Ran) -> AttemptRow | None:
        """Return the ledger's row of an attempt, if this is the last process of it."""
        mine = [each for each in self.diary.runs if each.agent_id == ran.agent_id]
        if any(each.attempt == ran.attempt and each.life > ran.life for each in mine):
            return None
        rows = self.kept[ran.agent_id].attempts
        return next((row for row in rows if row.attempt == ran.attempt), None)

    def _turns(self) -> dict[str, list[Turn]]:
        found: dict[str, list[Turn]] = defaultdict(list)
        for ran in self.diary.runs:
            if ran.ended is None:
                self.say(ran.agent_id, ran.began, "its process never ended")
                continue
            mine = found[ran.agent_id]
            if mine and mine[-1].attempt == ran.attempt:
                mine[-1].runs.append(ran)
            else:
                mine.append(Turn(ran.attempt, [ran], []))
        for mine in found.values():
            for turn in mine:
                turn.kinds = [self._kind(ran) for ran in turn.runs]
        return found

    def _kind(self, ran: Ran) -> str:
        if ran.word:
            failed = ran.word == "task_complete" and ran.deed and ran.deed.kind not in GOOD
            return "gate_failed" if failed else ran.word
        if self.is_lost(ran):
            return "interrupted"
        writes_events = bool(ran.program)
        if ran.by_itself:
            return ran.told or ("crash" if writes_events else "error")
        quiet = (ran.ended or 0.0) - ran.silent_since
        if ran.flooded and writes_events:
            return "loop"
        if ran.waits:
            return "network"
        if ran.stays and ran.told and writes_events and quiet >= 60:  # noqa: PLR2004  # as documented
            return "no_breakpoint"
        if ran.stays and quiet >= self.night.settings["idle_limit"]:
            return "hang"
        return "budget"

    # --- in the order of the clock ------------------------------------------------------------

    def _replay(self) -> None:
        facts: list[tuple[float, int, int, str, Ran | str]] = []
        for turn in (turn for mine in self.turns.values() for turn in mine):
            for ran, kind in zip(turn.runs, turn.kinds, strict=True):
                facts.append((ran.began, 2, len(facts), "", ran))
                facts.append((self.seen_at(ran), 0, len(facts), kind, ran))
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
        if any(known.at <= when + SLOW and known.program in names for when, names in self._forgotten):
            return False
        born = self.diary.lives[ran.life][0]
        if known.at < born:
            # An earlier runner learned it: it is known as long as whoever met it is not at an end.
            mine = self.turns[known.agent_id]
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

    def _ledger(self, agent_id: str) -> None:
        kept, turns = self.kept[agent_id], self.turns.get(agent_id, [])
        rows = {row.attempt: row for row in kept.attempts}
        books = {each.attempt: each for each in kept.spendings}
        for turn in turns:
            at, number = turn.last.ended or 0.0, turn.attempt
            row, spending = rows.pop(number, None), books.pop(number, None)
            if row is None or spending is None:
                missing = "ledger" if row is None else "books"
                self.say(agent_id, at, f"attempt {number} is not in the {missing}")
                continue
            faults = _row_faults(turn, row, torn=self.is_torn(turn.last))
            for text in (*faults, *self._book_faults(turn, spending)):
                self.say(agent_id, at, f"attempt {number}: {text}")
        for number in sorted({*rows, *books}):
            self.say(agent_id, 0.0, f"attempt {number} was written down and never was")

    def _book_faults(self, turn: Turn, spending: Spending) -> list[str]:
        found = []
        torn = any(self.is_torn(ran) for ran in turn.runs)
        noted = [ran for ran in turn.runs if self.was_noted(ran)]
        tokens = sum(ran.tokens for ran in noted)
        if spending.tokens != tokens:
            found.append(f"{spending.tokens} tokens are booked, {tokens} were reported")
        costs = [ran.cost for ran in noted if ran.cost is not None]
        missed = abs((spending.cost_usd or 0.0) - sum(costs)) > HAIR / 100
        if missed or (not torn and (spending.cost_usd is None) != (not costs)):
            found.append(f"cost {spending.cost_usd} is booked, {costs} was reported")
        seconds = sum(self.seen_at(ran) - ran.began for ran in noted)
        if not torn and abs(spending.seconds - seconds) > 1.0:
            found.append(f"{spending.seconds:.0f} s are booked, it took {seconds:.0f} s")
        if not torn and spending.program != (turn.last.program or "command"):
            found.append(f"booked as {spending.program}, it was {turn.last.program}")
        return found

    def _end(self, agent_id: str) -> None:
        model, record = self.models[agent_id], self.kept[agent_id].record
        work = record.work
        assert work is not None
        at, label = self.play.world.now, label_of(record)
        if work.tally.retry_count != model.retries:
            text = f"{work.tally.retry_count} retries are counted, {model.retries} were due"
            self.say(agent_id, at, text)
        spawned = max((turn.attempt for turn in self.turns.get(agent_id, [])), default=0)
        if work.tally.spawn_count != spawned:
            self.say(agent_id, at, f"{work.tally.spawn_count} attempts are counted, not {spawned}")
        expected = self._expected(model, agent_id)
        if label not in expected:
            self.say(agent_id, at, f"it ended as {label} ({record.error}), not as {expected}")
        if label == "budget" and not self.books.is_used_up(agent_id, record.error or ""):
            self.say(agent_id, at, f"it was ended by a budget that is not used up: {record.error}")

    def _expected(self, model: Model, agent_id: str) -> tuple[str, ...]:
        needs = [f"agent-{name}" for name in model.job.task.dependencies]
        if any(label_of(self.kept[name].record) != "completed" for name in needs):
            return ("dependency",)
        if model.state in ("blocked", "question"):
            return ("blocked_timeout",)
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


def _row_faults(turn: Turn, row: AttemptRow, *, torn: bool) -> list[str]:
    found = []
    kind = turn.kinds[-1]
    if row.outcome != kind:
        found.append(f"the ledger says {row.outcome!r}, it was {kind!r}")
    if not torn and row.program != turn.last.program:
        found.append(f"the ledger says that {row.program!r} did it, not {turn.last.program!r}")
    talks = ("task_complete", "blocked", "question", "pr_created")
    if kind not in talks and not row.error:
        found.append(f"the ledger does not explain {kind}")
    if not torn and turn.last.program and row.report is None:
        found.append("what its program told is not in the ledger")
    if row.ended_at is None:
        found.append("the ledger does not know its end")
    return found
