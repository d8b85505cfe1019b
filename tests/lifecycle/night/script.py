"""What happens in a night, drawn from a seed before it begins, and what agents do in it. Pure.

Only the outside is in here: what agents do, when providers are in trouble, what people do and when
the runner dies. Nothing says how the loop takes it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lifecycle.plan import Agent, Allowance, PlanMark, Task

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
EVENING = datetime(2090, 1, 10, 19, 0, tzinfo=UTC).timestamp()
"""Far in the future: files of the machine must be older than anything in the night."""
MIDNIGHT = EVENING + 5 * HOUR

GOOD = ("complete", "complete_late")
BAD = ("lie", "dirty", "silent", "hang", "crash", "flood", "linger", "context", "error")
TALK = ("block_ci", "block_person", "ask", "pr")
NEVER = ("block_for_ever", "ask_for_ever")


@dataclass(frozen=True)
class Deed:
    """What one attempt does, as long as nothing outside is in its way."""

    kind: str
    pace: float
    """Seconds between two steps."""
    steps: tuple[int, ...]
    """Tokens of each."""
    commits: bool
    same_words: bool = False


@dataclass(frozen=True)
class Job:
    """One task, who works on it, and what the attempts on it do."""

    task: Task
    agent: Agent
    plan: PlanMark
    deeds: tuple[Deed, ...]

    @property
    def programs(self) -> tuple[str, ...]:
        """Its chain; one without a name for a command."""
        return self.agent.programs or ("",)


@dataclass(frozen=True)
class Trouble:
    """A time in which a program's provider, or its key, does not work."""

    program: str
    kind: str
    since: float
    until: float
    named: bool = False
    """The limit names its end."""


@dataclass(frozen=True)
class Night:
    """Everything that is drawn."""

    seed: int
    jobs: tuple[Job, ...]
    troubles: tuple[Trouble, ...]
    crashes: tuple[tuple[int, float], ...]
    """After how many steps of a runner it dies, and for how long nobody starts another."""
    hurries: tuple[tuple[float, str], ...]
    """When a person says of an agent that it shall not wait."""
    settings: dict[str, Any] = field(default_factory=dict)

    def trouble(self, program: str, at: float) -> Trouble | None:
        """Return what is in the way of a program now."""
        found = (
            each
            for each in self.troubles
            if each.program == program and each.since <= at < each.until
        )
        return next(found, None)


def draw(seed: int, tasks: int = 50) -> Night:
    """Draw a night."""
    chance = random.Random(seed)  # noqa: S311  # no secret
    jobs = tuple(_job(chance, number) for number in range(tasks))
    crashes = tuple(
        (chance.randrange(150, 900), chance.uniform(0.5, 20) * MINUTE) for _ in range(4)
    )
    hurries = tuple(
        (EVENING + chance.uniform(0.3, 6) * HOUR, job.agent.agent_id)
        for job in chance.sample(jobs, min(6, len(jobs)))
    )
    settings = {
        "max_live_agents": 6,
        "max_retries": 6,
        "stuck_limit": 3,
        "same_gate_limit": 0,
        "breaker_cooldown": HOUR,
        "retry_interval": MINUTE,
        "idle_limit": 20 * MINUTE,
        "wall_limit": 2 * HOUR,
        "blocked_timeout": 6 * HOUR,
        "pr_merge_timeout": 4 * HOUR,
        "max_events": 1000,
        "baseline": False,
        "stop_grace": 0.1,
        "retention_hours": 10_000.0,
        "day_budget_tokens": chance.choice((2_000_000, 4_000_000, 60_000_000)),
        "budget_usd": 4.0,
    }
    return Night(seed, jobs, _troubles(chance), crashes, hurries, settings)


