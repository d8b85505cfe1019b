"""Sums of what attempts used: of those that ended, and of those under way; and what work costs.

Pure bookkeeping. Must not know what a sum means for an attempt; that is for `accounts.py`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lifecycle.machine.money import NOTHING, Spent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.record import Spending, SpendingSum


@dataclass(slots=True)
class Past:
    """Attempts that ended: what they used together, and how much the largest did."""

    spent: Spent = NOTHING
    most_tokens: int = 0
    most_usd: float = 0.0
    most_seconds: float = 0.0
    with_tokens: int = 0
    """Attempts whose tokens were told or reckoned."""
    with_cost: int = 0
    """Attempts whose cost was."""
    missing_tokens: dict[str, int] = field(default_factory=dict)
    """By program, attempts that worked, and whose tokens were neither."""
    missing_usd: dict[str, int] = field(default_factory=dict)

    def add(self, each: Spending) -> None:
        """Count an attempt in."""
        self._count(each, 1)
        self.most_tokens = max(self.most_tokens, each.all_tokens)
        self.most_usd = max(self.most_usd, each.all_usd)
        self.most_seconds = max(self.most_seconds, each.seconds)

    def take_off(self, each: Spending) -> None:
        """Count an attempt out again; that one was so large stays known."""
        self._count(each, -1)

    def _count(self, each: Spending, sign: int) -> None:
        self.spent += Spent(
            tokens=sign * each.all_tokens,
            cost_usd=sign * each.all_usd,
            seconds=sign * each.seconds,
            attempts=sign,
        )
        self.with_tokens += sign * (each.all_tokens > 0)
        self.with_cost += sign * (each.tells_cost or each.charged_usd > 0)
        self._miss(each.program, sign * each.misses_tokens, sign * each.misses_usd)

    def _miss(self, program: str, tokens: int, usd: int) -> None:
        for missing, more in ((self.missing_tokens, tokens), (self.missing_usd, usd)):
            if more:
                missing[program] = missing.get(program, 0) + more

    def add_sum(self, each: SpendingSum) -> None:
        """Count in what was summed up elsewhere."""
        self.spent += Spent(
            tokens=each.tokens,
            cost_usd=each.cost_usd,
            seconds=each.seconds,
            attempts=each.attempts,
        )
        self.most_tokens = max(self.most_tokens, each.most_tokens)
        self.most_usd = max(self.most_usd, each.most_usd)
        self.most_seconds = max(self.most_seconds, each.most_seconds)
        self.with_tokens += each.with_tokens
        self.with_cost += each.with_cost
        self._miss(each.program, each.missing_tokens, each.missing_usd)

    @classmethod
    def joined(cls, several: Iterable[Past]) -> Past:
        """Return several as one; what is missing in them aside."""
        made = cls()
        for each in several:
            made.spent += each.spent
            made.most_tokens = max(made.most_tokens, each.most_tokens)
            made.most_usd = max(made.most_usd, each.most_usd)
            made.most_seconds = max(made.most_seconds, each.most_seconds)
            made.with_tokens += each.with_tokens
            made.with_cost += each.with_cost
        return made


@dataclass(slots=True)
class _Price:
    """Tokens, and what those cost."""

    tokens: int = 0
    usd: float = 0.0

    def count(self, tokens: int, usd: float) -> None:
        self.tokens += tokens
        self.usd += usd

    @property
    def per_token(self) -> float | None:
        return self.usd / self.tokens if self.tokens > 0 else None


@dataclass(slots=True)
class Known:
    """What programs told of their attempts: what one uses, and what a token costs."""

    most_tokens: dict[str, int] = field(default_factory=dict)
    """By program, of any one attempt; a program that is not in it never told any."""
    most_usd: dict[str, float] = field(default_factory=dict)
    _prices: defaultdict[tuple[str, str], _Price] = field(
        default_factory=lambda: defaultdict(_Price)
    )
    """By program and model."""
    _of_all_models: defaultdict[str, _Price] = field(default_factory=lambda: defaultdict(_Price))

    def add(self, each: Spending) -> None:
        """Learn from an attempt; several processes of one may be of several programs."""
        if each.processes > 1:
            return
        if each.tokens:
            self._learn_tokens(each.program, each.tokens)
        if each.tells_cost:
            self._learn_usd(each.program, each.cost_usd or 0.0)
        if each.tells_rate:
            self._rate(each.program, each.model, each.tokens, each.cost_usd or 0.0)

    def take_off(self, each: Spending) -> None:
        """Let another word on the same attempt take the place of this one."""
        if each.tells_rate:
            self._rate(each.program, each.model, -each.tokens, -(each.cost_usd or 0.0))

    def add_sum(self, each: SpendingSum) -> None:
        """Learn from what was summed up elsewhere."""
        if each.told_most_tokens is not None:
            self._learn_tokens(each.program, each.told_most_tokens)
        if each.told_most_usd is not None:
            self._learn_usd(each.program, each.told_most_usd)
        self._rate(each.program, each.model, each.rated_tokens, each.rated_usd)

    def _learn_tokens(self, program: str, tokens: int) -> None:
        self.most_tokens[program] = max(tokens, self.most_tokens.get(program, 0))

    def _learn_usd(self, program: str, usd: float) -> None:
        self.most_usd[program] = max(usd, self.most_usd.get(program, 0.0))

    def _rate(self, program: str, model: str, tokens: int, usd: float) -> None:
        self._prices[program, model].count(tokens, usd)
        self._of_all_models[program].count(tokens, usd)

    def price(self, program: str, model: str) -> float | None:
        """Return dollars per token, on average."""
        known = self._prices.get((program, model))
        return known.per_token if known is not None else None

    def usual_price(self, program: str, model: str) -> float | None:
        """Return the same, where the model is not known the average of all of the program's."""
        exact = self.price(program, model)
        if exact is not None:
            return exact
        known = self._of_all_models.get(program)
        return known.per_token if known is not None else None

    def charged(self, each: Spending, before: Spending | None) -> Spending:
        """Return an attempt with what is reckoned for its latest process, if that kept silent.

        `before` is the word on its earlier processes, whose charges stay.
        """
        tokens = self.most_tokens.get(each.program, 0) if each.silent_tokens else 0
        usd = self._usd(each, before) if each.silent_usd else 0.0
        if before is None:
            return replace(each, charged_tokens=tokens, charged_usd=usd)
        return replace(
            each,
            charged_tokens=before.charged_tokens + tokens,
            charged_usd=before.charged_usd + usd,
            silent_tokens=before.silent_tokens + each.silent_tokens,
            silent_usd=before.silent_usd + each.silent_usd,
            processes=before.processes + each.processes,
        )

    def _usd(self, each: Spending, before: Spending | None) -> float:
        told = each.tokens - (before.tokens if before is not None else 0)
        price = self.price(each.program, each.model) if told > 0 else None
        return told * price if price is not None else self.most_usd.get(each.program, 0.0)


