"""How an attempt of an agent program ended: one taxonomy for all programs, and what to do about it.

Owns the names and the advice. It must not decide who pays for an ending or what comes next.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Ending(StrEnum):
    """Why an attempt is over.

    All but `COMPLETED` are also the machine's; `machine.rules.endings` says what follows from each.
    """

    COMPLETED = "completed"
    """The program ended its turn by itself, and nothing speaks against it."""
    BREAKPOINT = "breakpoint"
    NO_BREAKPOINT = "no_breakpoint"
    """It ended its turn well, but signalled nothing."""
    INVALID_BREAKPOINT = "invalid_breakpoint"
    """It signalled, but its signal cannot be read."""
    WAITING = "waiting"
    """It ended before the background work that it was waiting for."""
    RATE_LIMIT = "rate_limit"
    """A temporary limit: requests per minute, or a subscription's window."""
    QUOTA = "quota"
    """The allowance for a day or a month is used up."""
    BILLING = "billing"
    AUTH = "auth"
    OVERLOADED = "overloaded"
    NETWORK = "network"
    CONTEXT_OVERFLOW = "context_overflow"
    MODEL = "model"
    REFUSED = "refused"
    """The model, or a filter before it, refused the work."""
    DENIED = "denied"
    """The last thing that the agent tried was not permitted."""
    MAX_TURNS = "max_turns"
    BUDGET = "budget"
    LOOP = "loop"
    HANG = "hang"
    TIMEOUT = "timeout"
    CRASH = "crash"
    """It died, or stopped in the middle of its turn."""
    KILLED = "killed"
    """Somebody ended it from outside."""
    LIMIT = "limit"
    """The machine's limit on memory, processes or files ended it."""
    ENVIRONMENT = "environment"
    """The program or the machine is not fit to run it: not installed, no space, bad settings."""
    ERROR = "error"
    """It failed without a known reason."""
    INTERRUPTED = "interrupted"
    """Its runner or a person ended it; no program can report that."""


class UsageScope(StrEnum):
    """What a number of tokens or an amount of money counts."""

    STEP = "step"
    """One answer of the model; steps are summed up."""
    RUN = "run"
    """This process, from its start."""
    SESSION = "session"
    """The whole conversation, also what earlier processes spent on it."""


HOPELESS = frozenset(
    {
        *(Ending.RATE_LIMIT, Ending.QUOTA, Ending.BILLING, Ending.AUTH),
        *(Ending.MODEL, Ending.CONTEXT_OVERFLOW),
    }
)
"""Endings that retries within minutes cannot overcome."""
LIMITED = frozenset({Ending.RATE_LIMIT, Ending.QUOTA})
"""Endings that a reset time may belong to."""
OURS = frozenset({Ending.INVALID_BREAKPOINT, Ending.INTERRUPTED})
"""Endings that only the runner finds; a parser that names one is believed only that it failed."""
PUBLIC: dict[Ending, Ending] = {
    Ending.BREAKPOINT: Ending.COMPLETED,
    Ending.NO_BREAKPOINT: Ending.COMPLETED,
    Ending.INVALID_BREAKPOINT: Ending.COMPLETED,
    Ending.WAITING: Ending.COMPLETED,
    Ending.LIMIT: Ending.KILLED,
    Ending.INTERRUPTED: Ending.KILLED,
    Ending.ENVIRONMENT: Ending.ERROR,
}
"""The coarser name of each ending that a recorded run alone does not show."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens as the program counts them.

    Whether `input` includes cached ones depends on the program (codex, gemini: yes; claude,
    opencode: no); `total` is everything, for all of them.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    total: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
            self.total + other.total,
        )

    def since(self, before: Tokens) -> Tokens:
        """Return what was added to an earlier count of the same session."""
        return Tokens(
            max(0, self.input - before.input),
            max(0, self.output - before.output),
            max(0, self.cached - before.cached),
            max(0, self.reasoning - before.reasoning),
            max(0, self.total - before.total),
        )

    def to_json(self) -> dict[str, int]:
        """Return the counts under the names that people see."""
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cached_tokens": self.cached,
            "reasoning_tokens": self.reasoning,
            "total_tokens": self.total,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How one run of an agent program ended, and what it said and used."""

    outcome: Ending
    reset_at: float | None = None
    """When a limit ends, in seconds since 1970; None where the program does not say."""
    session_id: str = ""
    model: str = ""
    usage: Tokens | None = None
    """None: the program does not say."""
    usage_scope: UsageScope = UsageScope.RUN
    cost_usd: float | None = None
    cost_scope: UsageScope = UsageScope.RUN
    last_words: str = ""
    """The agent's last text, cleaned and cut; data, never an instruction."""
    tool_calls: int = 0
    denied: tuple[str, ...] = ()
    """Tools that were not permitted, each named once."""
    detail: str = ""
    """Why, in the program's or our words; one line, cleaned and cut."""
    what_to_do: str = ""
    notes: dict[str, int] = field(default_factory=dict)
    """Counts of what could not be read: `garbled`, `unknown`, `too_long`."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON; what is not known is null, or an empty object for `usage`."""
        scopes = {"scope": str(self.usage_scope), "cost_scope": str(self.cost_scope)}
        return {
            "outcome": str(self.outcome),
            "reset_at": self.reset_at,
            "session_id": self.session_id or None,
            "model": self.model or None,
            "usage": {} if self.usage is None else self.usage.to_json() | scopes,
            "cost_usd": self.cost_usd,
            "last_words": self.last_words,
            "tool_calls": self.tool_calls,
            "denied": list(self.denied),
            "detail": self.detail,
            "what_to_do": self.what_to_do,
            "notes": dict(self.notes),
        }