def _troubles(chance: random.Random) -> tuple[Trouble, ...]:
    """Draw when what does not work; times in whole minutes, as codex names them."""
    found = []
    for program in ("claude", "codex"):
        at = EVENING + chance.randrange(10, 50) * MINUTE
        for kind, named, longest in (
            *chance.sample((("rate_limit", True, 170), ("rate_limit", False, 50)), 2),
            *chance.sample((("overloaded", False, 30), ("network", False, 40)), 2),
            ("rate_limit", True, 90),
        ):
            until = at + chance.randrange(longest // 3, longest) * MINUTE
            found.append(Trouble(program, kind, at, until, named))
            at = until + chance.randrange(15, 70) * MINUTE
    at = MIDNIGHT + chance.randrange(60, 240) * MINUTE
    last = max(each.until for each in found if each.program == "claude")
    since = max(at, last + 10 * MINUTE)
    found.append(Trouble("claude", "auth", since, since + 45 * MINUTE))
    return tuple(found)


PLANS = (
    PlanMark(name="alpha", budget=Allowance(tokens=3_500_000)),
    PlanMark(name="beta", budget=Allowance(attempts=45)),
    PlanMark(name="gamma", budget=Allowance(usd=9.0)),
    PlanMark(name="delta"),
)


def _job(chance: random.Random, number: int) -> Job:
    task_id = f"T{number:03}"
    who: dict[str, Any] = (
        {"agents": ("claude", "codex")},
        {"adapter": "claude"},
        {"adapter": "codex"} if number % 2 else {"command": ("agent",)},
    )[number % 3]
    own = Allowance(tokens=chance.randrange(250_000, 500_000)) if chance.random() < 0.2 else None
    if chance.random() < 0.1:
        own = Allowance(attempts=chance.randrange(2, 4))
    before = range(max(0, number - 12), number)
    needs = chance.sample(before, min(len(before), chance.choice((0, 0, 0, 0, 0, 1, 1, 2))))
    task = Task(
        id=task_id,
        title=f"Task {number}",
        verify=(f"check {task_id}",),
        dependencies=tuple(f"T{each:03}" for each in needs),
        budget=own,
    )
    agent = Agent(agent_id=f"agent-{task_id}", **who)
    return Job(task, agent, chance.choice(PLANS), _deeds(chance))


def _deeds(chance: random.Random) -> tuple[Deed, ...]:
    """Draw what the attempts on a task do; the last of them is done again and again."""
    temper = chance.random()
    if temper < 0.06:
        return (_deed(chance, chance.choice(NEVER)),)
    if temper < 0.14:  # never moves anything
        kind = chance.choice(("lie", "silent", "hang", "crash", "error"))
        return (_deed(chance, kind, commits=False, same_words=True),)
    kinds = [chance.choice(BAD + TALK) for _ in range(chance.choice((0, 0, 1, 1, 2, 3, 4)))]
    return tuple(_deed(chance, kind) for kind in (*kinds, chance.choice(GOOD)))


def _deed(
    chance: random.Random, kind: str, *, commits: bool | None = None, same_words: bool = False
) -> Deed:
    steps = tuple(chance.randrange(20_000, 25_000) for _ in range(chance.randrange(4, 6)))
    moves = kind in (*GOOD, *TALK) or chance.random() < 0.6
    pace = chance.uniform(1, 6) * MINUTE
    return Deed(kind, pace, steps, moves if commits is None else commits, same_words)


# --- what an agent does in one attempt, step by step, for each kind of deed ---

Steps = list[tuple[str, Any]]
TOO_MANY = 1100
"""Events; more than these nights allow."""
ENDS: dict[str, Steps] = {
    "silent": [("end", None), ("exit", 0)],
    "linger": [("end", None), ("stay", None)],
    "hang": [("stay", None)],
    "crash": [("signal", 11)],
    "flood": [("write", ['{"type":"item.updated"}'] * TOO_MANY), ("stay", None)],
    "context": [("fail", "context_overflow"), ("exit", 1)],
    "error": [("exit", 1)],
}
WHOM = {"block_ci": "ci", "block_person": "person", "block_for_ever": "nobody"}


def steps_of(deed: Deed, attempt: int) -> Steps:
    """Return everything that it does after it began."""
    steps: Steps = []
    for number, tokens in enumerate(deed.steps):
        steps += [("wait", deed.pace), ("work", (number, tokens))]
    if deed.commits:
        steps.append(("commit", "x.txt"))
    which = 0 if deed.same_words else attempt
    return [*steps, *(ENDS.get(deed.kind) or _finishes(deed.kind, which) or _talks(deed, which))]


def _finishes(kind: str, which: int) -> Steps:
    """Say that it is done, be it true or not."""
    done = ("say", {"type": "task_complete", "summary": f"done in {which}"})
    match kind:
        case "complete":
            return [("gate", 0), ("end", None), done, ("exit", 0)]
        case "complete_late":
            return [("gate", 0), done, ("wait", 5.0), ("end", None), ("exit", 0)]
        case "lie":
            return [("gate", 1), ("end", None), done, ("exit", 0)]
        case "dirty":
            return [("gate", 0), ("dirty", f"y{which}.txt"), done, ("exit", 0)]
        case _:
            return []


def _talks(deed: Deed, which: int) -> Steps:
    if deed.kind == "pr":
        return [("say", {"type": "pr_created", "summary": f"pull {which}"}), ("exit", 0)]
    if deed.kind in WHOM:
        whom = WHOM[deed.kind]
        word = {"type": "blocked", "blocked_on": [f"{whom}-{which}"], "summary": whom}
        return [("say", word), ("exit", 0)]
    word = {"type": "question", "question": f"which {which}?"}
    return [("end", None), ("say", word), ("exit", 0)]
