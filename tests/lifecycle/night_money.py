"""What agents reported to have used, summed up once more, against the budgets of the script.

Those that worked and reported nothing are reckoned as the documentation says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.lifecycle.night_entries import HAIR, Entry, Limit, Used, by_attempt, largest, total
from tests.lifecycle.night_lore import Lore

if TYPE_CHECKING:
    from tests.lifecycle.night_script import Night
    from tests.lifecycle.night_turns import Turns
    from tests.lifecycle.night_world import Ran

DAY = 86_400.0
CENT = 0.01


class Books:
    """All processes and all budgets of one night."""

    def __init__(self, night: Night, turns: Turns) -> None:
        self._settings, self._lives = night.settings, turns.diary.lives
        self._jobs = {job.agent.agent_id: job for job in night.jobs}
        self.entries = [
            Entry(
                ran,
                _told(ran, again=index > 0, noted=turns.was_noted(ran)),
                turns.seen_at(ran),
                turn.kinds[index],
                turns.is_torn(ran),
                turns.seen_at(ran) > turns.died(ran),
            )
            for mine in turns.of.values()
            for turn in mine
            for index, ran in enumerate(turn.runs)
        ]
        seen = Counter((entry.ran.program, entry.seen_at) for entry in self.entries)
        self._torn = {
            entry.key
            for entry in self.entries
            if entry.torn or seen[entry.ran.program, entry.seen_at] > 1
        }
        self._charges = {
            (agent_id, each.attempt): Used(each.charged_tokens, each.charged_usd)
            for agent_id in self._jobs
            for each in turns.booked(agent_id)
        }
        self._attempts = by_attempt(self.entries)
        self._lore = Lore(self.entries, self._lives)
        for entry in self.entries:
            entry.charged = self._lore.reckoned(entry)
        self._settle()

    def _settle(self) -> None:
        """Where several things fell together, the books alone know in which order."""
        for key in self._torn & set(self._charges):
            mine = self._attempts[key]
            missed = self._charges[key]
            for each in mine:
                missed = missed.plus(each.charged.times(-1))
            silent = [each for each in mine if any(each.silent)]
            # No process is charged less than nothing.
            fit = [each for each in silent if min(each.charged.plus(missed)) >= -HAIR]
            entry = (fit or silent or mine)[0]
            entry.charged = entry.charged.plus(missed)

    def faults(self) -> list[str]:
        """Say where the books reckon otherwise."""
        due: defaultdict[tuple[str, int], Used] = defaultdict(Used)
        for entry in self.entries:
            due[entry.key] = due[entry.key].plus(entry.charged)
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
        seen = [each.seen_at for each in self._attempts[entry.key]]
        ends = [each for each in seen if each <= max(until, entry.seen_at)]
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
            if self._is_unheld(limit, entries, ran.agent_id, ran.began, sure=True):
                found.append(f"{ran.agent_id} began, although nobody tells what {name} uses")
        return found

    def _is_booked(self, entry: Entry, ran: Ran) -> bool:
        sooner = entry.seen_at < ran.began - HAIR
        return sooner or (entry.ran.life < ran.life and entry.seen_at <= ran.began)

    def _is_unheld(
        self, limit: Limit, entries: list[Entry], agent_id: str, at: float, *, sure: bool
    ) -> bool:
        programs = self._jobs[agent_id].programs
        return self._lore.is_unheld(limit, entries, programs, at, sure=sure)

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
        instants = sorted(
            {e.seen_at for e in self.entries} | {last, *(at for at, _ in self._lives)}
        )
        passing = "the day" in text or "told nothing" in text
        for at in instants if passing else [last]:
            for name, (limit, entries) in self.scopes(agent_id, at).items():
                told = sum(entry.ran.tokens for entry in entries)
                used = total(entries)
                if "told nothing" in text:
                    if name in text and self._is_unheld(limit, entries, agent_id, at, sure=False):
                        return True
                    continue
                if name in text and limit.reached(used._replace(tokens=max(told, used.tokens))):
                    return True
        return False


def _told(ran: Ran, *, again: bool, noted: bool) -> Used:
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
