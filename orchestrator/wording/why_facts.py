"""The parts of sentences about a lifecycle: the facts that led to its state, counters, limits.

Looks things up in a record and its journal; pure. Must not decide anything: which rule led here
stands in the journal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lifecycle.machine import events as on
from lifecycle.machine.states import Signal, Suspended, Wanted
from orchestrator.wording.facts import clause

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lifecycle.judging.unaccepted_work import Along
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle, JournalEntry
    from lifecycle.settings import Settings

_WORDS = 200
"""Characters of a quoted text in one sentence."""
_MOST = 2000
"""Characters of what a person has to read whole: a question, or what to do."""
_NO_REASONS = (on.Admitted, on.AgentSpawned, on.WorkspaceReady, on.WorkJoined)
"""Facts that only carry out an earlier decision."""
_ASKED = {
    Wanted.PAUSE: "asked to pause after this attempt",
    Wanted.STOP: "asked to stop this attempt",
    Wanted.HOLD: "asked to stop this attempt and to hold the next",
    Wanted.REJECT: "rejected it",
}


@dataclass(frozen=True, slots=True)
class MergeStanding:
    """How completed work relates to the branch that it is merged into."""

    along: tuple[Along, ...] = ()
    """Whose work would come along, and was not accepted."""
    resolution: tuple[str, ...] = ()
    """Commits that resolved what could not be merged before, as they are called."""
    resolved_files: tuple[str, ...] = ()
    """The files that they made, beside those of either side."""
    merged_as: str = ""
    """The commit by which it is in that branch already, by a merge of other work."""


@dataclass(frozen=True, slots=True)
class WhyContext:
    """What is known beside the record."""

    journal: Sequence[JournalEntry]
    """The latest entries, oldest first."""
    now: float
    when: Callable[[float], str]
    """Shows an instant."""
    settings: Settings
    has_runner: bool = True
    outside: Mapping[str, Any] = field(default_factory=dict)
    """How the wait stands at the forge, as the runner noted it last."""
    standing: MergeStanding = field(default_factory=MergeStanding)
    silent: Mapping[str, float] = field(default_factory=dict)
    """Workers that were not heard of for a lease, with when they were last."""
    unplaced: str = ""
    """What is missing that a worker takes it."""


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """A record and the facts that led to its state."""

    record: AgentLifecycle
    context: WhyContext

    def entry(self, state: State) -> JournalEntry | None:
        """Return the latest entry that led into this state of the record, or its inner state."""
        name = type(state).__name__
        inner = isinstance(self.record.work, Suspended) and state is not self.record.work
        for entry in reversed(self.context.journal):
            if entry.late or entry.rule == "note":
                continue
            if entry.after == name and entry.before != name:
                return entry
            # It was held in the very step that led into it, or moved on while it was held.
            if inner and entry.after == "Suspended" and entry.before != name:
                return entry
        return None

    def rule(self, state: State) -> str:
        """Name the rule that led into this state; nothing if the journal begins later."""
        entry = self.entry(state)
        return entry.rule if entry is not None else ""

    def entered(self, state: State, otherwise: float) -> str:
        """Say when the state began."""
        entry = self.entry(state)
        return self.context.when(entry.at if entry is not None else otherwise)

    def cause(self, state: State) -> str:
        """Say which fact led here; a free slot is not a reason, the fact before it is."""
        first = self.entry(state)
        if first is None:
            return ""
        entry = first
        moves = [
            each for each in self.context.journal if not each.late and each.before != each.after
        ]
        for earlier in reversed(moves):
            if not isinstance(entry.event, _NO_REASONS):
                break
            if earlier.seq < entry.seq:
                entry = earlier
        return f" because {cut(clause(entry.event))}"

    def spoken_in(self, state: State) -> int:
        """Return the number of the attempt whose word led here."""
        for entry in reversed(self.context.journal):
            event = entry.event
            spoke = isinstance(getattr(event, "word", None), Signal) and not entry.late
            if spoke and isinstance(event, on.AttemptEvent):
                return event.attempt
        return max(state.tally.attempt - 1, 1)

    def held_by(self) -> str:
        """Say who asked to pause the lifecycle, perhaps long before it was paused, and why."""
        for entry in reversed(self.context.journal):
            if isinstance(entry.event, (on.PauseRequested, on.StopRequested)):
                why = f" ({whole(entry.event.why)})" if entry.event.why else ""
                return f"{entry.event.by or 'a person'}{why}"
        return "a person"

    def outside(self) -> str:
        """Return the state of the wait at the forge, and what is wrong there."""
        noted = self.context.outside
        text = whole(str(noted.get("text", "")))
        if not text:
            return ""
        if not noted.get("trouble"):
            return f"; last seen: {text}"
        since, again = self.context.when(float(noted.get("since", 0.0))), noted.get("next_try")
        then = (
            f"; tried again at {self.context.when(float(again))}" if again else "; tried again soon"
        )
        if noted.get("unanswered"):
            return f"; since {since} the forge cannot be asked ({text}){then}"
        return f"; since {since}: {text}{then}"

    def kept(self) -> str:
        """Say where the work of an ended lifecycle is."""
        for entry in reversed(self.context.journal):
            if isinstance(entry.event, on.WorkspaceRemoved) and entry.event.saved_ref:
                return f"; its work is kept under {entry.event.saved_ref}"
        return ""

    @property
    def names_retries(self) -> bool:
        """Tell whether its task names its retries itself."""
        return self.record.facts.get("task", {}).get("max_retries") is not None

    @property
    def max_retries(self) -> int:
        """How many retries this lifecycle has: its task may name that itself."""
        named = self.record.facts.get("task", {}).get("max_retries")
        return self.context.settings.max_retries if named is None else int(named)

    def counters(self, state: State) -> str:
        """Say what is used up of the limits."""
        tally, limits = state.tally, self.context.settings
        text = f"; {tally.retry_count} of {self.max_retries} retries used"
        if tally.stuck > 1:
            text += f", {tally.stuck} without progress in a row (limit {limits.stuck_limit})"
        for count, what, limit in (
            (tally.faults, "environment failures", limits.max_environment_failures),
            (tally.unfit, "reports of an unusable environment", limits.max_environment_failures),
            (tally.troubles, "provider or network failures", limits.max_provider_failures),
            (tally.ci_fixes, "attempts for red checks or review bots", limits.ci_fix_limit),
        ):
            if count:
                text += f", {count} {what} in a row (limit {limit})"
        if tally.limits:
            text += f", {tally.limits} usage limits in a row"
        return text

    def attempt_limits(self) -> str:
        """Say what an attempt may take."""
        limits, texts = self.context.settings, []
        if limits.wall_limit:
            texts.append(f"{limits.wall_limit:g} s in all")
        if limits.idle_limit:
            texts.append(f"{limits.idle_limit:g} s without a sign of life")
        return f" ({' or '.join(texts)})" if texts else ""

    def again(self, again_at: float | None) -> str:
        """Say when something that failed is tried again."""
        return f"it failed and is tried again at {self.context.when(again_at)}" if again_at else ""

    def asked_for(self, state: State) -> str:
        """Say what a person wants to happen at the end of the attempt."""
        asked = _ASKED.get(state.tally.wanted)
        return f"; {state.tally.wanted_by or 'a person'} {asked}" if asked else ""

    def do(self, command: str, more: str = "") -> str:
        """Return a command to type."""
        return f"`loopwright {command} {self.record.agent_id}{f' {more}' if more else ''}`"


def listed(names: Sequence[str]) -> str:
    """Return names one after the other."""
    return ", ".join(names)


def either(ways: Sequence[str]) -> str:
    """Join alternatives."""
    return ways[0] if len(ways) == 1 else f"{', '.join(ways[:-1])}, or {ways[-1]}"


def quoted(text: str) -> str:
    """Return a text in quotes."""
    return f'"{whole(text)}"' if text else "something it did not name"


def whole(text: str) -> str:
    """Return a text on one line."""
    return cut(text, _MOST)


def cut(text: str, most: int = _WORDS) -> str:
    """Return a text on one line, cut to the length of a sentence."""
    flat = " ".join(text.split()).rstrip(".")
    return flat if len(flat) <= most else flat[: most - 3] + "..."
