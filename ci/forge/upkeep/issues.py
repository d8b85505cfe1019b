"""The issue that a task is about: one comment, labels while it is worked on, closed by the merge.

Owns what is done there and when it is tried again. What is wanted is stored before it is done, so
that a restart continues; a label that we did not put on is never taken off.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic import ValidationError

from ci.errors import (
    CIError,
    ForbiddenError,
    ForgeError,
    GarbledError,
    MissingError,
    RefusedError,
    UnreachableError,
)
from ci.forge.upkeep.issue_words import closes_issue, comment_on, mark_of, names_issue
from ci.issues import IssueStage, IssueStanding
from ci.json_model import JsonModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.forge.memory import Memory
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge, ForgeIssues, ForgePull
    from ci.issues import IssueReference
    from ci.ports import Cancellable, LogEvent

UNHEARD_FOR = 60.0
"""Seconds for which our comment is only looked for after the answer to writing it was lost."""
CLOSES_WITHIN = 30.0
"""Seconds in which a forge closes the issue that a merged pull request names."""
AGAIN = 60.0
LONGEST_AGAIN = 900.0
"""Seconds between two tries while the forge cannot be asked: the first, and the longest."""
PATIENCE = 5.0
"""Seconds that a runner which ends waits for what is under way."""
SOONEST = 1.0
COMMENT, LABELS, CLOSE = "comment", "labels", "close"
_NO = (RefusedError, ForbiddenError, MissingError)


class IssueNote(JsonModel):
    """What is remembered of one lifecycle and its issue."""

    standing: IssueStanding
    done: bool = False
    """The issue is in line with the standing."""
    asked_at: float | None = None
    """When our comment was asked for, while it is not known whether it is there."""
    comment: int | None = None
    said: str = ""
    """What it says."""
    looked_at: int | None = None
    """The pull request in whose text the issue was looked for."""
    link: str = ""
    """The address of that one, if it does not name the issue."""
    labelled: bool = False
    labels: tuple[str, ...] = ()
    """Those that we put on."""
    merged_at: float | None = None
    closes_itself: bool = False
    """The forge closes the issue by the words of the pull request."""
    closed: bool = False
    refused: tuple[str, ...] = ()
    """What the forge refused, and is not asked for again."""


class IssueUpkeep:
    """The issues of the lifecycles of one repository."""

    def __init__(  # noqa: PLR0913  # what it works with
        self,
        forge: Forge,
        memory: Memory,
        rules: Callable[[], Rules],
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], Cancellable],
        report: LogEvent,
    ) -> None:
        self._forge, self._memory, self._rules = forge, memory, rules
        self._now, self._call_at, self._report = now, call_at, report
        self._wanted: dict[str, IssueStanding] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._timers: dict[str, Cancellable] = {}
        self._failed: dict[str, int] = {}
        self._one_by_one = asyncio.Lock()
        self._ending = False

    def follow(self, standing: IssueStanding) -> None:
        """Bring the issue of a lifecycle in line with this, soon."""
        rules, note = self._rules(), self._known(standing.key)
        known = self._wanted.get(standing.key) or (note.standing if note is not None else None)
        if known is not None and standing.number is None:
            standing = standing.model_copy(update={"number": known.number})
        if standing == known:
            return
        wants = rules.issue_comment or rules.issue_labels or rules.issue_close
        begins = standing.stage is IssueStage.WORKED_ON and wants
        if self._forge.issues is not None and (note is not None or begins):
            self._wanted[standing.key] = standing
            self._soon(standing.key)

    def followed(self) -> tuple[str, ...]:
        """Return the lifecycles that are not over for all that is known."""
        return tuple(
            n.standing.key for n in self._notes() if n.standing.stage is not IssueStage.OVER
        )

    def resume(self) -> None:
        """Continue with what an earlier runner left to do."""
        for note in self._notes():
            if not note.done:
                self._soon(note.standing.key)

    async def merged(self, pull: ForgePull) -> None:
        """Note that a pull request is in its base: the issue is to be closed."""
        if not self._rules().issue_close:
            return
        for note in self._notes():
            standing, which = note.standing, self._forge.issue_of(note.standing.issue)
            ours = standing.branch == pull.branch and standing.number in {None, pull.number}
            if not ours or which is None or note.merged_at is not None:
                continue
            says = closes_issue(pull.body, which, self._forge.place)
            itself = says and pull.base == await self._forge.default_branch()
            await self._keep(note, merged_at=self._now(), closes_itself=itself, done=False)
            self._soon(standing.key)

    async def aclose(self) -> None:
        """Finish what is under way, for a short time; the rest is for the next runner."""
        self._ending = True
        for key, timer in tuple(self._timers.items()):
            timer.cancel()
            note = self._known(key)
            if note is not None and note.merged_at is not None and not note.closed:
                self._soon(key)
        if self._tasks:
            await asyncio.wait(tuple(self._tasks.values()), timeout=PATIENCE)
        left = tuple(self._tasks.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # --- when ---------------------------------------------------------------------------------

    def _soon(self, key: str) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key in self._tasks:
            self._again.add(key)
        else:
            name = f"issue of {key}"
            self._tasks[key] = asyncio.get_running_loop().create_task(self._work(key), name=name)

    async def _work(self, key: str) -> None:
        later: float | None = None
        try:
            while True:
                self._again.discard(key)
                async with self._one_by_one:
                    later = await self._try(key)
                if key not in self._again:
                    break
        finally:
            del self._tasks[key]
        if later is not None and not self._ending:
            self._timers[key] = self._call_at(later, lambda: self._soon(key))

    async def _try(self, key: str) -> float | None:
        """Bring it in line; return when to try again."""
        try:
            later = await self._bring_up(key)
        except CIError as error:
            times = self._failed[key] = self._failed.get(key, 0) + 1
            told = error.retry_at if isinstance(error, ForgeError) else None
            if told is not None:
                return max(told, self._now() + SOONEST)
            return self._now() + min(AGAIN * 2.0 ** min(times - 1, 8), LONGEST_AGAIN)
        except Exception as problem:  # noqa: BLE001  # an issue must never end a loop
            reason = f"{type(problem).__name__}: {problem}"
            self._report("issue_update_failed", issue=key, reason=reason)
            return None
        self._failed.pop(key, None)
        return later

    # --- what ---------------------------------------------------------------------------------

    async def _bring_up(self, key: str) -> float | None:
        note, issues = await self._taken_up(key), self._forge.issues
        if note is None or issues is None:
            return None
        which = self._forge.issue_of(note.standing.issue)
        if which is None:
            reason = f"it is not at {self._forge.place.partition('/')[0]}"
            note = await self._refuse(note, COMMENT, reason)
            await self._keep(note, done=True)
            return None
        later: float | None = None
        for what, act in ((LABELS, self._label), (COMMENT, self._say)):
            note = await self._unless_refused(note, what, act(note, issues, which))
        if note.merged_at is not None and not note.closed and CLOSE not in note.refused:
            due = note.merged_at + CLOSES_WITHIN
            if note.closes_itself and self._now() < due and not self._ending:
                later = due
            else:
                note = await self._unless_refused(note, CLOSE, self._close(note, issues, which))
        await self._keep(note, done=later is None)
        return later

    async def _taken_up(self, key: str) -> IssueNote | None:
        """Store what is wanted, before anything is done."""
        note, wanted = self._known(key), self._wanted.pop(key, None)
        if wanted is None:
            return note
        if note is None:
            return await self._keep(IssueNote(standing=wanted))
        return await self._keep(note, standing=wanted, done=False)

    async def _unless_refused(
        self, note: IssueNote, what: str, act: Awaitable[IssueNote]
    ) -> IssueNote:
        try:
            return await act
        except _NO as error:
            return await self._refuse(self._known(note.standing.key) or note, what, str(error))

    async def _refuse(self, note: IssueNote, what: str, reason: str) -> IssueNote:
        """Report it once; nothing else depends on it."""
        if what in note.refused:
            return note
        agent_id, issue = note.standing.key.rpartition(".")[0], note.standing.issue
        self._report("issue_refused", agent_id=agent_id, issue=issue, what=what, reason=reason)
        return await self._keep(note, refused=(*note.refused, what), asked_at=None)

    # --- labels -------------------------------------------------------------------------------

    async def _label(
        self, note: IssueNote, issues: ForgeIssues, which: IssueReference
    ) -> IssueNote:
        wanted = self._rules().issue_labels
        if note.standing.stage is not IssueStage.WORKED_ON:
            return await self._unlabel(note, issues, which)
        if note.labelled or not wanted or LABELS in note.refused:
            return note
        present = {name.casefold() for name in (await issues.issue(which)).labels}
        held = self._of_others(note, which).union(note.labels)
        # One that is there and that no lifecycle put on is a person's.
        ours = tuple(name for name in wanted if name.casefold() not in present or name in held)
        missing = tuple(name for name in ours if name.casefold() not in present)
        note = await self._keep(note, labels=ours)
        if missing:
            try:
                await issues.add_labels(which, missing)
            except _NO:
                await self._keep(note, labels=())
                raise
        return await self._keep(note, labelled=True)

    async def _unlabel(
        self, note: IssueNote, issues: ForgeIssues, which: IssueReference
    ) -> IssueNote:
        if not (note.labels or note.labelled):
            return note
        others = self._of_others(note, which)
        for name in note.labels:
            if name not in others:
                await issues.remove_label(which, name)
        return await self._keep(note, labels=(), labelled=False)

    def _of_others(self, note: IssueNote, which: IssueReference) -> set[str]:
        """Return the labels that other lifecycles put on the same issue."""
        return {
            name
            for other in self._notes()
            if other.standing.key != note.standing.key
            and self._forge.issue_of(other.standing.issue) == which
            for name in other.labels
        }

    # --- the comment --------------------------------------------------------------------------

    async def _say(self, note: IssueNote, issues: ForgeIssues, which: IssueReference) -> IssueNote:
        if not self._rules().issue_comment or COMMENT in note.refused:
            return note
        note = await self._linked(note, which)
        words = comment_on(note.standing, note.link)
        if note.comment is None:
            if note.standing.stage is IssueStage.OVER and note.asked_at is None:
                return note  # nobody was told that it began
            note = await self._written(note, issues, which, words)
        if note.comment is not None and note.said != words:
            await issues.edit_comment(which, note.comment, words)
            note = await self._keep(note, said=words)
        return note

    async def _linked(self, note: IssueNote, which: IssueReference) -> IssueNote:
        """Find out whether the pull request names the issue: then the forge links both."""
        number = note.standing.number
        if number is None or number == note.looked_at:
            return note
        pull = await self._forge.pull(number)
        link = ""
        if pull is not None and not names_issue(
            f"{pull.title}\n{pull.body}", which, self._forge.place
        ):
            link = pull.url
        return await self._keep(note, looked_at=number, link=link)

    async def _written(
        self, note: IssueNote, issues: ForgeIssues, which: IssueReference, words: str
    ) -> IssueNote:
        asked = note.asked_at
        if asked is not None and self._now() < asked + UNHEARD_FOR:
            raise UnreachableError("it may have been written", retry_at=asked + UNHEARD_FOR)
        found = await issues.find_comment(which, mark_of(note.standing))
        if found is not None:
            return await self._keep(note, comment=found, asked_at=None)
        note = await self._keep(note, asked_at=self._now())
        try:
            made = await issues.comment(which, words)
        except (UnreachableError, GarbledError):
            raise  # it may be there nevertheless
        except ForgeError:
            await self._keep(note, asked_at=None)
            raise
        return await self._keep(note, comment=made, said=words, asked_at=None)

    # --- the end ------------------------------------------------------------------------------

    async def _close(
        self, note: IssueNote, issues: ForgeIssues, which: IssueReference
    ) -> IssueNote:
        """Close it, once: who opens it again afterwards means it."""
        if (await issues.issue(which)).open:
            await issues.close(which)
        return await self._keep(note, closed=True)

    # --- documents ----------------------------------------------------------------------------

    def _notes(self) -> tuple[IssueNote, ...]:
        return tuple(filter(None, map(_read, self._memory.issues())))

    def _known(self, key: str) -> IssueNote | None:
        return _read(self._memory.issue(key))

    async def _keep(self, note: IssueNote, **changes: object) -> IssueNote:
        kept = note.model_copy(update=changes)
        if changes or not self._memory.issue(kept.standing.key):
            await self._memory.keep_issue(kept.standing.key, kept.model_dump(mode="json"))
        return kept


def _read(body: object) -> IssueNote | None:
    """Return a note; none of another version or a damaged one, which costs a repeated look."""
    try:
        return IssueNote.model_validate(body) if body else None
    except ValidationError:
        return None
