"""What holds of every night, however the loop decided: sums, limits, and that nothing is lost.

Compares what the runner kept with what the world saw. Must not decide anything once more: how long
a wait is, or what follows from an end, is what the tests of the machine say.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from lifecycle.machine.states import AwaitingHuman, Completed, Rejected
from tests.lifecycle.night.script import DAY, GOOD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lifecycle.plan import Allowance
    from lifecycle.record import AgentLifecycle, AttemptRow
    from tests.lifecycle.night.night import Kept, NightPlay
    from tests.lifecycle.night.script import Job
    from tests.lifecycle.night.world import Ran

CHARGED = frozenset(
    {
        "no_breakpoint",
        "hang",
        "timeout",
        "crash",
        "loop",
        "context_overflow",
        "error",
        "gate_failed",
    }
)
STOPPED = frozenset(["no_breakpoint", "hang", "loop", "network", "budget", "interrupted"])
"""For what a runner ends a process."""
TALKS = ("task_complete", "blocked", "question", "pr_created")
ENDED_AFTER = {
    "completed": "task_complete",
    "blocked_timeout": "blocked",
    "question": "question",
    "error": "auth",
}
"""What the last attempt came to, for each such end of a lifecycle."""
CENT = 1e-5
SPREAD = 0.75
"""The least that chance leaves of a wait."""


class Budget(NamedTuple):
    """What some attempts share."""

    name: str
    tokens: float | None
    usd: float | None
    attempts: float | None
    at_once: int
    """How many of them can be under way when it is used up."""
    runs: list[Ran]


class Rules:
    """Looks at one night."""

    def __init__(self, play: NightPlay, kept: dict[str, Kept]) -> None:
        self.play, self.kept, self.diary = play, kept, play.world.diary
        self.settings = play.night.settings
        self.jobs: dict[str, Job] = {job.agent.agent_id: job for job in play.night.jobs}
        self.turns: dict[str, dict[int, list[Ran]]] = {agent_id: {} for agent_id in self.jobs}
        """The processes of each attempt: several where a runner died."""
        for ran in self.diary.runs:
            self.turns[ran.agent_id].setdefault(ran.attempt, []).append(ran)

    def broken(self) -> list[str]:
        """Name everything that does not hold."""
        found = [*self.play.problems, *self._crowds()]
        for agent_id, kept in self.kept.items():
            mine = [*self._counted(agent_id, kept), *self._waits(agent_id, kept)]
            mine += [*self._starts(agent_id, kept), *self._end(agent_id, kept)]
            found += [f"{agent_id}: {text}" for text in mine]
        return [*found, *self._overdrawn()]

    def _crowds(self) -> Iterator[str]:
        world = self.play.world
        if world.most_alive > self.settings["max_live_agents"]:
            yield f"{world.most_alive} agents were alive at once"
        yield from (f"{mark} was started beside another" for mark in world.doubled)
        yield from (f"{actor.mark} is alive at the end" for actor in world.alive())

    # --- what was written down ------------------------------------------------------------------

    def _counted(self, agent_id: str, kept: Kept) -> Iterator[str]:
        turns = self.turns[agent_id]
        rows = {row.attempt: row for row in kept.attempts}
        books = {each.attempt: each for each in kept.spendings}
        for name, written in (("ledger", rows), ("books", books)):
            if set(written) != set(turns):
                yield f"the {name} know of attempts {sorted(written)}, it made {sorted(turns)}"
        for number in sorted(set(turns) & set(rows) & set(books)):
            ran, spending = turns[number], books[number]
            texts = [*self._row(ran[-1], rows[number])]
            texts += self._sum("tokens", spending.tokens, {id(r): r.tokens for r in ran}, ran)
            costs = {id(r): r.cost or 0.0 for r in ran}
            texts += self._sum("usd", spending.cost_usd or 0.0, costs, ran)
            yield from (f"attempt {number}: {text}" for text in texts)
        assert kept.record.work is not None
        tally = kept.record.work.tally
        charged = sum(row.outcome in CHARGED for row in kept.attempts)
        due = min(charged, self.settings["max_retries"])
        if tally.retry_count != due:
            yield f"{tally.retry_count} retries are counted, {due} were due"
        if tally.attempts != max(turns, default=0):
            yield f"{tally.attempts} attempts are counted, not {max(turns, default=0)}"
        processes = sum(map(len, turns.values()))
        if tally.spawn_count != processes:
            yield f"{tally.spawn_count} processes are counted, not {processes}"

    def _row(self, last: Ran, row: AttemptRow) -> Iterator[str]:
        torn = self._is_torn(last)
        if row.ended_at is None or (row.outcome not in TALKS and not row.error):
            yield f"the ledger does not explain how it ended: {row.outcome!r}"
        if row.outcome not in self._outcomes(last):
            yield f"the ledger says {row.outcome!r}, it was {sorted(self._outcomes(last))}"
        if not torn and row.program != last.program:
            yield f"the ledger says that {row.program!r} did it, not {last.program!r}"
        if not torn and last.program and row.report is None:
            yield "what its program told is not in the ledger"

    def _outcomes(self, ran: Ran) -> frozenset[str]:
        """Return as what the end of a process may be known."""
        if ran.word == "task_complete" and (ran.deed is None or ran.deed.kind not in GOOD):
            return frozenset({"gate_failed"})
        if ran.word:
            return frozenset({ran.word})
        lost = (ran.ended or 0.0) >= self._died(ran)
        told = {ran.told or ("crash" if ran.program else "error")} if ran.by_itself else STOPPED
        return frozenset({*told, *(STOPPED if lost else ())})

    def _sum(
        self, what: str, booked: float, used: dict[int, float], runs: Iterable[Ran]
    ) -> list[str]:
        """What a process used that ended with its runner may be unknown; all else is not."""
        most = sum(used.values())
        least = most - sum(used[id(ran)] for ran in runs if self._is_torn(ran))
        if least - CENT <= booked <= most + CENT:
            return []
        return [f"{booked:g} {what} are booked, {least:g} to {most:g} were reported"]

    def _died(self, ran: Ran) -> float:
        """Return when the runner died that had started it."""
        died = self.diary.lives[ran.life][1]
        return float("inf") if died is None else died

    def _is_torn(self, ran: Ran) -> bool:
        """Tell whether it began, or ended, in the very moment in which its runner died."""
        return self._died(ran) in (ran.began, ran.ended)

    # --- when an attempt may begin --------------------------------------------------------------

    def _waits(self, agent_id: str, kept: Kept) -> Iterator[str]:
        """Hold that what failed is not tried again at once, and what moves nothing rarely."""
        turns, charged = self.turns[agent_id], 0
        idle = self.jobs[agent_id].deeds[-1].same_words
        many = self.settings["stuck_limit"] + 1  # the first one may be news
        for row, after in pairwise(kept.attempts):
            if {row.attempt, after.attempt} - set(turns):
                continue
            since, until = turns[row.attempt][-1].ended or 0.0, turns[after.attempt][0].began
            charged = charged + 1 if row.outcome in CHARGED else 0
            if not charged or self._somebody_resumed(since, until):
                charged = 0  # who resumes it knows something new
                continue
            due = self.settings["retry_interval"]
            if idle and charged >= many:
                due = self.settings["breaker_cooldown"] * SPREAD
            if until - since < due - CENT:
                yield f"attempt {after.attempt} began {until - since:.0f} s after a failure"

    def _starts(self, agent_id: str, kept: Kept) -> Iterator[str]:
        job = self.jobs[agent_id]
        for ran in (ran for runs in self.turns[agent_id].values() for ran in runs):
            for needed in job.task.dependencies:
                if ran.began < self._completed(f"agent-{needed}"):
                    yield f"attempt {ran.attempt} began before {needed} was done"
            let_in = max((at for at in kept.admitted if at <= ran.began), default=0.0)
            yield from self._program(ran, job.programs, let_in)

    def _program(self, ran: Ran, chain: tuple[str, ...], let_in: float) -> Iterator[str]:
        """Hold that it is one of the chain that nobody knows to be limited."""
        earlier = [each for each in self.diary.runs if each.met and (each.ended or 0.0) <= let_in]
        for known in earlier:
            assert known.met is not None
            named = known.met.named and let_in < known.met.until and known.program == ran.program
            seen = (known.ended or 0.0) < let_in - CENT
            if named and seen and self._is_known(known, ran):
                yield f"{ran.program} was tried although {known.agent_id} knew of its limit"
        for better in chain[: chain.index(ran.program)]:
            if all(each.program != better for each in earlier):
                yield f"{ran.program} was taken although {better} was free"

    def _is_known(self, known: Ran, ran: Ran) -> bool:
        """Tell whether the runner that began a process knows of a limit that another had met."""
        ended, born = known.ended or 0.0, self.diary.lives[ran.life][0]
        if ended >= self._died(known) or self._somebody_resumed(ended, ran.began):
            return False
        # Of an earlier runner's it knows as long as whoever met it is not at an end.
        later = (each for runs in self.turns[known.agent_id].values() for each in runs[-1:])
        return ended > born or any(each.began > born for each in later)

    def _somebody_resumed(self, since: float, until: float) -> bool:
        return any(since <= at <= until for at, _, _ in self.diary.resumed)

    def _completed(self, agent_id: str) -> float:
        if label_of(self.kept[agent_id].record) != "completed":
            return float("inf")
        return self.turns[agent_id][max(self.turns[agent_id])][-1].ended or 0.0

    # --- budgets --------------------------------------------------------------------------------

    def _overdrawn(self) -> list[str]:
        return [
            f"{each.name}: {used:g} of {limit:g} {what} were used"
            for each in self._budgets()
            for what, limit, used, beyond in self._used(each)
            if limit is not None and used > limit + beyond + CENT
        ]

    def _used(self, budget: Budget) -> Iterator[tuple[str, float | None, float, float]]:
        """Return of each limit what was used for certain, and what may be used beyond it."""
        attempts: dict[tuple[str, int], list[Ran]] = defaultdict(list)
        for ran in budget.runs:
            attempts[ran.agent_id, ran.attempt] += [] if self._is_torn(ran) else [ran]
        tokens = [sum(ran.tokens for ran in runs) for runs in attempts.values()] or [0]
        costs = [sum(ran.cost or 0.0 for ran in runs) for runs in attempts.values()] or [0.0]
        yield "tokens", budget.tokens, sum(tokens), budget.at_once * max(tokens)
        yield "usd", budget.usd, sum(costs), budget.at_once * max(costs)
        yield "attempts", budget.attempts, len(attempts), 0

    def _budgets(self) -> Iterator[Budget]:
        places, runs = self.settings["max_live_agents"], self.diary.runs
        for agent_id in self.jobs:
            yield self._of_lifecycle(agent_id)
        for plan in {job.plan.name: job.plan for job in self.jobs.values()}.values():
            mine = [ran for ran in runs if self.jobs[ran.agent_id].plan.name == plan.name]
            yield Budget("the plan", *_limits(plan.budget), places, mine)
        for day in {self._seen(ran) // DAY for ran in runs}:
            mine = [ran for ran in runs if self._seen(ran) // DAY == day]
            yield Budget("the day", self.settings["day_budget_tokens"], None, None, places, mine)

    def _of_lifecycle(self, agent_id: str) -> Budget:
        tokens, usd, attempts = _limits(self.jobs[agent_id].task.budget)
        mine = [ran for runs in self.turns[agent_id].values() for ran in runs]
        usd = usd or self.settings["budget_usd"]
        return Budget("the lifecycle", tokens, usd, attempts, 1, mine)

    def _seen(self, ran: Ran) -> float:
        """Return when the attempt of a process was over, for a runner."""
        last = self.turns[ran.agent_id][ran.attempt][-1]
        ended = last.ended or 0.0
        return ended if ended < self._died(last) else self.diary.lives[last.life + 1][0]

    def _is_used_up(self, agent_id: str, text: str) -> bool:
        """Tell whether a budget that a text names is used up, as far as anybody told."""
        mine = {id(ran) for runs in self.turns[agent_id].values() for ran in runs}
        for budget in self._budgets():
            same = budget.name == "the day" or mine & {id(ran) for ran in budget.runs}
            if budget.name in text and (same or not mine):
                attempts = {(ran.agent_id, ran.attempt) for ran in budget.runs}
                tokens = sum(ran.tokens for ran in budget.runs)
                costs = sum(ran.cost or 0.0 for ran in budget.runs)
                limits = (budget.tokens, budget.usd, budget.attempts)
                pairs = zip(limits, (tokens, costs, len(attempts)), strict=True)
                if any(limit is not None and used >= limit - CENT for limit, used in pairs):
                    return True
        return False

    # --- the end --------------------------------------------------------------------------------

    def _end(self, agent_id: str, kept: Kept) -> Iterator[str]:
        """Hold that each end has the reason that it names."""
        label, error = label_of(kept.record), kept.record.error or ""
        last = kept.attempts[-1].outcome if kept.attempts else ""
        needs = [f"agent-{name}" for name in self.jobs[agent_id].task.dependencies]
        match label:
            case "budget":
                explained = self._is_used_up(agent_id, error)
            case "dependency":
                explained = any(label_of(self.kept[need].record) != "completed" for need in needs)
            case "max_retries" | "no_progress":
                explained = last in CHARGED
            case _:
                explained = ENDED_AFTER.get(label) == last
        if not explained:
            yield f"it ended as {label} after {last or 'no attempt'}: {error}"
        if isinstance(kept.record.work, Rejected) and not error:
            yield "nothing says why it was given up"


def _limits(budget: Allowance | None) -> tuple[float | None, float | None, float | None]:
    return (budget.tokens, budget.usd, budget.attempts) if budget else (None, None, None)


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
