"""What agents reported to have used, summed up once more, against the budgets of the script.

Looks at what must hold of the sums: nothing begins when a budget is used up, and none is passed by
more than what the places there are can use.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.lifecycle.night_entries import HAIR, Entry, Limit, Used, by_attempt, largest, total

if TYPE_CHECKING:
    from tests.lifecycle.night_script import Night
    from tests.lifecycle.night_turns import Turns
    from tests.lifecycle.night_world import Ran

DAY = 86_400.0


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
            )
            for mine in turns.of.values()
            for turn in mine
            for index, ran in enumerate(turn.runs)
        ]
        self._attempts = by_attempt(self.entries)

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
        return found

    def _is_booked(self, entry: Entry, ran: Ran) -> bool:
        sooner = entry.seen_at < ran.began - HAIR
        return sooner or (entry.ran.life < ran.life and entry.seen_at <= ran.began)

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
            self._is_held(limit, entries, at)
            for limit, entries in self.scopes(ran.agent_id, at).values()
        )

    def _is_held(self, limit: Limit, entries: list[Entry], at: float) -> bool:
        """Tell whether those under way are the last attempts of a budget."""
        live = {e.key for e in entries if e.ran.began <= at < (e.ran.ended or 0.0)}
        past = {e.key for e in entries if e.seen_at <= at}
        return limit.attempts is not None and bool(live) and len(live | past) >= limit.attempts

    # --- at the end ---------------------------------------------------------------------------

    def judge(self) -> list[str]:
        """Say which budget was passed by more than one attempt in each place."""
        found, seen = [], set()
        for entry in self.entries:
            for name, (limit, entries) in self.scopes(
                entry.ran.agent_id, entry.seen_at, float("inf")
            ).items():
                key = (name, limit, *sorted(e.ran.mark for e in entries))
                if key not in seen:
                    seen.add(key)
                    found += [
                        f"{name} of {entry.ran.agent_id}: {text}"
                        for text in self._over(limit, entries)
                    ]
        return found

    def is_used_up(self, agent_id: str, text: str) -> bool:
        """Tell whether the budget that a text names is used up indeed."""
        last = max((e.seen_at for e in self.entries), default=0.0)
        instants = sorted(
            {e.seen_at for e in self.entries} | {last, *(at for at, _ in self._lives)}
        )
        for at in instants if "the day" in text else [last]:
            for name, (limit, entries) in self.scopes(agent_id, at).items():
                told = sum(entry.ran.tokens for entry in entries)
                used = total(entries)
                if name in text and limit.reached(used._replace(tokens=max(told, used.tokens))):
                    return True
        return False

    def _over(self, limit: Limit, entries: list[Entry]) -> list[str]:
        used, most, places = total(entries), largest(entries), self._settings["max_live_agents"]
        names = ("tokens", "usd")
        found = [
            f"{each:g} of {budget:g} {name} were used, by more than {places} attempts too much"
            for name, budget, each, one in zip(names, limit, used, most, strict=False)
            if budget is not None and each > budget + places * one + HAIR
        ]
        if limit.attempts is not None and used.attempts > limit.attempts:
            found.append(f"{used.attempts} of {limit.attempts} attempts were made")
        return found


def _told(ran: Ran, *, again: bool, noted: bool) -> Used:
    return Used(ran.tokens * noted, (ran.cost or 0.0) * noted, 0 if again else 1)
