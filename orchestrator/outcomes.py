"""What came of a person's wish for one lifecycle, in words, with an exit code and what to do next.

Decides nothing and changes nothing: it reads the record as the wish left it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lifecycle.errors import LifecycleError
from lifecycle.machine.states import (
    ACTIVE,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Completed,
    PrPending,
    Queued,
    Rejected,
    State,
    Suspended,
    Working,
)
from lifecycle.state_words import NEEDS_YOU, PAUSED, spelled, word_for, word_on
from orchestrator.cli import exits
from runtime.errors import GitError
from runtime.git import Git
from runtime.ownership import SAVED_REFS

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.record import AgentLifecycle
    from orchestrator.steering import Wish

NOT_TOGETHER = ("both changed", "is red")
"""Words of a refused merge that an agent can mend; any other is for a person."""
NEEDS = {
    "answer": "only an open question or a blocker can be answered",
    "unblock": "only one that is blocked, or waits for a merge, a task or a person, can be",
    "accept": "only completed work can be accepted",
    "resume": "there is nothing to resume",
    "guide": "it is over, and no attempt follows",
    "reject": "accepted work is merged already; revert the merge with git",
    "pause": "there is nothing to pause",
    "stop": "there is nothing to stop",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a wish."""

    agent_id: str
    verb: str
    text: str
    state: str
    """The word for it, as programs read it."""
    record_state: str
    exit_code: int = exits.COMPLETE
    changed: bool = True
    """Whether it changed anything; asking twice does not."""
    details: dict[str, Any] = field(default_factory=dict)
    hint: str = ""
    """What to do next."""

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "agent_id": self.agent_id,
            "command": self.verb,
            "state": self.state,
            "record_state": self.record_state,
            "changed": self.changed,
            "text": self.text,
            **self.details,
        }


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is to tell about one wish."""

    repo: Path
    wish: Wish
    before: AgentLifecycle
    record: AgentLifecycle
    changed: bool
    who: str
    """The live runner that has the repository, if one has."""
    runs: bool
    """Whether that runner goes on with this lifecycle."""
    left: str = ""
    """Why its workspace or branch is still there, although it is over."""
    apart: str = ""
    """Why it was not merged and went back to an agent."""

    @property
    def work(self) -> State | None:
        """The work state."""
        return self.record.work

    def outcome(self, text: str, **more: Any) -> Outcome:
        """Return the outcome in these words."""
        return Outcome(
            agent_id=self.wish.agent_id,
            verb=self.wish.verb,
            text=text,
            state=spelled(word_on(self.record, runs=bool(self.who))),
            record_state=str(self.record.state),
            changed=more.pop("changed", self.changed),
            **more,
        )


async def outcome_of(facts: Facts) -> Outcome:
    """Say what came of a wish."""
    match facts.wish.verb:
        case "accept":
            return _accepted(facts)
        case "reject":
            return await _rejected(facts)
        case "pause" | "stop":
            return _held(facts)
        case _:
            return _moved(facts)


def _accepted(facts: Facts) -> Outcome:
    work, record = facts.work, facts.record
    if isinstance(work, Accepted):
        into = str(record.facts.get("base_branch") or "its base")
        already = "" if facts.changed else "already "
        return facts.outcome(
            f"{already}accepted, merged into {into} as {work.commit[:7]}"
            + (f"; {facts.left}" if facts.left else ""),
            details={"commit": work.commit, "into": into},
            hint="It is removed with its record, after retention_hours." if facts.left else "",
        )
    if facts.apart:
        return facts.outcome(
            f"not merged: {facts.apart}; it goes back to an agent{_then(facts)}",
            exit_code=exits.BLOCKED,
            details={"problem": facts.apart},
            hint="The base was not changed. What the agent makes of it waits for you again.",
        )
    if isinstance(work, Completed) and work.along:
        return facts.outcome(
            f"not merged: {work.problem}",
            exit_code=exits.USAGE,
            details={"problem": work.problem, "comes_along": list(work.along)},
            hint="Nothing was changed.",
        )
    if isinstance(work, Completed) and work.problem:
        branch = record.facts.get("branch") or "its branch"
        base = record.facts.get("base_branch") or "the base"
        return facts.outcome(
            f"not merged: {work.problem}",
            exit_code=exits.BLOCKED,
            details={"problem": work.problem},
            hint=f"Nothing was changed. Merge {branch} yourself and accept again, or let an agent "
            f"resolve it: loopwright guide {record.agent_id} 'Merge {base} into your branch'"
            if any(words in work.problem for words in NOT_TOGETHER)
            else "Nothing was changed.",
        )
    return facts.outcome("accepted; its merge is still under way", exit_code=exits.BLOCKED)


async def _rejected(facts: Facts) -> Outcome:
    agent = facts.record.agent_id
    if not isinstance(facts.work, Rejected):
        return facts.outcome("will be rejected as soon as its attempt has ended")
    saved = await saved_refs(facts.repo, agent)
    gone = facts.left or "workspace and branch are removed"
    kept = f", its work is kept under {', '.join(saved)}" if saved else ""
    already = "" if facts.changed else "was rejected before: "
    name = "rejected: " if facts.changed else ""
    return facts.outcome(
        f"{already}{name}{gone}{kept}",
        details={"saved_refs": list(saved)},
        hint=f"Then: loopwright reject {agent}" if facts.left else "",
    )


def _held(facts: Facts) -> Outcome:
    work = facts.work
    if isinstance(work, Suspended):
        again = f"; go on with: loopwright resume {facts.record.agent_id}"
        return facts.outcome(f"{word_for(work)}{'' if facts.changed else ' already'}{again}")
    if isinstance(work, Working) and work.frozen and facts.wish.now:
        frozen = "is frozen" if facts.changed else "is frozen already"
        again = f"loopwright resume {facts.record.agent_id}"
        return facts.outcome(f"attempt {work.tally.attempt} {frozen}; let it go on with: {again}")
    if isinstance(work, ACTIVE) and facts.changed:
        attempt = work.tally.attempt
        if facts.wish.verb == "stop":
            return facts.outcome(f"attempt {attempt} is being ended, then it is stopped")
        if facts.wish.now:
            return facts.outcome(
                f"will be paused after attempt {attempt}; nothing was frozen: its agent does not "
                "work at the moment"
            )
        return facts.outcome(f"will be {PAUSED} after attempt {attempt}")
    return facts.outcome(f"nothing to {facts.wish.verb}: it {_stands(work)}", changed=False)


def _moved(facts: Facts) -> Outcome:
    verb, work = facts.wish.verb, facts.work
    if not facts.changed:
        why = NEEDS[verb] if verb != "resume" else f"nothing to resume: it {_stands(work)}"
        if verb == "resume":
            return facts.outcome(why)
        raise LifecycleError(f"{facts.record.agent_id} {_stands(work)}; {why}")
    done = {"resume": "resumed", "guide": "noted for the next attempt", "unblock": "unblocked",
            "answer": "answered"}[verb]  # fmt: skip
    if verb == "guide" and isinstance(facts.before.work, Completed):
        done = "sent back to a fresh attempt with your words"
    if isinstance(work, Suspended):
        return facts.outcome(
            f"{done}; it is still {word_for(work)} (loopwright resume {facts.record.agent_id})"
        )
    return facts.outcome(f"{done}{_then(facts)}")


def _then(facts: Facts) -> str:
    """Say who goes on with it."""
    moves = isinstance(facts.work, (BackingOff, Queued, Blocked, PrPending))
    if not moves:
        return ""
    if facts.runs:
        return ""
    if facts.who:
        return f"; the live runner ({facts.who}) leaves it alone: run `loopwright up` after that"
    return "; start it with: loopwright up"


def _stands(work: State | None) -> str:
    if work is None:
        return "is driven by no loop"
    word = word_for(work)
    name = word if word == NEEDS_YOU else f"is {word}"
    attempt = f" (attempt {work.tally.attempt})" if isinstance(work, ACTIVE) else ""
    about = f" ({work.about})" if isinstance(work, AwaitingHuman) else ""
    return f"{name}{attempt}{about}"


def refusal_of(wish: Wish, record: AgentLifecycle, refusal: LifecycleError) -> LifecycleError:
    """Say in the words of people why a wish was refused."""
    if "is not possible while" not in str(refusal):
        return refusal
    # What was given up can be taken up again, once the limit that the machine names is raised.
    why = str(refusal).partition(f" is not possible while {Rejected.__name__}: ")[2]
    return LifecycleError(f"{wish.agent_id} {_stands(record.work)}; {why or NEEDS[wish.verb]}")


async def saved_refs(repo: Path, agent_id: str) -> tuple[str, ...]:
    """Return the refs under which unmerged work of an agent is kept."""
    try:
        found = await Git().run(
            "for-each-ref", "--format=%(refname)", f"{SAVED_REFS}{agent_id}", cwd=repo
        )
    except GitError:
        return ()
    return tuple(found.text.split())
