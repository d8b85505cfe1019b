"""What is known of the lifecycle of one draft: its file, what it used, and why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError, PlanError
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    PrPending,
    Reason,
    Rejected,
)
from lifecycle.paths import Paths
from orchestrator.config.plans import MOST_BYTES
from orchestrator.drafting.check import Surroundings
from orchestrator.drafting.draft_task import FILE
from orchestrator.terminal import exits
from orchestrator.terminal.options import user
from orchestrator.terminal.text import instant, one_line
from runtime.git.git import Git

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lifecycle.machine.states import State
    from lifecycle.record import AttemptRow
    from orchestrator.cli.run_loops import CommandContext

NOT_MERGED = "a draft of a plan is not merged"
_LAST = "the last: "
_PLAIN_FILES = ("100644", "100755")


class DraftFailedError(LifecycleError):
    """There is no draft; the text says why."""

    def __init__(self, text: str, code: int, *, by_signal: bool = False) -> None:
        super().__init__(text)
        self.code, self.by_signal = code, by_signal


class DraftAsksError(LifecycleError):
    """The agent asks something before it can draft."""


@dataclass(slots=True)
class DraftUsage:
    """What all drafts of a command used."""

    attempts: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0

    def to_json(self) -> dict[str, int | float | None]:
        """Return plain values; an unknown cost is null."""
        return {
            "attempts": self.attempts,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "seconds": round(self.seconds, 3),
        }

    def add(self, rows: Iterable[AttemptRow]) -> None:
        """Count the attempts of one draft in."""
        for row in rows:
            used = row.used
            self.attempts += 1
            self.tokens += used.tokens
            self.seconds += used.seconds
            if used.cost_usd is not None:
                self.cost_usd = (self.cost_usd or 0.0) + used.cost_usd


@dataclass(slots=True)
class DraftOrder:
    """Who drafts, for how long at most, and what that used so far."""

    context: CommandContext
    adapter: str | None = None
    command: str | None = None
    timeout: float = 1200.0
    """Seconds that an agent may take for one draft; 0 for no limit."""
    plain: bool = False
    used: DraftUsage = field(default_factory=DraftUsage)
    around: Surroundings = field(default_factory=Surroundings)
    """What the newest draft has to fit."""


async def read_draft(repo: Path, head: str) -> tuple[str, frozenset[str]]:
    """Return the draft in a commit, and the files there; PlanError says why it cannot be read."""
    git = Git(home=Paths.of(repo).root / "git")
    listed = await git.run("ls-tree", "-z", "-l", head, "--", FILE, cwd=repo)
    mode, _, blob, size = listed.stdout.partition(b"\t")[0].decode().split() or ("",) * 4
    if mode not in _PLAIN_FILES:
        raise PlanError(f"the agent says it is done, and {FILE} is no plain file in its commit")
    if int(size) > MOST_BYTES:
        raise PlanError(f"the draft has {int(size) // 1024} KiB: at most {MOST_BYTES // 1024}")
    files = await git.run("ls-tree", "-r", "-z", "--name-only", head, cwd=repo)
    found = await git.run("cat-file", "blob", blob, cwd=repo)
    try:
        text = found.stdout.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise PlanError(f"the draft is not UTF-8: {problem}") from problem
    return text, frozenset(files.stdout.decode(errors="surrogateescape").split("\0"))


def waits_for(work: State, at: float) -> tuple[str, int] | None:
    """Return what a draft waits for, if nobody should wait for that here, and the exit code."""
    match work:
        case BackingOff() if work.tally.resting:
            until = instant(work.until, at)
            return f"the agent program cannot work before {until}: {work.why}", exits.LIMIT_REACHED
        case Blocked():
            thing = work.word.reason or ", ".join(work.word.blocked_on)
            return f"the agent is blocked: {one_line(thing, 200)}", exits.BLOCKED
        case PrPending():
            return "the agent says that it opened a pull request, and drafted nothing", exits.FAILED
        case _:
            return None


def failure(work: State | None, why: str, code: int) -> LifecycleError:
    """Return why there is no draft: the question of the agent, or the end of its loop."""
    if isinstance(work, AwaitingHuman) and work.about is About.QUESTION:
        return DraftAsksError(work.text)
    if isinstance(work, Rejected) and work.reason is Reason.MAX_RETRIES:
        # There is one attempt for each draft: how many are left says nothing.
        return DraftFailedError(f"no draft: {why.rpartition(_LAST)[2]}", exits.FAILED)
    return DraftFailedError(why or "the agent drafted nothing", code or exits.FAILED)


def is_closed(work: State | None) -> bool:
    """Tell whether a draft has ended for good."""
    return isinstance(work, Rejected) and work.reason is Reason.PERSON


def closing(at: float) -> on.RejectRequested:
    """Return what ends a draft; its commit stays under a saved ref."""
    return on.RejectRequested(at=at, by=user(), why=NOT_MERGED)
