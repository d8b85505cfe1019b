"""What every CI provider promises, and what a provider needs from its ports.

Owns the protocol, the form of a pull request and the ports. Must not know git, processes,
databases or any one provider: those are joined to it by `bind`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ci.events import CIEvent  # noqa: TC001  # pydantic reads the annotation at run time
from ci.json_model import JsonModel
from ci.verdict import VerdictStatus  # noqa: TC001  # as above

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci.ports import LogEvent, ProviderPorts
    from ci.verdict import Verdict
    from ci.webhook_delivery import Hint


class PullRequestState(StrEnum):
    """Whether a pull request can still change, and how it ended."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


class PullRequest(JsonModel):
    """A pull request as the provider sees it now."""

    number: int
    url: str
    branch: str
    base: str
    head_sha: str
    title: str
    body: str = ""
    state: PullRequestState
    conflicts: tuple[str, ...] = ()
    """Paths that do not merge into the base."""
    checks: VerdictStatus
    """The verdict on `head_sha`."""
    merge_commit: str | None = None
    merge_refused: str = ""
    """Why the repository refused the last try to merge, if it did."""
    apart: str = ""
    """Why it fails when merged into its base, although it is green by itself."""
    apart_excerpt: str = ""
    comes_along: tuple[str, ...] = ()
    """Agents whose unaccepted work a merge would bring along."""
    created_at: float
    updated_at: float


class MergeResult(JsonModel):
    """Whether a pull request is merged now; if not, why not and what to do."""

    merged: bool
    commit: str | None = None
    reason: str = ""
    pending: bool = False
    """The result of the merge is being checked; a later try may succeed."""
    queued: bool = False
    """It was put into the forge's merge queue, which merges it."""
    behind: bool = False
    """It was refused as the branch must contain the newest commit of its base."""


@dataclass(frozen=True, slots=True)
class MergeTerms:
    """What a person who asks for a merge accepts."""

    along: bool = False
    """The merge may bring along work of others that nobody accepted."""
    verify: bool = True
    """The result of the merge is checked before the base moves."""


USUAL_TERMS = MergeTerms()


class Trouble(JsonModel):
    """Why a provider cannot get answers, and when it retries."""

    place: str
    text: str
    since: float
    next_try: float | None = None


class EventBatch(JsonModel):
    """Events in their order, and the cursor to ask with the next time."""

    events: tuple[CIEvent, ...]
    cursor: int


@runtime_checkable
class TakesReplies(Protocol):
    """A provider whose pull requests have remarks that agents can answer."""

    async def reply(self, agent_id: str, branch: str, sha: str, replies: Mapping[str, str]) -> None:
        """Post replies, by the id of a remark, once the branch is pushed at this commit.

        The same again posts nothing. ProviderError if they could not be posted yet: then they are
        once the provider can; one that cannot be posted at all is logged.
        """
        ...


def refuse_replies(report: LogEvent, agent_id: str, replies: Mapping[str, str]) -> None:
    """Log that nobody can be answered."""
    named, reason = ", ".join(replies), "this CI provider has no remarks to reply to"
    report("reply_refused", agent_id=agent_id, remark=named, reason=reason)


@dataclass(frozen=True, slots=True)
class CIWatch:
    """One thing that a waiting lifecycle needs from CI."""

    key: str
    """Whose wait it is: the agent's id."""
    branch: str
    sha: str = ""
    """The known head; a verdict on another commit does not concern this wait."""
    number: int | None = None
    """The pull request; None while only CI is waited for."""
    since: float = 0.0
    """When the wait began: a later wait is told again what an earlier one was told."""


class CIProvider(Protocol):
    """The outside world of our commits: verdicts, pull requests and events about both.

    `subscribe` works at once; everything else needs `bind` and then `start`. An event is only a
    reason to ask now: the answer of `verdict` or `pull_request` counts.
    """

    name: str
    tells_all: bool
    """Every change of a verdict causes an event, so that nobody needs to poll."""
    looks: bool
    """It polls watched pull requests by itself, so that nobody else needs to."""

    def bind(self, ports: ProviderPorts) -> None:
        """Set what the provider works with; before `start`."""
        ...

    async def start(self) -> None:
        """Load what is recorded and finish or redo what a crash interrupted."""
        ...

    async def aclose(self) -> None:
        """Stop everything that runs; interrupted work continues at the next `start`."""
        ...

    def subscribe(self, handler: Callable[[CIEvent], None]) -> Callable[[], None]:
        """Call the handler with every later event, in order, from the event loop.

        The returned function unsubscribes it. An event is durable before handlers see it; a handler
        that fails does not affect the others.
        """
        ...

    async def events_since(self, cursor: int) -> EventBatch:
        """Return the events after the cursor (0: all), for subscribers that were not running."""
        ...

    async def pushed(self, branch: str, sha: str) -> None:
        """Register the newest commit of a branch; the same again changes nothing."""
        ...

    async def verdict(self, sha: str) -> Verdict:
        """Return the verdict on exactly this commit."""
        ...

    async def pull_request(self, ref: str | int) -> PullRequest | None:
        """Find a pull request by its number or url."""
        ...

    async def find_pull_request(self, branch: str) -> PullRequest | None:
        """Find the newest open pull request of a branch, else its newest."""
        ...

    async def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str = ""
    ) -> PullRequest:
        """Open a pull request, or return the one that is open for the branch already.

        An empty `base` means the provider's default branch.
        """
        ...

    async def merge(
        self, number: int, *, expected_sha: str | None = None, terms: MergeTerms = USUAL_TERMS
    ) -> MergeResult:
        """Merge if the verdict on the head allows it; an earlier merge counts as success."""
        ...

    async def close(self, number: int) -> PullRequest:
        """Close without merging; one that is closed or merged stays as it is."""
        ...

    def watch(self, watch: CIWatch) -> Callable[[], None]:
        """Poll this from now on, starting at once; what is found is published as events.

        The returned function ends that. A provider that sees every change itself does nothing.
        """
        ...

    async def take(self, hint: Hint) -> tuple[str, ...]:
        """Check at once what a delivery hints at; return the keys of the waits it concerns."""
        ...

    def troubles(self) -> tuple[Trouble, ...]:
        """Return what currently keeps it from getting answers."""
        ...