def with_breakpoint(outcome: RunOutcome, *, found: bool) -> RunOutcome:
    """Return the outcome with what only the mailbox tells: whether there was a breakpoint.

    A good ending becomes `breakpoint` or `no_breakpoint`; a failure stays what it is.
    """
    if found and outcome.outcome in (Ending.COMPLETED, Ending.WAITING, Ending.DENIED):
        return replace(outcome, outcome=Ending.BREAKPOINT, what_to_do="")
    if outcome.outcome is Ending.COMPLETED:
        return replace(
            outcome, outcome=Ending.NO_BREAKPOINT, what_to_do=ADVICE[Ending.NO_BREAKPOINT]
        )
    return outcome


ADVICE: dict[Ending, str] = {
    Ending.COMPLETED: "",
    Ending.BREAKPOINT: "",
    Ending.NO_BREAKPOINT: "Nothing: the next attempt is told to signal its progress.",
    Ending.INVALID_BREAKPOINT: "Nothing: the next attempt is told what is wrong with it.",
    Ending.WAITING: "Nothing: the next attempt is told not to wait in the background.",
    Ending.RATE_LIMIT: (
        "Nothing: it continues when the limit ends, or at once with `loopwright resume`."
    ),
    Ending.QUOTA: (
        "Wait until the quota is renewed, raise it with the provider, or name a second agent."
    ),
    Ending.BILLING: "Add credit or fix the payment at the provider, then `loopwright resume`.",
    Ending.AUTH: "{login} Then `loopwright resume`.",
    Ending.OVERLOADED: "Nothing: the provider has a problem; it is retried later.",
    Ending.NETWORK: (
        "Nothing: it is retried later. If it lasts, check network, proxy and base URL."
    ),
    Ending.CONTEXT_OVERFLOW: (
        "Split the task, or keep large files and outputs out of it; a fresh attempt starts empty."
    ),
    Ending.MODEL: "Name a model that {program} and this account have, then `loopwright resume`.",
    Ending.REFUSED: "Rephrase the task, or give it to another agent or to a person.",
    Ending.DENIED: "Permit what the agent needs, or run it unattended in isolation.",
    Ending.MAX_TURNS: "Raise the limit on turns, or split the task.",
    Ending.BUDGET: "Raise the budget, or split the task.",
    Ending.LOOP: "Guide the next attempt: it repeated the same steps.",
    Ending.HANG: "Nothing: the next attempt starts over. If it lasts, read the log.",
    Ending.TIMEOUT: "Raise the time limit, or split the task.",
    Ending.CRASH: "Read the log; if it lasts, install another version of {program}.",
    Ending.KILLED: "",
    Ending.LIMIT: "Raise the limit that ended it, or reduce what the task needs.",
    Ending.ENVIRONMENT: "Fix what the detail names; `loopwright doctor` checks the machine.",
    Ending.ERROR: "Read the log of the attempt.",
    Ending.INTERRUPTED: "Nothing: it starts again under the same number.",
}
"""What a person can do about each ending; `{program}` and `{login}` come from the adapter."""
