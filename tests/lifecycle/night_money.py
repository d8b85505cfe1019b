"""What agents reported to have used, summed up once more, against the budgets of the script.

Those that worked and reported nothing are reckoned as the documentation says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tests.lifecycle.night_lines import PRICE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.lifecycle.night_script import Night
    from tests.lifecycle.night_turns import Turns
    from tests.lifecycle.night_world import Ran

DAY = 86_400.0
SILENT = 3
"""Attempts in a row of which nothing is known, after which a budget cannot be held."""
TURNED_AWAY = ("rate_limit", "overloaded", "network", "auth")
HAIR = 1e-6
CENT = 0.01


class Used(NamedTuple):
    """What one attempt, or several, used."""

    tokens: float = 0
    usd: float = 0.0
    attempts: float = 0

    def plus(self, other: Used) -> Used:
        """Return both together."""
        return Used(*(one + two for one, two in zip(self, other, strict=True)))

    def largest(self, other: Used) -> Used:
        """Return the larger of each."""
        return Used(*(max(one, two) for one, two in zip(self, other, strict=True)))

    def times(self, factor: float) -> Used:
        """Return so many times that."""
        return Used(*(factor * each for each in self))


class Limit(NamedTuple):
    """A budget; None for none."""

    tokens: float | None = None
    usd: float | None = None
    attempts: float | None = None

    def reached(self, used: Used) -> bool:
        """Tell whether one of them is used up."""
        pairs = zip(self, used, strict=True)
        return any(most is not None and each >= most - HAIR for most, each in pairs)


@dataclass
class Entry:
    """One process in the books."""

    ran: Ran
    used: Used
    """Told and reckoned."""
    seen_at: float
    kind: str
    charged: Used = field(default_factory=Used)
    missing: tuple[bool, bool] = (False, False)
    """Whether it used tokens, and money, that nobody told or reckoned."""
    tells: tuple[bool, bool] = (False, False)
    """Whether it taught how many tokens, and how much money, its program uses."""


class Books:
    """All processes and all budgets of one night."""

    def __init__(self, night: Night, turns: Turns) -> None:
        self._settings, self._lives = night.settings, turns.diary.lives
        self._jobs = {job.agent.agent_id: job for job in night.jobs}
        self.entries = [
            Entry(
                ran,
                _used(ran, again=index > 0, noted=turns.was_noted(ran)),
                turns.seen_at(ran),
                turn.kinds[index],
            )
            for mine in turns.of.values()
            for turn in mine
            for index, ran in enumerate(turn.runs)
        ]
        seen = Counter((entry.ran.program, entry.seen_at) for entry in self.entries)
        self._torn = {
            (entry.ran.agent_id, entry.ran.attempt)
            for entry in self.entries
            if turns.is_torn(entry.ran) or seen[entry.ran.program, entry.seen_at] > 1
        }
        self._charges = {
            (agent_id, each.attempt): Used(each.charged_tokens, each.charged_usd)
            for agent_id in self._jobs
            for each in turns.booked(agent_id)
        }
        self._reckon()
        self._settle()
        self._seen: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        for entry in self.entries:
            self._seen[entry.ran.agent_id, entry.ran.attempt].append(entry.seen_at)

    def _reckon(self) -> None:
        """Charge those that kept silent with what is known of their program by then."""
        known: defaultdict[str, Used] = defaultdict(Used)
        for entry in sorted(self.entries, key=lambda each: each.seen_at):
            ran, used = entry.ran, entry.used
            if ran.tokens or entry.kind not in TURNED_AWAY:
                most = known[ran.program]
                tokens = 0.0 if used.tokens else most.tokens
                usd = used.tokens * PRICE if used.tokens and most.usd else most.usd
                entry.charged = Used(tokens, 0.0 if ran.cost is not None else usd)
                entry.missing = (
                    not used.tokens and not tokens,
                    ran.cost is None and not entry.charged.usd,
                )
            if used.attempts:  # what a repeated one told is told of several processes
                entry.tells = used.tokens > 0, used.usd > 0
                known[ran.program] = known[ran.program].largest(used)
            entry.used = used.plus(entry.charged)

    def _settle(self) -> None:
        """Where several things fell together, the books alone know in which order."""
        mine: defaultdict[tuple[str, int], list[Entry]] = defaultdict(list)
        for entry in self.entries:
            mine[entry.ran.agent_id, entry.ran.attempt].append(entry)
        for key in self._torn & set(self._charges):
            reckoned = Used()
            for each in mine[key]:
                reckoned = reckoned.plus(each.charged)
            missed = self._charges[key].plus(reckoned.times(-1))
            silent = [each for each in mine[key] if any(each.charged) or any(each.missing)]
            entry = (silent or mine[key])[0]
            entry.charged, entry.used = entry.charged.plus(missed), entry.used.plus(missed)

    def faults(self) -> list[str]:
        """Say where the books reckon otherwise."""
        due: defaultdict[tuple[str, int], Used] = defaultdict(Used)
        for entry in self.entries:
            key = entry.ran.agent_id, entry.ran.attempt
            due[key] = due[key].plus(entry.charged)
        return [
            f"attempt {key[1]} of {key[0]} is charged {one.tokens} tokens and ${one.usd:.2f}, "
            f"not {due[key].tokens:.0f} and ${due[key].usd:.2f}"
            for key, one in self._charges.items()
            if one.tokens != due[key].tokens or abs(one.usd - due[key].usd) > CENT
        ]

    # --- scopes -------------------------------------------------------------------------------

    def scopes(
        self, agent_id: str, at: float, until: float | None = None
    ) -> dict[str, tuple[Limit, list[Entry]]]:
        """Return the budgets that an attempt of this agent comes under, and who shares each."""
        until = at if until is None else until
        job, settings = self._jobs[agent_id], self._settings
        own, shared = job.task.budget, job.plan.budget
        mine = Limit(
            own.tokens if own else None,
            (own.usd if own else None) or settings.get("budget_usd"),
            own.attempts if own else None,
        )
        plan = Limit(shared.tokens, shared.usd, shared.attempts) if shared else Limit()
        day = Limit(settings.get("day_budget_tokens"))
        jobs = self._jobs
        return {
            "the lifecycle": (mine, [e for e in self.entries if e.ran.agent_id == agent_id]),
            "the plan": (
                plan,
                [e for e in self.entries if jobs[e.ran.agent_id].plan.name == job.plan.name],
            ),
            "the day": (day, [e for e in self.entries if self._is_of_day(e, at, until)]),
        }

    def _is_of_day(self, entry: Entry, at: float, until: float) -> bool:
        """Tell whether it counts for that day: with all of its attempt, as known until then."""
        key = entry.ran.agent_id, entry.ran.attempt
        ends = [each for each in self._seen[key] if each <= max(until, entry.seen_at)]
        return max(ends) // DAY == at // DAY or entry.ran.began <= at < entry.seen_at

    # --- at each start ------------------------------------------------------------------------

    def begins(self, ran: Ran) -> list[str]:
        """Say which budget was used up before a process began."""
        found = []
        for name, (limit, entries) in self.scopes(ran.agent_id, ran.began).items():
            before = [e for e in entries if self._is_booked(e, ran)]
            before = [
                e for e in before if e.ran.attempt != ran.attempt or e.ran.agent_id != ran.agent_id
            ]
            if limit.reached(total(before)):
                text = (
                    f"attempt {ran.attempt} of {ran.agent_id} began, the budget of {name} was over"
                )
                found.append(text)
            if self._is_unheld(limit, entries, ran.agent_id, ran.began - HAIR):
                found.append(f"{ran.agent_id} began, although nobody tells what {name} uses")
        return found

    def _is_booked(self, entry: Entry, ran: Ran) -> bool:
        sooner = entry.seen_at < ran.began - HAIR
        return sooner or (entry.ran.life < ran.life and entry.seen_at <= ran.began)

    def _is_unheld(
        self, limit: Limit, entries: list[Entry], agent_id: str, at: float, slack: float = 0.0
    ) -> bool:
        """Tell whether one of its programs was let work often enough while nothing was known."""
        for index, budget in enumerate((limit.tokens, limit.usd)):
            silent = defaultdict[str, set[tuple[str, int]]](set)
            for each in entries:
                if each.missing[index] and each.seen_at <= at + slack:
                    silent[each.ran.program].add((each.ran.agent_id, each.ran.attempt))
            known = {
                each.ran.program
                for each in self.entries
                if each.seen_at <= at - slack and each.tells[index]
            }
            mine = set(self._jobs[agent_id].programs) - known
            if budget is not None and any(len(silent[each]) >= SILENT for each in mine):
                return True
        return False

    # --- whether a wait is explained ----------------------------------------------------------

    def excused(self, ran: Ran, since: float, until: float) -> float:
        """Return for how long no place, no runner or no budget was there to begin."""
        if until <= since:
            return 0.0
        marks = {since, until}
        for entry in self.entries:
            marks |= {entry.ran.began, entry.ran.ended or until, entry.seen_at}
        for born, died in self._lives:
            marks |= {born, until if died is None else died}
        times = sorted(each for each in marks if since <= each <= until)
        spans = pairwise(times)
        return sum(two - one for one, two in spans if self._could_not(ran, (one + two) / 2))

    def _could_not(self, ran: Ran, at: float) -> bool:
        lives = self._lives
        if not any(born <= at and (died is None or at < died) for born, died in lives):
            return True
        alive = [e for e in self.entries if e.ran.began <= at < (e.ran.ended or 0.0)]
        if len(alive) >= self._settings["max_live_agents"]:
            return True
        return any(
            self._is_held(limit, entries, self.entries if name == "the day" else entries, at)
            for name, (limit, entries) in self.scopes(ran.agent_id, at).items()
        )

    def _is_held(self, limit: Limit, entries: list[Entry], similar: list[Entry], at: float) -> bool:
        """Tell whether those under way may use up the rest, judged by the largest `similar` one."""
        live = [e for e in entries if e.ran.began <= at < (e.ran.ended or 0.0)]
        past = [e for e in entries if e.seen_at <= at]
        if limit == Limit() or not live:
            return False
        known = [e for e in similar if e.seen_at <= at]
        told = [e for e in known if (e.used.tokens if limit.tokens else e.used.usd)]
        if (limit.tokens or limit.usd) and not told:
            return True
        floor = largest(known).times(2)._replace(attempts=1)
        used = total(past)
        for each in live:
            used = used.plus(each.used.largest(floor)._replace(attempts=1))
        return limit.reached(used)

    # --- at the end ---------------------------------------------------------------------------

    def judge(self) -> list[str]:
        """Say which budget was passed by more than one attempt."""
        found, seen = [], set()
        for entry in self.entries:
            for name, (limit, entries) in self.scopes(
                entry.ran.agent_id, entry.seen_at, float("inf")
            ).items():
                key = (name, limit, *sorted(e.ran.mark for e in entries))
                if key not in seen:
                    seen.add(key)
                    found += [
                        f"{name} of {entry.ran.agent_id}: {text}" for text in _over(limit, entries)
                    ]
        return found

    def is_used_up(self, agent_id: str, text: str) -> bool:
        """Tell whether the budget that a text names is used up indeed."""
        last = max((e.seen_at for e in self.entries), default=0.0)
        instants = sorted({e.seen_at for e in self.entries} | {last})
        passing = "the day" in text or "told nothing" in text
        for at in instants if passing else [last]:
            for name, (limit, entries) in self.scopes(agent_id, at).items():
                told = sum(entry.ran.tokens for entry in entries)
                used = total(entries)
                if "told nothing" in text:
                    if name in text and self._is_unheld(limit, entries, agent_id, at, HAIR):
                        return True
                    continue
                if name in text and limit.reached(used._replace(tokens=max(told, used.tokens))):
                    return True
        return False


def total(entries: Iterable[Entry]) -> Used:
    """Return what they used together."""
    used = Used()
    for each in entries:
        used = used.plus(each.used)
    return used


def largest(entries: Iterable[Entry]) -> Used:
    """Return the most that any one attempt used."""
    attempts: defaultdict[tuple[str, int], Used] = defaultdict(Used)
    for each in entries:
        key = each.ran.agent_id, each.ran.attempt
        attempts[key] = attempts[key].plus(each.used)
    found = Used()
    for used in attempts.values():
        found = found.largest(used)
    return found


def _used(ran: Ran, *, again: bool, noted: bool) -> Used:
    return Used(ran.tokens * noted, (ran.cost or 0.0) * noted, 0 if again else 1)


def _over(limit: Limit, entries: list[Entry]) -> list[str]:
    used, most = total(entries), largest(entries)
    names = ("tokens", "usd")
    found = [
        f"{each:g} of {budget:g} {name} were used, by more than one attempt of {one:g} too much"
        for name, budget, each, one in zip(names, limit, used, most, strict=False)
        if budget is not None and each > budget + one + HAIR
    ]
    if limit.attempts is not None and used.attempts > limit.attempts:
        found.append(f"{used.attempts} of {limit.attempts} attempts were made")
    return found
