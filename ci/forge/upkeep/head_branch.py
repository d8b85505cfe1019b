"""The branch of a merged pull request: removed at the forge once nothing needs it.

Owns what keeps it, and that its merge is stored before. Only branches that we pushed are ever
removed, and only at the merged commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ForgeError, ProviderError
from ci.forge.poller import PollResult
from ci.interface import PullRequestState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.events import CIEvent
    from ci.forge.git_sync import GitSync
    from ci.forge.memory import Memory, OwedRemoval
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge, ForgePull
    from ci.ports import LogEvent


@dataclass(frozen=True, slots=True)
class HeadBranches:
    """The head branches of one forge's repository."""

    forge: Forge
    memory: Memory
    git_sync: GitSync
    rules: Callable[[], Rules]
    is_needed: Callable[[str], Awaitable[bool]]
    """Returns whether unfinished work goes into this branch."""
    publish: Callable[[CIEvent], Awaitable[None]]
    is_stored: Callable[[str], bool]
    """Returns whether the event of this id is stored."""
    report: LogEvent
    poll: Callable[[], None]
    """Has `remove_owed` called, again and again until nothing is owed."""

    async def publish_merge(self, event: CIEvent, pull: ForgePull) -> CIEvent:
        """Publish a merge, with what becomes of its branch, and then remove that."""
        head, note = await self._fate(pull)
        event = event.model_copy(update={"summary": event.summary + note})
        if head is not None:
            await self.memory.owe_removal(pull.branch, pull.number, event.event_id)
        await self.publish(event)
        if head is not None:
            try:
                await self._remove(pull.branch, head)
            except ProviderError:
                self.poll()
        return event

    def owed(self) -> tuple[OwedRemoval, ...]:
        """Return those that are to be removed, and whose merge is stored."""
        owed = self.memory.owed_removals()
        return tuple(each for each in owed if self.is_stored(each.event_id))

    async def remove_owed(self) -> PollResult:
        """Remove what an earlier try, or an earlier runner, did not get to."""
        not_before: float | None = None
        for each in self.owed():
            try:
                pull = await self.forge.pull(each.number)
                merged = pull is not None and pull.state is PullRequestState.MERGED
                head = (await self._fate(pull))[0] if pull is not None and merged else None
                if head is None:
                    await self.memory.removal_settled(each.branch)
                else:
                    await self._remove(each.branch, head)
            except ProviderError as error:
                not_before = error.retry_at if isinstance(error, ForgeError) else not_before
        return PollResult(not_before=not_before)

    async def _fate(self, pull: ForgePull) -> tuple[str | None, str]:
        """Return the head at which its branch is to be removed, if it is, and a note on that.

        The head is empty where it is not known yet.
        """
        branch = pull.branch
        if not (self.rules().delete_head_branch and pull.ours and self.memory.wanted(branch)):
            return None, ""
        try:
            head = await self.git_sync.remote_head(branch)
            if head is None:
                return None, ""
            kept = await self._kept(pull, head)
        except ProviderError as error:
            return "", f"; its branch {branch} is still to be removed there: {error}"
        if kept:
            return None, f"; its branch {branch} stays there: {kept}"
        return head, f"; its branch {branch} is removed there"

    async def _kept(self, pull: ForgePull, head: str) -> str:
        """Return what keeps it; pull requests that come from forks have branches of their own."""
        branch = pull.branch
        if not await self.git_sync.is_merged(head, pull.merge_commit, pull.base):
            return "it has commits that are not merged"
        others = await self.forge.open_pulls()
        if any(branch == other.base or (other.ours and branch == other.branch) for other in others):
            return "an open pull request needs it"
        return "unfinished work goes into it" if await self.is_needed(branch) else ""

    async def _remove(self, branch: str, head: str) -> None:
        if not head:
            raise ProviderError(f"the head of {branch} is not known")
        if refused := await self.git_sync.remove(branch, head):
            self.report("branch_removal_refused", branch=branch, reason=refused)
            await self.memory.removal_settled(branch)
