"""The pure core of every engine: what a fact means for one lifecycle, and what is written of it.

Nouns: the `WorkingCopy` is what the store keeps of a lifecycle, in memory; `Drive.take` answers a
fact with a `Turn`: a commit with its orders, or a refusal, or nothing. After the commit is in the
store, `Drive.committed` brings the working copy in line, and only then are the orders performed.

Everything that runs a lifecycle (the owner on this machine, or another engine) uses it; no one else
decides. It must not know an event loop, a clock, a disk or a network: instants come with facts, and
settings as a `Policy`.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import Completed, Preparing, Spawning, Verifying, Wanted
from lifecycle.machine.table import IllegalTransition, decide, rule_name
from lifecycle.machine.values import changed
from lifecycle.needs_person import in_vain, refusal
from lifecycle.past import FULL_ATTEMPTS, MOST_SHOWN, PAST_BYTES, shortened, size, within
from lifecycle.projection import of_review, onto_books, onto_ledger, onto_record
from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry, PendingEffect, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import Signal, State, UnavailableProgram
    from lifecycle.machine.step import Step

REMEMBERED_ATTEMPTS = 200
"""Of which a loop that takes over learns; the last `FULL_ATTEMPTS` in full."""
REMEMBERED_FACTS = 200
LASTING = (
    on.SnapshotTaken,
    on.BlockersLooked,
    on.DependencySettled,
    on.WorkJoined,
    on.CiReported,
    on.PullRequestMoved,
    on.Reviewed,
    on.ReviewFinished,
    on.Unblocked,
    on.Answered,
    on.Guided,
)
"""Facts of a block, and words of people: an attempt that came to nothing does not use them up."""
NOTES = (on.Guided, on.Reviewed, on.MailboxInvalid, on.WorkspaceRemoved)
"""Facts that change no state and are kept all the same."""


@dataclass(slots=True, kw_only=True)
class WorkingCopy:
    """A lifecycle in memory: its record, and what of journal and ledger the next summary needs.

    Everything here can be loaded again from the store; it is kept only so that the way from one
    attempt to the next reads nothing.
    """

    record: AgentLifecycle
    seq: int = 0
    """Of the latest journal entry."""
    recent: list[JournalEntry] = field(default_factory=list)
    """The journal since the latest agent was spawned, that one included, and what was too late for
    its summary."""
    before: list[JournalEntry] = field(default_factory=list)
    """Of the journal before that, what the latest agent was told and may not have gone on from."""
    ledger: list[AttemptRow] = field(default_factory=list)
    """The last attempts."""
    folded: dict[str, int] = field(default_factory=dict)
    """How those before them ended, counted."""
    alike: int = 0
    """How many of those, right before the oldest in the ledger, ended in the same way as that."""
    past_bytes: int = 0
    """What all this takes in the JSON form, about."""

    @property
    def agent_id(self) -> str:
        """The id under which everything of this lifecycle is kept."""
        return self.record.agent_id

    @property
    def attempt(self) -> int:
        """Number of the attempt under way, or of the next one."""
        return self.record.work.tally.attempt if self.record.work is not None else 1

    def lasting(self) -> list[JournalEntry]:
        """Return what was told to the latest agent and still counts, because it came to nothing.

        An attempt that signalled went on from it, unless its work was sent back.
        """
        spoke = any(_word(told.event) for told in self.recent if not told.late)
        return [] if spoke and not any(map(_sends_back, self.recent)) else self.before

    def remember(self, entry: JournalEntry) -> None:
        """Keep a fact for the next summary."""
        if isinstance(entry.event, on.TurnPassed):
            return  # there may be any number, and none means anything to an agent
        if isinstance(entry.event, on.AgentSpawned) and not entry.late:
            unheard = self._unheard()
            heard = [*self.lasting(), *(told for told in self.recent if told not in unheard)]
            lasting = [
                told
                for told in heard
                if not told.late and (isinstance(told.event, LASTING) or _word(told.event))
            ]
            self.before = lasting[-REMEMBERED_FACTS:]
            self.recent = [entry, *unheard]
            self.past_bytes = self._measured()
        else:
            self.recent.append(entry)
            self.past_bytes += size((entry,))
        if len(self.recent) > REMEMBERED_FACTS:
            del self.recent[1]
        self._fit()

    def _unheard(self) -> list[JournalEntry]:
        """Return what was said since the order to spawn: too late for the agent's summary."""
        since = takewhile(lambda told: told.before == Spawning.__name__, reversed(self.recent))
        said = [told for told in since if isinstance(told.event, (on.Reviewed, on.Guided))]
        return said[::-1]

    def note_attempt(self, row: AttemptRow) -> None:
        """Bring the ledger up to date."""
        if self.ledger and self.ledger[-1].attempt == row.attempt:
            self.past_bytes -= size((self.ledger.pop(),))
        self.ledger.append(row)
        self.past_bytes += size((row,))
        while len(self.ledger) > FULL_ATTEMPTS:
            self._fold(self.ledger.pop(0))
        self._fit()

    def _fold(self, row: AttemptRow) -> None:
        """Only count an attempt from now on."""
        self.past_bytes -= size((row,))
        self.folded[row.outcome] = self.folded.get(row.outcome, 0) + 1
        oldest = self.ledger[0]
        same = (row.outcome, row.error) == (oldest.outcome, oldest.error)
        self.alike = self.alike + 1 if same else 0

    def _fit(self) -> None:
        """Keep the past within its size: texts get shorter, those of earlier attempts first."""
        if self.past_bytes <= PAST_BYTES:
            return
        latest = self.ledger[-1:]
        if size(latest) > PAST_BYTES // 2:
            latest = [shortened(each, MOST_SHOWN) for each in latest]
        rows, room = self.ledger[:-1], PAST_BYTES - size(latest)
        kept = within(rows, max(room * 3 // 5, room - size(self.recent) - size(self.before)))
        room -= size(kept)
        self.before = within(self.before, max(room // 4, room - size(self.recent)))
        self.recent = within(self.recent, room - size(self.before), least=1)
        self.ledger = [*rows[: len(rows) - len(kept)], *kept, *latest]
        for _ in rows[len(kept) :]:
            self._fold(self.ledger.pop(0))
        self.past_bytes = self._measured()

    def _measured(self) -> int:
        return size(self.recent) + size(self.before) + size(self.ledger)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a fact comes to: a commit with orders, or a refusal, or (neither) nothing."""

    fact: Event
    before: State
    state: State
    """The work state that follows."""
    commit: Transaction | None = None
    """To be written before anything is done; None where there is nothing to write."""
    refused: str = ""
    """Why the fact is not possible now; the one who asked for it is told."""

    @property
    def orders(self) -> tuple[PendingEffect, ...]:
        """What is to be performed once the commit is written."""
        return self.commit.effects if self.commit is not None else ()

    @property
    def found_limits(self) -> tuple[UnavailableProgram, ...] | None:
        """What is known of the agent's programs now, where that has changed.

        Others may have the same; where a person resumed it, what they know of them is over.
        """
        resting = self.state.tally.resting
        return resting if resting != self.before.tally.resting else None


class Drive:
    """Decides for one lifecycle."""

    def __init__(self, working_copy: WorkingCopy) -> None:
        self.copy = working_copy
        self.held = False
        """A person stopped it: its loop ends where it is suspended."""
        self._done: list[str] = []

    @property
    def state(self) -> State:
        """The work state as last committed."""
        work = self.copy.record.work
        if work is None:
            raise ValueError(f"no loop drives the record of {self.copy.agent_id}")
        return work

    def carried_out(self, *effect_ids: str) -> None:
        """Note orders that need not be remembered any more; the next commit tells the store."""
        self._done += filter(None, effect_ids)

    def settled(self) -> tuple[str, ...]:
        """Return, once, the orders that no commit has told the store of yet."""
        settled = tuple(self._done)
        self._done.clear()
        return settled

    def is_news(self, fact: Event, policy: Policy) -> bool:
        """Tell whether a fact that nobody ordered would be written, or refused."""
        before = self.state
        try:
            step = decide(before, fact, policy)
        except IllegalTransition:
            return True
        return _matters(before, fact, step, answers=False)

    def take(
        self,
        fact: Event,
        policy: Policy,
        *,
        effect_id: str = "",
        request_id: int = 0,
        onto: Turn | None = None,
    ) -> Turn:
        """Decide on a fact; `onto` an earlier turn that is not committed yet, both go together.

        `effect_id` is the order that it answers, `request_id` the request that it is.
        """
        self.carried_out(effect_id)
        before = onto.state if onto is not None else self.state
        try:
            step = decide(before, fact, policy)
        except IllegalTransition as problem:
            return onto or Turn(
                fact=fact, before=before, state=before, refused=self._why_not(problem, fact)
            )
        if not _matters(before, fact, step, answers=bool(effect_id)):
            vain = ""
            if request_id and isinstance(fact, on.PersonEvent):
                vain = in_vain(self.copy.agent_id, before, fact)
            return onto or Turn(fact=fact, before=before, state=before, refused=vain)
        if onto is not None and onto.commit is not None:
            commit = self._with(onto.commit, before, fact, step)
            return replace(onto, state=commit.passed[-1], commit=commit)
        taken = (request_id,) if request_id else ()
        empty = Transaction(record=copy(self.copy.record), done=self.settled(), taken=taken)
        commit = self._with(empty, before, fact, step)
        return Turn(fact=fact, before=before, state=commit.passed[-1], commit=commit)

    def _why_not(self, problem: IllegalTransition, fact: Event) -> str:
        """Return a refusal; who asked for it gets it without the names of states and facts."""
        if not isinstance(fact, on.PersonEvent):
            return str(problem)
        return refusal(self.copy.agent_id, problem.state, fact, problem.why)

    def committed(self, turn: Turn) -> None:
        """Bring the working copy in line with what is in the store now."""
        commit, mine = turn.commit, self.copy
        if commit is None:
            return
        mine.record = commit.record
        if commit.attempt is not None:
            mine.note_attempt(commit.attempt)
        for entry in commit.journal:
            mine.seq = entry.seq
            mine.remember(entry)
        if isinstance(turn.fact, on.StopRequested) and turn.fact.pause:
            self.held = True
        elif isinstance(turn.fact, on.ResumeRequested):
            self.held = False

    def _with(self, commit: Transaction, before: State, fact: Event, step: Step) -> Transaction:
        """Add a fact and what was decided on it to what is to be written."""
        mine, record = self.copy, commit.record
        seq = mine.seq + len(commit.journal) + 1
        entry = JournalEntry(
            agent_id=mine.agent_id,
            seq=seq,
            at=fact.at,
            event=fact,
            rule="late" if step.late else rule_name(before, fact),
            before=type(before).__name__,
            after=type(step.state).__name__,
            late=step.late,
        )
        orders = _orders(record, seq, step.effects)
        after = _knowing_its_process(step.state, orders)
        row, spending = commit.attempt, commit.spending
        if not step.late:
            last = row or (mine.ledger[-1] if mine.ledger else None)
            new = onto_ledger(last, record, before, fact, after)
            if new is not None:
                row, spending = new, onto_books(new, record, fact) or spending
            spending = of_review(record, fact, after) or spending
            onto_record(record, fact, after)
        return replace(
            commit,
            journal=(*commit.journal, entry),
            passed=(*commit.passed, after),
            effects=(*commit.effects, *orders),
            attempt=row,
            spending=spending,
        )


def broken_off(state: State, at: float) -> Event | None:
    """Return what stands for the end of gates, review or baseline that nobody wants any more.

    Each may take half an hour, and a person ended meanwhile what they are for.
    """
    wanted, attempt = state.tally.wanted, state.tally.attempt
    if isinstance(state, Verifying) and state.green and wanted is Wanted.REJECT:
        return on.ReviewFinished(at=at, attempt=attempt, problem="broken off")
    if isinstance(state, Verifying) and wanted is Wanted.REJECT:
        return on.GatesFinished(at=at, attempt=attempt, gates=(), problem="broken off")
    if isinstance(state, Preparing) and wanted in (Wanted.STOP, Wanted.HOLD, Wanted.REJECT):
        fault = on.Fault.ENVIRONMENT
        return on.WorkspaceFailed(at=at, attempt=attempt, text="broken off", fault=fault)
    return None


def _matters(before: State, fact: Event, step: Step, *, answers: bool) -> bool:
    if step.late:
        return isinstance(fact, on.AttemptEvent)
    moved = step.state != before or bool(step.effects)
    return moved or isinstance(fact, NOTES) or answers


def _orders(
    record: AgentLifecycle, seq: int, effects: Iterable[Effect]
) -> tuple[PendingEffect, ...]:
    """Give orders their ids, which no other order of any lifecycle ever had."""
    return tuple(
        PendingEffect(
            effect_id=f"{record.agent_id}.{record.birth}.{seq}.{number}",
            agent_id=record.agent_id,
            effect=effect,
        )
        for number, effect in enumerate(effects)
    )


def _knowing_its_process(state: State, orders: tuple[PendingEffect, ...]) -> State:
    """Return the state with the id of the process that is ordered: its order's."""
    spawns = (order.effect_id for order in orders if isinstance(order.effect, do.SpawnAgent))
    spawn_id = next(spawns, "")
    return changed(state, spawn_id=spawn_id) if spawn_id else state


def _sends_back(told: JournalEntry) -> bool:
    """Tell whether verify commands failed, or a reviewer did not approve."""
    if isinstance(told.event, on.GatesFinished):
        return not all(gate.ok for gate in told.event.gates)
    approved = told.after == Completed.__name__
    return isinstance(told.event, on.ReviewFinished) and not told.late and not approved


def _word(event: Event) -> Signal | None:
    return getattr(event, "word", None)
