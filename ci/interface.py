"""What every CI provider promises, and what a provider needs from its surroundings.

Owns the protocol, the form of a pull request and the ports. Must not know git, processes,
databases or any one provider: those are joined to it by `bind`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict

from ci.events import CIEvent  # noqa: TC001  # pydantic reads the annotation at run time
from ci.verdict import VerdictStatus  # noqa: TC001  # as above

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci.inbox import Deliveries, Hint
    from ci.verdict import Verdict


class PullRequestState(StrEnum):
    """Whether a pull request can still change, and how it ended."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


class PullRequest(BaseModel):
    """A pull request as the provider sees it now."""

    model_config = ConfigDict(frozen=True)

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
    """Why it does not go together with its base, although it is green by itself."""
    apart_excerpt: str = ""
    comes_along: tuple[str, ...] = ()
    """Agents whose work a merge would bring with it, and that nobody accepted."""
    created_at: float
    updated_at: float


class MergeResult(BaseModel):
    """Whether a pull request is merged now; if not, why not and what to do."""

    model_config = ConfigDict(frozen=True)

    merged: bool
    commit: str | None = None
    reason: str = ""
    pending: bool = False
    """What comes of the merge is being checked; asked for again later, it may be merged."""


@dataclass(frozen=True, slots=True)
class MergeTerms:
    """What a person who asks for a merge takes upon himself."""

    along: bool = False
    """Work of others comes along that nobody accepted."""
    verify: bool = True
    """What comes of the merge is checked before the base moves."""


USUAL_TERMS = MergeTerms()


class Trouble(BaseModel):
    """Why the outside cannot be asked, and when it is tried again."""

    model_config = ConfigDict(frozen=True)

    place: str
    text: str
    since: float
    next_try: float | None = None


class EventBatch(BaseModel):
    """Events in their order, and the cursor to ask with the next time."""

    model_config = ConfigDict(frozen=True)

    events: tuple[CIEvent, ...]
    cursor: int


class Prepared(Protocol):
    """A merge that is made and that no branch holds yet."""

    @property
    def target(self) -> str:
        """The commit of the branch that it goes into."""
        ...

    @property
    def commit(self) -> str:
        """The merge; the target itself or nothing where there is none to be made."""
        ...


