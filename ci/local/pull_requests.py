"""The rules of pull requests in the local provider.

Owns what a push changes, when one may be merged, and what to resume after a crash. Every method
must be called from the serial queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import ProviderError, UnknownPullRequestError, UnreachableError
from ci.interface import USUAL_TERMS, MergeResult, MergeTerms, PullRequest, PullRequestState
from ci.local.records import PullRecord
from ci.verdict import VerdictStatus

if TYPE_CHECKING:
    from ci.local.checks import LocalChecks
    from ci.local.ledger import LocalLedger
    from ci.ports import ProviderPorts, RepositoryMerge
    from ci.verdict import Verdict


class LocalPullRequests:
    """The pull requests of the ledger over the repository, judged by the checks."""

    def __init__(
        self,
        ports: ProviderPorts,
        ledger: LocalLedger,
        checks: LocalChecks,
        *,
        auto_merge: bool,
    ) -> None:
        self._repository = ports.repository
        self._comes_along = ports.comes_along
        self._now = ports.now
        self._ledger = ledger
        self.checks = checks
        self._auto_merge = auto_merge
        self._against = ports.auto_merge_objection

    async def resume(self) -> None:
        """Resume unpublished events, unfinished builds and merges."""
        await self._ledger.load()
        await self.checks.resume(self._settled)
        for pull in self._ledger.open_pulls():
            if pull.merging is not None:
                await self._resume_merge(pull)
            await self._examine(pull.number)

    async def push(self, branch: str, sha: str) -> None:
        """Check a branch's newest commit, and update the pull requests it affects."""
        await self.checks.want(branch, sha)
        pull = self._ledger.pull_of(branch)
        if pull is not None and pull.is_open and pull.head_sha != sha:
            await self._change(
                pull,
                head_sha=sha,
                revision=pull.revision + 1,
                conflicts=(),
                merge_refused="",
                result=None,
                apart="",
            )
        for other in self._ledger.open_pulls():
            if branch in {other.branch, other.base}:
                await self._examine(other.number)

    async def look(self, number: int) -> PullRequest | None:
        """Return a pull request as it is now, even if its base has moved."""
        if self._ledger.pull(number) is None:
            return None
        await self._examine(number)
        return self._shown(number)

    async def find(self, branch: str) -> PullRequest | None:
        """Return the newest open pull request of a branch, else its newest."""
        pull = self._ledger.pull_of(branch)
        return None if pull is None else await self.look(pull.number)

    async def create(self, branch: str, base: str, title: str, body: str) -> PullRequest:
        """Open a pull request and check its head, or adopt the open one."""
        pull = self._ledger.pull_of(branch)
        if pull is not None and pull.is_open:
            await self._follow(pull)
            return self._shown(pull.number)
        head = await self._existing(branch)
        await self._existing(base)
        now = self._now()
        pull = PullRecord(
            number=self._ledger.next_pull(),
            branch=branch,
            base=base,
            head_sha=head,
            title=title,
            body=body,
            created_at=now,
            updated_at=now,
        )
        await self._ledger.keep_pull(pull)
        await self.push(branch, head)
        return self._shown(pull.number)

    async def close(self, number: int) -> PullRequest:
        """Close an open pull request."""
        pull = self._known(number)
        if pull.is_open:
            await self._change(pull, state=PullRequestState.CLOSED)
        return self._shown(number)

    async def merge(
        self, number: int, *, expected_sha: str | None, terms: MergeTerms = USUAL_TERMS
    ) -> MergeResult:
        """Merge if nothing speaks against it."""
        pull = await self._follow(self._known(number))
        if pull.state is PullRequestState.MERGED and expected_sha in {None, pull.head_sha}:
            return MergeResult(merged=True, commit=pull.merge_commit)
        objection = await self._objection(pull, expected_sha)
        if not objection and not terms.along:
            objection = await self._along(pull)
        if objection:
            return MergeResult(merged=False, reason=objection)
        pull = self._known(number)
        if terms.verify and self.checks.command is not None:
            pull, verdict = await self._judged(pull)
            if verdict is not None and verdict.status is not VerdictStatus.GREEN:
                return await self._not_green(pull, verdict)
        else:
            pull = await self._change(pull, result=None, apart="")
        return await self._merge(pull)

    async def _judged(self, pull: PullRecord) -> tuple[PullRecord, Verdict | None]:
        """Check the result of the merge; no verdict where the same files already have one."""
        repository = self._repository
        target, commit = await repository.prepare(
            pull.branch, pull.base, message=_message(pull), expected_head=pull.head_sha
        )
        if commit in {"", target}:
            return await self._change(pull, result=None, apart=""), None
        pair = (pull.head_sha, target)
        if pull.result is None or pull.result[:2] != pair:
            pull = await self._change(pull, result=(*pair, commit), apart="")
        if await repository.same_files(commit, pull.head_sha):
            return pull, None
        made = _made(pull)
        await self.checks.want(f"{pull.branch} in {pull.base}", made)
        return pull, self.checks.verdict(made)

    async def _not_green(self, pull: PullRecord, verdict: Verdict) -> MergeResult:
        name = f"pull request {pull.number}"
        if verdict.status is VerdictStatus.PENDING:
            reason = f"the merge of {name} into {pull.base} is being checked"
            return MergeResult(merged=False, reason=f"{reason}: {verdict.summary}", pending=True)
        reason = f"merged into {pull.base} as it is now, {name} is red: {verdict.summary}"
        excerpt = "\n".join(check.excerpt for check in verdict.failed)
        await self._change(
            pull, merge_refused=reason, merge_waits=False, apart=reason, apart_excerpt=excerpt
        )
        return MergeResult(merged=False, reason=reason)

    async def _merge(self, pull: PullRecord) -> MergeResult:
        # Stored before the repository changes, so that a crash in between cannot hide the merge.
        pull = await self._change(pull, merging=pull.head_sha)
        outcome = None
        try:
            outcome = await self._carry_out(pull)
        finally:
            if outcome is None:
                await self._change(pull, merging=None)
        if not outcome.merged:
            reason = outcome.reason or f"it conflicts in {', '.join(outcome.conflicts)}"
            await self._change(
                pull, merging=None, merge_refused=reason, merge_waits=outcome.passing
            )
            return MergeResult(merged=False, reason=f"pull request {pull.number}: {reason}")
        await self._change(
            pull,
            merging=None,
            merge_refused="",
            state=PullRequestState.MERGED,
            merge_commit=outcome.commit,
        )
        for other in self._ledger.open_pulls():
            if pull.base in {other.branch, other.base}:
                await self._examine(other.number)
        return MergeResult(merged=True, commit=outcome.commit)

    async def _carry_out(self, pull: PullRecord) -> RepositoryMerge:
        if pull.result is None:
            return await self._repository.merge(
                pull.branch, pull.base, message=_message(pull), expected_head=pull.head_sha
            )
        _, target, commit = pull.result
        return await self._repository.advance(pull.branch, pull.base, target=target, commit=commit)

    async def _resume_merge(self, pull: PullRecord) -> None:
        # The merge was allowed, and may be done or not: repeating it is safe, as a branch that is
        # contained already counts as merged.
        if await self._repository.head(pull.branch) == pull.merging:
            await self.merge(pull.number, expected_sha=pull.merging)
        pull = self._known(pull.number)
        if pull.merging is not None:
            await self._change(pull, merging=None)

    async def _objection(self, pull: PullRecord, expected_sha: str | None) -> str:
        name = f"pull request {pull.number}"
        if expected_sha not in {None, pull.head_sha}:
            return f"the head of {name} is {pull.head_sha}, not {expected_sha}: look at it again"
        if not pull.is_open:
            return f"{name} is {pull.state}: open a new one"
        for branch in (pull.branch, pull.base):
            if await self._repository.head(branch) is None:
                return f"{name} cannot be merged: branch {branch} no longer exists"
        verdict = self.checks.verdict(pull.head_sha)
        if self.checks.command is not None and verdict.status is not VerdictStatus.GREEN:
            return f"{name} is {verdict.status}, not green: {verdict.summary}"
        pull = await self._compared(pull)
        if pull.conflicts:
            return (
                f"{name} conflicts with {pull.base} in {', '.join(pull.conflicts)}: "
                f"merge {pull.base} into {pull.branch} and push"
            )
        return ""

    async def _along(self, pull: PullRecord) -> str:
        why = await self._comes_along(pull.branch, pull.head_sha, pull.base)
        return f"pull request {pull.number} is not merged: {why}" if why else ""

    async def _settled(self, sha: str) -> None:
        for pull in self._ledger.open_pulls():
            if sha in {pull.head_sha, _made(pull)}:
                await self._examine(pull.number)
                await self._tell_red(pull.number, sha)

    async def _tell_red(self, number: int, sha: str) -> None:
        """Record that the result of a merge is red."""
        pull, verdict = self._known(number), self.checks.verdict(sha)
        if pull.is_open and sha == _made(pull) and verdict.status is VerdictStatus.RED:
            await self._not_green(pull, verdict)

    async def _examine(self, number: int) -> None:
        pull = self._known(number)
        if not pull.is_open:
            return
        pull = await self._compared(pull)
        green = self.checks.verdict(pull.head_sha).status is VerdictStatus.GREEN
        # A permanent refusal is left to a person or to a new head.
        refused = bool(pull.merge_refused) and not pull.merge_waits
        if self._auto_merge and green and not pull.conflicts and not refused:
            try:
                against = await self._against(pull.base, pull.head_sha) if self._against else ""
            except UnreachableError as problem:  # temporary: checked again at the next change
                await self._change(pull, merge_refused=str(problem), merge_waits=True)
                return
            if against:
                await self._change(pull, merge_refused=against, merge_waits=False)
                return
            await self._merge_unwatched(pull)

    async def _merge_unwatched(self, pull: PullRecord) -> None:
        # Unlike a merge that somebody asks for, this one never includes an unreported commit.
        if await self._repository.head(pull.branch) == pull.head_sha:
            await self.merge(pull.number, expected_sha=pull.head_sha)

    async def _compared(self, pull: PullRecord) -> PullRecord:
        head = await self._repository.head(pull.branch)
        base = await self._repository.head(pull.base)
        if base is None or head != pull.head_sha or pull.compared == (head, base):
            return pull
        conflicts = await self._repository.conflicts(pull.branch, pull.base)
        news: dict[str, object] = {"compared": (head, base), "conflicts": conflicts}
        if pull.apart and pull.result is not None and pull.result[:2] != (head, base):
            # It was red with an older base.
            news |= {"apart": "", "merge_refused": ""}
        return await self._change(pull, **news)

    async def _follow(self, pull: PullRecord) -> PullRecord:
        head = await self._repository.head(pull.branch) if pull.is_open else None
        if head is not None and head != pull.head_sha:
            await self.push(pull.branch, head)
        return self._known(pull.number)

    async def _change(self, pull: PullRecord, **changes: object) -> PullRecord:
        pull = pull.model_copy(update={**changes, "updated_at": self._now()})
        await self._ledger.keep_pull(pull)
        return pull

    async def _existing(self, branch: str) -> str:
        head = await self._repository.head(branch)
        if head is None:
            raise ProviderError(
                f"there is no branch {branch!r} with a commit to open a pull request for"
            )
        return head

    def _known(self, number: int) -> PullRecord:
        pull = self._ledger.pull(number)
        if pull is None:
            raise UnknownPullRequestError(f"there is no local pull request {number}")
        return pull

    def _shown(self, number: int) -> PullRequest:
        pull = self._known(number)
        return pull.seen_with(self.checks.verdict(pull.head_sha))


def _message(pull: PullRecord) -> str:
    title = " ".join(pull.title.split())
    return f"Merge pull request {pull.number}: {title}\n\n{pull.body}".rstrip() + "\n"


def _made(pull: PullRecord) -> str:
    """Return the merge commit to check; empty if there is none."""
    return pull.result[2] if pull.result is not None else ""
