"""The outcome of a person's command for one lifecycle: text, exit code and what to do next.

Decides nothing and changes nothing: it reads the record as the command left it.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from lifecycle.machine.frozen import frozen
from lifecycle.machine.states import (
    ACTIVE,
    Accepted,
    Completed,
    Rejected,
    State,
    Suspended,
    Working,
)
from lifecycle.needs_person import stands
from lifecycle.state_words import NOT_TOGETHER, PAUSED, QUEUED, WAITING, spelled, word_for, word_on
from orchestrator.terminal import exits
from runtime.errors import GitError

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.record import AgentLifecycle


@frozen
class OperatorOutcome:
    """The outcome of one command."""

    agent_id: str
    verb: str
    text: str
    state: str
    """The word for it, as programs read it."""
    record_state: str
    exit_code: int = exits.COMPLETE
    changed: bool = True
    """Whether it changed anything; to accept or reject twice does not."""
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


@frozen
class CommandEffect:
    """What one command changed, and which runner continues."""

    repo: Path
    verb: str
    before: AgentLifecycle
    record: AgentLifecycle
    changed: bool
    who: str
    """The live runner that has the repository, if one has."""
    runs: bool
    """Whether that runner continues this lifecycle."""
    left: str = ""
    """Why its workspace or branch is still there, although it is over."""
    apart: str = ""
    """Why it was not merged and went back to an agent."""
    now: bool = False
    """Whether a pause was to freeze the process under way, too."""
    ticked: str = ""
    """Where its task was ticked, if it was read from a list."""

    @property
    def work(self) -> State | None:
        """The work state."""
        return self.record.work

    def outcome(self, text: str, **more: Any) -> OperatorOutcome:
        """Return the outcome in these words."""
        return OperatorOutcome(
            agent_id=self.record.agent_id,
            verb=self.verb,
            text=text,
            state=spelled(word_on(self.record, runs=bool(self.who))),
            record_state=str(self.record.state),
            changed=more.pop("changed", self.changed),
            **more,
        )


async def outcome_of(effect: CommandEffect) -> OperatorOutcome:
    """Put the effect of a command into words."""
    match effect.verb:
        case "accept":
            return _accepted(effect)
        case "reject":
            return await _rejected(effect)
        case "pause" | "stop":
            return _held(effect)
        case _:
            return _moved(effect)


def _accepted(effect: CommandEffect) -> OperatorOutcome:
    work, record = effect.work, effect.record
    if isinstance(work, Accepted):
        into = str(record.facts.get("base_branch") or "its base")
        already = "" if effect.changed else "already "
        return effect.outcome(
            f"{already}accepted, merged into {into} as {work.commit[:7]}"
            + "".join(f"; {each}" for each in (effect.ticked, effect.left) if each),
            details={"commit": work.commit, "into": into}
            | ({"ticked": effect.ticked} if effect.ticked else {}),
            hint="It is removed with its record, after retention_hours." if effect.left else "",
        )
    if effect.apart:
        return effect.outcome(
            f"not merged: {effect.apart}; it goes back to an agent{_then(effect)}",
            exit_code=exits.BLOCKED,
            details={"problem": effect.apart},
            hint="The base was not changed. What the agent makes of it waits for you again.",
        )
    if isinstance(work, Completed) and work.along:
        return effect.outcome(
            f"not merged: {work.problem}",
            exit_code=exits.USAGE,
            details={"problem": work.problem, "comes_along": list(work.along)},
            hint="Nothing was changed.",
        )
    if isinstance(work, Completed) and work.problem:
        branch = record.facts.get("branch") or "its branch"
        base = record.facts.get("base_branch") or "the base"
        return effect.outcome(
            f"not merged: {work.problem}",
            exit_code=exits.BLOCKED,
            details={"problem": work.problem},
            hint=f"Nothing was changed. Merge {branch} yourself and accept again, or let an agent "
            f"resolve it: loopwright guide {record.agent_id} 'Merge {base} into your branch'"
            if any(words in work.problem for words in NOT_TOGETHER)
            else "Nothing was changed.",
        )
    return effect.outcome("accepted; its merge is still under way", exit_code=exits.BLOCKED)


async def _rejected(effect: CommandEffect) -> OperatorOutcome:
    agent = effect.record.agent_id
    if not isinstance(effect.work, Rejected):
        return effect.outcome("will be rejected as soon as its attempt has ended")
    saved = await saved_refs(effect.repo, agent)
    gone = effect.left or "workspace and branch are removed"
    kept = f", its work is kept under {', '.join(saved)}" if saved else ""
    already = "" if effect.changed else "was rejected before: "
    name = "rejected: " if effect.changed else ""
    return effect.outcome(
        f"{already}{name}{gone}{kept}",
        details={"saved_refs": list(saved)},
        hint=f"Then: loopwright reject {agent}" if effect.left else "",
    )


def _held(effect: CommandEffect) -> OperatorOutcome:
    work = effect.work
    if isinstance(work, Suspended):
        again = f"; continue with: loopwright resume {effect.record.agent_id}"
        return effect.outcome(f"{word_for(work)}{again}")
    if not isinstance(work, ACTIVE):  # it has moved on since
        return effect.outcome(f"it {stands(work)}" if work is not None else "it is over")
    attempt = work.tally.attempt
    if isinstance(work, Working) and work.frozen and effect.now:
        again = f"loopwright resume {effect.record.agent_id}"
        return effect.outcome(f"attempt {attempt} is frozen; continue with: {again}")
    if effect.verb == "stop":
        return effect.outcome(f"attempt {attempt} is being ended, then it is stopped")
    if effect.now:
        return effect.outcome(
            f"will be paused after attempt {attempt}; nothing was frozen: its agent is not "
            "running at the moment"
        )
    return effect.outcome(f"will be {PAUSED} after attempt {attempt}")


def _moved(effect: CommandEffect) -> OperatorOutcome:
    verb, work = effect.verb, effect.work
    if not effect.changed:
        return effect.outcome(f"its loop is started again by the live runner ({effect.who})")
    done = {"resume": "resumed", "guide": "noted for the next attempt", "unblock": "unblocked",
            "answer": "answered", "approve": "its summary is approved"}[verb]  # fmt: skip
    if verb == "guide" and isinstance(effect.before.work, Completed):
        done = "sent back to a fresh attempt with your words"
    if isinstance(work, Suspended):
        return effect.outcome(
            f"{done}; it is still {word_for(work)} (loopwright resume {effect.record.agent_id})"
        )
    return effect.outcome(f"{done}{_then(effect)}")


def _then(effect: CommandEffect) -> str:
    """Say how it continues."""
    moves = effect.work is not None and word_for(effect.work) in (QUEUED, WAITING)
    if not moves or effect.runs:
        return ""
    if effect.who:
        return f"; the live runner ({effect.who}) does not run it: run `loopwright up` after that"
    return "; start it with: loopwright up"


async def saved_refs(repo: Path, agent_id: str) -> tuple[str, ...]:
    """Return the refs under which unmerged work of an agent is kept."""
    try:
        from runtime.git.git import Git  # noqa: PLC0415  # only after a reject
        from runtime.git.ownership import SAVED_REFS  # noqa: PLC0415  # as above

        found = await Git().run(
            "for-each-ref", "--format=%(refname)", f"{SAVED_REFS}{agent_id}", cwd=repo
        )
    except GitError:
        return ()
    return tuple(found.text.split())