class MergeOutcome(Protocol):
    """What came of a merge in the repository."""

    @property
    def merged(self) -> bool:
        """Whether the target now holds the branch."""
        ...

    @property
    def commit(self) -> str | None:
        """The commit of the target that holds the branch."""
        ...

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The paths that stood in the way."""
        ...

    @property
    def reason(self) -> str:
        """Why it was not merged."""
        ...

    @property
    def passing(self) -> bool:
        """Whether what stood in the way will be over by itself."""
        ...


class Repository(Protocol):
    """The user's repository, as far as CI concerns itself with it."""

    async def head(self, branch: str) -> str | None:
        """Return the full hash of the branch's newest commit; None if there is no such branch."""
        ...

    async def lay_out(self, commit: str, name: str) -> Path:
        """Return a folder with the files of the commit; the next call with its name takes it over.

        Such a name is no agent's: it begins with a dot.
        """
        ...

    async def set_up(self, commit: str, name: str) -> None:
        """Install what the laid out commit needs; RedSetUpError when the commit is at fault."""
        ...

    async def merge(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> MergeOutcome:
        """Merge completely or change nothing; refuse if the branch is not at `expected_head`.

        A branch that is already held by the target counts as merged.
        """
        ...

    async def prepare(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> Prepared:
        """Make the merge and move no branch."""
        ...

    async def advance(self, branch: str, into: str, *, target: str, commit: str) -> MergeOutcome:
        """Let a branch be the merge that was made for it, if it is still where it was then."""
        ...

    async def same_files(self, one: str, other: str) -> bool:
        """Tell whether two commits hold the same files."""
        ...

    async def conflicts(self, branch: str, into: str) -> tuple[str, ...]:
        """Return the paths on which the branches conflict, changing nothing."""
        ...


class CommandOutcome(Protocol):
    """How a command ended."""

    @property
    def code(self) -> int | None:
        """The exit code; negative or None if it did not end by itself."""
        ...

    @property
    def timed_out(self) -> bool:
        """Whether it was stopped because its time was over."""
        ...

    @property
    def excerpt(self) -> str:
        """The end of what it printed."""
        ...

    @property
    def seconds(self) -> float:
        """How long it ran."""
        ...


class Commands(Protocol):
    """Runs shell commands so that nothing of them is left over."""

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        log: Path,
        timeout: float,  # noqa: ASYNC109  # the limit of the process tree, not of the caller
        mark: str,
    ) -> CommandOutcome:
        """Run to the end, output to `log`, and leave no process behind, also when cancelled.

        A process that still carries this `mark` from a runner that was killed is ended first,
        so that nothing runs twice at once.
        """
        ...


class Documents(Protocol):
    """Keeps JSON documents; a `put` that returned survives a crash."""

    async def put(self, collection: str, key: str, body: dict[str, Any]) -> None:
        """Keep the document, replacing the one of the same key."""
        ...

    async def all(self, collection: str) -> Mapping[str, dict[str, Any]]:
        """Return all documents of a collection by key."""
        ...

    async def delete(self, collection: str, key: str) -> None:
        """Forget the document, if there is one."""
        ...


class Pushed(Protocol):
    """What came of a push."""

    @property
    def done(self) -> bool:
        """Whether the branch there is at the commit now."""
        ...

    @property
    def reason(self) -> str:
        """Why not, and what to do."""
        ...


class Remote(Protocol):
    """The repository's copy at the forge, as git reaches it."""

    async def push(
        self, branch: str, sha: str, *, expected: str | None, header: Mapping[str, str]
    ) -> Pushed:
        """Set the branch there to the commit, if it is at `expected` there (None: is not there).

        `header` holds HTTP header lines that sign us in; they appear in no argument and no file.
        """
        ...

    async def fetch(self, branch: str, *, header: Mapping[str, str]) -> str | None:
        """Bring the branch's newest commit here and return it; None if there is no such branch."""
        ...

    async def holds(self, commit: str, other: str) -> bool:
        """Tell whether a commit has the other among its ancestors; both are here."""
        ...

    async def follow(self, branch: str, sha: str) -> bool:
        """Move the branch here forward to a commit that was fetched, if nothing is lost by that."""
        ...


ComesAlong = Callable[[str, str, str], Awaitable[str]]
"""Takes branch, commit and the branch that it goes into."""


async def nothing_along(branch: str, sha: str, into: str) -> str:
    """Know of nobody's work that could come along."""
    del branch, sha, into
    return ""


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """Let it not happen."""
        ...


@dataclass(frozen=True)
class Surroundings:
    """All that a provider is given to work with."""

    repository: Repository
    commands: Commands
    documents: Documents
    now: Callable[[], float]
    folder: Path
    """For checkouts and logs; the provider's own."""
    call_at: Callable[[float, Callable[[], None]], Timer] | None = None
    """Calls back at an instant; needed by who asks from time to time."""
    remote: Remote | None = None
    """Needed by who works with a forge."""
    deliveries: Deliveries | None = None
    """Needed by who is told of things by webhooks."""
    against_unasked: Callable[[str, str], Awaitable[str]] | None = None
    """Says, of a base branch and a head, why nobody merges that without being asked."""
    comes_along: ComesAlong = nothing_along
    """Says why a branch must not be merged at this commit into another one: it would bring work
    with it that nobody accepted. Nothing if it may be."""


@dataclass(frozen=True, slots=True)
class Watch:
    """One thing that a parked lifecycle waits for."""

    key: str
    """Whose wait it is: the agent's id."""
    branch: str
    sha: str = ""
    """The head that we know of; a verdict on another commit is not about this wait."""
    number: int | None = None
    """The pull request; None while only CI is waited for."""
    since: float = 0.0
    """When the wait began: what was told to an earlier wait is told to a later one as well."""


class CIProvider(Protocol):
    """The outside world of our commits: verdicts, pull requests and events about both.

    Construction and `subscribe` work at once; everything else needs `bind` and then `start`.
    Asking is the truth: an event only says that asking is worth while now.
    """

    name: str
    tells_all: bool
    """Every change of a verdict is told by an event, so that nobody needs to ask now and then."""
    looks: bool
    """It asks after watched pull requests by itself, so that nobody else needs to."""

    def bind(self, surroundings: Surroundings) -> None:
        """Give the provider what it works with; before `start`."""
        ...

    async def start(self) -> None:
        """Load what is recorded and finish or redo what a crash interrupted."""
        ...

    async def aclose(self) -> None:
        """Stop everything that runs; what was interrupted goes on at the next `start`."""
        ...

    def subscribe(self, handler: Callable[[CIEvent], None]) -> Callable[[], None]:
        """Tell every later event to the handler, in order, from the event loop.

        The returned function ends that. An event is durable before it is told; a handler that fails
        disturbs nobody else.
        """
        ...

    async def events_since(self, cursor: int) -> EventBatch:
        """Return what was told after the cursor (0: everything), for those who were not there."""
        ...

    async def pushed(self, branch: str, sha: str) -> None:
        """Take note of the newest commit of a branch; the same again changes nothing."""
        ...

    async def verdict(self, sha: str) -> Verdict:
        """Say what CI thinks of exactly this commit."""
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
        """Merge if the verdict on the head allows it; merged already is success as well."""
        ...

    async def close(self, number: int) -> PullRequest:
        """Close without merging; one that is closed or merged stays as it is."""
        ...

    def watch(self, watch: Watch) -> Callable[[], None]:
        """Ask after this from now on, at once and then from time to time; what is found is told.

        The returned function ends that. A provider that tells everything by itself needs no watch.
        """
        ...

    async def take(self, hint: Hint) -> tuple[str, ...]:
        """Ask at once after what a delivery hints at; returns whose waits it concerns."""
        ...

    def troubles(self) -> tuple[Trouble, ...]:
        """Return what keeps it from asking at present, if anything does."""
        ...
