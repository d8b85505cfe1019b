"""Review over HTTP: diffs, evidence, the queue and marks, for the API and the pages alike.

Must not change a lifecycle. Made once per server: marks are read in order to be changed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrator.review.evidence import EvidenceForm, evidence, evidence_form
from orchestrator.review.marks import AllMarksForm, Comment, ReviewMarks
from orchestrator.review.merge_result import MergeForm, merge_form
from orchestrator.review.own_work import ReviewError
from orchestrator.review.queue import WaitingListForm, waiting, waiting_form
from orchestrator.review.work_diff import DiffForm, DiffWish, WorkReader, diff_form
from orchestrator.web.operator import found
from runtime.branches import BranchManager

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchestrator.runner.server_interface import RunnerPort


class ReviewReading:
    """What waits for a person in one repository, and what shows whether it is good."""

    def __init__(self, runner: RunnerPort) -> None:
        self._runner = runner
        self._branches = BranchManager(runner.repo)
        masker = runner.engine.shared.masker
        self.reader = WorkReader(
            self._branches,
            runner.store,
            runner.settings,
            cleaned=masker.mask_bytes,
            bring=runner.engine.machine.bring,
        )
        self._marks = ReviewMarks(runner.store, self.reader)

    async def queue(self) -> WaitingListForm:
        """Return what waits for a decision, the first to take first."""
        runner = self._runner
        listed = await waiting(runner.store, has_ci=runner.engine.shared.ci is not None)
        present, settings = runner.now(), runner.settings()
        return {"items": [waiting_form(each, settings, present) for each in listed]}

    async def diff(self, agent_id: str, wish: DiffWish) -> DiffForm:
        """Return the diff of a lifecycle's work."""
        record = await found(self._runner, agent_id)
        return diff_form(await self.reader.diff(record, wish), wish.view)

    async def evidence(self, agent_id: str) -> EvidenceForm:
        """Return what shows that the work is good."""
        runner = self._runner
        record = await found(runner, agent_id)
        with suppress(ReviewError):  # its diff tells why
            await self.reader.bring(record)
        read = await evidence(
            runner.repo,
            store=runner.store,
            record=record,
            settings=runner.settings(),
            now=runner.now(),
            runs=True,
        )
        return evidence_form(read)

    async def merge(self, agent_id: str) -> MergeForm:
        """Return what an accept would meet now."""
        runner, record = self._runner, await found(self._runner, agent_id)
        await self.reader.bring(record)
        return await merge_form(
            runner.repo,
            branches=self._branches,
            store=runner.store,
            record=record,
            settings=runner.settings(),
            mask=runner.engine.shared.masker.mask,
        )

    async def marks(self, agent_id: str, person: str) -> AllMarksForm:
        """Return what people marked of the work."""
        return await self._marks.of(await found(self._runner, agent_id), person)

    async def keep_marks(
        self,
        agent_id: str,
        person: str,
        head: str,
        seen: Iterable[str],
        comments: Sequence[Comment],
    ) -> AllMarksForm:
        """Replace what one person marked."""
        record = await found(self._runner, agent_id)
        masker = self._runner.engine.shared.masker
        masked = [
            Comment(file=each.file, line=each.line, side=each.side, text=masker.mask(each.text))
            for each in comments
        ]
        await self._marks.keep(record, person, head, seen, masked)
        return await self._marks.of(record, person)

    async def comments(self, agent_id: str, person: str) -> tuple[Comment, ...]:
        """Return a person's comments on the work."""
        return await self._marks.comments(await found(self._runner, agent_id), person)

    async def forget_comments(self, agent_id: str, person: str) -> None:
        """Forget a person's comments: the agent was told of them."""
        await self._marks.forget_comments(await found(self._runner, agent_id), person)
