"""A person's wish for one lifecycle, from the asking to what came of it.

Owns the words for what came of it. Whether it is possible is decided by the machine.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lifecycle.errors import LifecycleError
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    ACTIVE,
    About,
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
from orchestrator import requests
from orchestrator.cli import exits
from orchestrator.cli.text import state_name
from orchestrator.config import load_settings
from orchestrator.reading import known, runner_of, store_of
from runtime.errors import GitError
from runtime.git import Git
from runtime.ownership import SAVED_REFS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from lifecycle.record import AgentLifecycle
    from lifecycle.settings import Settings
    from lifecycle.store.port import LifecycleStore

TELL_AFTER = 1.5
"""Seconds after which it is said what takes so long."""
LOOK_EVERY = 0.05
"""Seconds between two looks at what follows from a wish."""
ITS_TURN = 1.0
"""Seconds within which a runner starts an attempt that is due, if it runs that lifecycle."""
RUNS_ALL = ("loopwright up", "loopwright serve")
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
class Wish:
    """What somebody asks of a lifecycle."""

    verb: str
    agent_id: str
    text: str = ""
    by: str = ""
    wait_s: float = 10.0
    settle_s: float | None = None
    """Seconds to wait for what follows from it; by default as long as for the answer."""
    now: bool = False
    """A pause that also freezes the process under way."""
    along: bool = False
    """An accept with work of others that comes along and was not accepted."""
    verify: bool = True
    """An accept only if the merged files pass the verify commands."""
    progress: Callable[[str], None] | None = None
    """Is told of what takes long."""

    def event(self, at: float) -> on.PersonEvent:  # noqa: PLR0911  # one line per verb reads best
        """Return the fact it becomes."""
        by, text = self.by, self.text
        match self.verb:
            case "pause":
                return on.PauseRequested(at=at, by=by, now=self.now)
            case "resume":
                return on.ResumeRequested(at=at, by=by)
            case "stop":
                return on.StopRequested(at=at, by=by, pause=True)
            case "guide":
                return on.Guided(at=at, by=by, text=text)
            case "unblock":
                return on.Unblocked(at=at, by=by, note=text)
            case "answer":
                return on.Answered(at=at, by=by, text=text)
            case "accept":
                return on.AcceptRequested(at=at, by=by, along=self.along, verify=self.verify)
            case _:
                return on.RejectRequested(at=at, by=by, why=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a wish."""

    agent_id: str
    verb: str
    text: str
    state: str
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
            "changed": self.changed,
            "text": self.text,
            **self.details,
        }


async def steer(repo: Path, wish: Wish) -> Outcome:
    """Ask, wait for what follows, and put it into words; LifecycleError tells a refusal."""
    settings = load_settings(repo, environ=os.environ)
    event = wish.event(requests.now())
    async with store_of(repo) as store:
        before = await known(store, wish.agent_id, repo)
        lacks_words(wish, before)
        runner = runner_of(repo)
        wish = replace(wish, agent_id=before.agent_id)
        try:
            async with telling(wish, settings):
                await requests.send(
                    repo, wish.agent_id, event, wait_s=wish.wait_s, settings=settings
                )
                record = await settled_after(
                    store, wish, event, runs=lambda: runner_of(repo) is not None
                )
        except requests.UnansweredError:
            raise
        except LifecycleError as refusal:
            raise refusal_of(wish, await store.get(wish.agent_id) or before, refusal) from refusal
        changed = await took_effect(store, wish.agent_id, event)
        left = await left_behind(store, wish.agent_id) if changed else ""
        apart = await not_together(store, wish.agent_id, event) if wish.verb == "accept" else ""
        who = str(runner.get("who") or "another") if runner is not None else ""
        runs = who.startswith(RUNS_ALL) or (bool(who) and await _moves(store, record))
        facts = Facts(
            repo, wish, before, record, changed=changed, who=who, runs=runs, left=left, apart=apart
        )
        return await outcome_of(facts)


def lacks_words(wish: Wish, record: AgentLifecycle) -> None:
    """Refuse to let an agent go on without the answer it asked for."""
    work = record.work
    if wish.verb != "unblock" or wish.text or not isinstance(work, AwaitingHuman):
        return
    if work.about is About.QUESTION:
        raise LifecycleError(
            f'{wish.agent_id} asks "{work.text}"; loopwright answer {wish.agent_id} "TEXT"'
        )


@asynccontextmanager
async def telling(wish: Wish, settings: Settings) -> AsyncIterator[None]:
    """Say after a moment what a merge is waited for."""
    progress = wish.progress
    if progress is None:
        yield
        return
    gates = ", ".join(f"`{command}`" for command in settings.verify) or "its verify commands"
    text = f"{wish.agent_id}: merging; what comes of it is verified first if it is new ({gates})"
    timer = asyncio.get_running_loop().call_later(TELL_AFTER, progress, text)
    try:
        yield
    finally:
        timer.cancel()