@dataclass(frozen=True, slots=True)
class _Live:
    started: float
    reported: Spent = NOTHING


@dataclass(slots=True)
class Present:
    """Attempts under way; false when there is none."""

    live: dict[str, _Live] = field(default_factory=dict)
    _tokens: int = 0
    _usd: float = 0.0
    _starts: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.live)

    def begin(self, agent_id: str, now: float) -> None:
        """Count an attempt in."""
        self.live[agent_id] = _Live(now)
        self._starts += now

    def report(self, agent_id: str, so_far: Spent) -> None:
        """Take up what an attempt used so far."""
        before = self.live[agent_id]
        self.live[agent_id] = _Live(before.started, so_far)
        self._tokens += so_far.tokens - before.reported.tokens
        self._usd += so_far.cost_usd - before.reported.cost_usd

    def end(self, agent_id: str) -> None:
        """Count an attempt out."""
        self.report(agent_id, NOTHING)
        self._starts -= self.live.pop(agent_id).started
        if not self.live:
            # What rounding left behind must not grow from night to night.
            self._usd = self._starts = 0.0

    def only(self, agent_id: str) -> Present:
        """Return that attempt by itself."""
        made = Present()
        if agent_id in self.live:
            made.begin(agent_id, self.live[agent_id].started)
            made.report(agent_id, self.live[agent_id].reported)
        return made

    def spent(self, now: float) -> Spent:
        """Return what they used so far; their time runs by the clock."""
        return Spent(
            tokens=self._tokens,
            cost_usd=self._usd,
            seconds=max(0.0, len(self.live) * now - self._starts),
            attempts=len(self.live),
        )

    def at_most(self, floor: Spent, now: float) -> Spent:
        """Return no less than `at_least` does, without a look at each."""
        many, said = len(self.live), self.spent(now)
        return Spent(
            tokens=said.tokens + many * floor.tokens,
            cost_usd=said.cost_usd + many * floor.cost_usd,
            seconds=said.seconds + many * floor.seconds,
            attempts=many,
        )

    def at_least(self, floor: Spent, now: float) -> Spent:
        """Return what they used if none ends with less than `floor`."""
        return Spent(
            tokens=sum(max(each.reported.tokens, floor.tokens) for each in self.live.values()),
            cost_usd=sum(
                max(each.reported.cost_usd, floor.cost_usd) for each in self.live.values()
            ),
            seconds=sum(max(now - each.started, floor.seconds) for each in self.live.values()),
            attempts=len(self.live),
        )