async def settled_after(
    store: LifecycleStore,
    wish: Wish,
    event: on.PersonEvent,
    runs: Callable[[], bool] = lambda: True,
) -> AgentLifecycle:
    """Wait until what the wish ordered is carried out, or as long as its sender likes to."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    end = begun + (wish.wait_s if wish.settle_s is None else wish.settle_s)
    while True:
        record = await store.get(wish.agent_id)
        if record is None:
            raise LifecycleError(f"{wish.agent_id} was removed meanwhile")
        work = record.work
        merging = isinstance(work, Completed) and work.merging
        leaving = wish.verb in ("accept", "reject") and await _leaves(store, record, event)
        if not (merging or leaving) or loop.time() > end:
            return record
        if loop.time() > begun + wish.wait_s and not runs():
            return record
        await asyncio.sleep(LOOK_EVERY)


def _is(kept: on.Event, event: on.PersonEvent) -> bool:
    """Tell whether that is our event; of its words secrets may have been taken out since."""
    return type(kept) is type(event) and kept.at == event.at and kept.by == event.by


async def _leaves(store: LifecycleStore, record: AgentLifecycle, event: on.PersonEvent) -> bool:
    """Tell whether workspace and branch are still to be removed because of this event."""
    if isinstance(record.work, (*ACTIVE, Completed)):
        return isinstance(event, on.RejectRequested)
    entries = await store.journal(record.agent_id, limit=20, newest=True)
    asked = any(_is(entry.event, event) for entry in entries)
    gone = any(isinstance(entry.event, on.WorkspaceRemoved) for entry in entries)
    return asked and not gone


async def _moves(store: LifecycleStore, record: AgentLifecycle) -> bool:
    """Tell whether a lifecycle whose next attempt is due gets one."""
    loop = asyncio.get_running_loop()
    end = loop.time() + ITS_TURN
    while loop.time() < end:
        work = record.work
        if not isinstance(work, BackingOff) or work.until > requests.now():
            return True
        await asyncio.sleep(LOOK_EVERY)
        record = await store.get(record.agent_id) or record
    return False


async def took_effect(store: LifecycleStore, agent_id: str, event: on.PersonEvent) -> bool:
    """Tell whether a wish was decided upon by now."""
    entries = await store.journal(agent_id, limit=100, newest=True)
    return any(_is(entry.event, event) for entry in entries)


async def not_together(store: LifecycleStore, agent_id: str, event: on.PersonEvent) -> str:
    """Say what a merge failed from since it was asked for, if an agent is to resolve it."""
    entries = await store.journal(agent_id, limit=100, newest=True)
    told = [
        entry.event.text
        for entry in entries
        if isinstance(entry.event, on.MergeFailed)
        and entry.event.apart
        and entry.event.at >= event.at
        and entry.after != Completed.__name__
    ]
    return told[-1] if told else ""


async def left_behind(store: LifecycleStore, agent_id: str) -> str:
    """Say why what an ended lifecycle worked in could not be removed; nothing if it could."""
    entries = await store.journal(agent_id, limit=20, newest=True)
    told = [entry.event for entry in entries if isinstance(entry.event, on.WorkspaceRemoved)]
    return told[-1].problem if told else ""


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
            state=str(self.record.state),
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
        return facts.outcome(f"{'held' if facts.changed else 'held already'}{again}")
    if isinstance(work, Working) and work.frozen and facts.wish.now:
        frozen = "is frozen" if facts.changed else "is frozen already"
        again = f"loopwright resume {facts.record.agent_id}"
        return facts.outcome(f"attempt {work.tally.attempt} {frozen}; let it go on with: {again}")
    if isinstance(work, ACTIVE) and facts.changed:
        attempt = work.tally.attempt
        if facts.wish.verb == "stop":
            return facts.outcome(f"attempt {attempt} is being ended, then it is held")
        if facts.wish.now:
            return facts.outcome(
                f"will be held after attempt {attempt}; nothing was frozen: its agent does not "
                "work at the moment"
            )
        return facts.outcome(f"will be held after attempt {attempt}")
    return facts.outcome(f"nothing to {facts.wish.verb}: it is {_where(work)}", changed=False)


def _moved(facts: Facts) -> Outcome:
    verb, work = facts.wish.verb, facts.work
    if not facts.changed:
        why = NEEDS[verb] if verb != "resume" else f"nothing to resume: it is {_where(work)}"
        if verb == "resume":
            return facts.outcome(why)
        raise LifecycleError(f"{facts.record.agent_id} is {_where(work)}; {why}")
    done = {"resume": "resumed", "guide": "noted for the next attempt", "unblock": "unblocked",
            "answer": "answered"}[verb]  # fmt: skip
    if verb == "guide" and isinstance(facts.before.work, Completed):
        done = "sent back to a fresh attempt with your words"
    if isinstance(work, Suspended):
        return facts.outcome(
            f"{done}; it is still held (loopwright resume {facts.record.agent_id})"
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


def _where(work: State | None) -> str:
    if work is None:
        return "driven by no loop"
    name = state_name(type(work).__name__)
    attempt = f" (attempt {work.tally.attempt})" if isinstance(work, ACTIVE) else ""
    about = f" ({work.about})" if isinstance(work, AwaitingHuman) else ""
    return f"{name}{attempt}{about}"


def refusal_of(wish: Wish, record: AgentLifecycle, refusal: LifecycleError) -> LifecycleError:
    """Say in the words of people why a wish was refused."""
    if "is not possible while" not in str(refusal):
        return refusal
    # What was given up can be taken up again, once the limit that the machine names is raised.
    why = str(refusal).partition(f" is not possible while {Rejected.__name__}: ")[2]
    return LifecycleError(f"{wish.agent_id} is {_where(record.work)}; {why or NEEDS[wish.verb]}")


async def saved_refs(repo: Path, agent_id: str) -> tuple[str, ...]:
    """Return the refs under which unmerged work of an agent is kept."""
    try:
        found = await Git().run(
            "for-each-ref", "--format=%(refname)", f"{SAVED_REFS}{agent_id}", cwd=repo
        )
    except GitError:
        return ()
    return tuple(found.text.split())
