"""CI and pull requests of the simulated world, which go on whether a runner lives or not."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ci.events import Check, CheckState, CIEvent, CIEventType
from ci.interface import (
    USUAL_TERMS,
    EventBatch,
    MergeResult,
    MergeTerms,
    PullRequest,
    PullRequestState,
)
from ci.verdict import Verdict, VerdictStatus, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.interface import CIWatch, Trouble
    from ci.ports import ProviderPorts
    from ci.webhook_delivery import Hint
    from tests.lifecycle.engine.simulated import Life, World


class Forge:
    """What CI and pull requests do by themselves, whether a runner looks or not."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.events: list[CIEvent] = []
        self.verdicts: dict[str, VerdictStatus] = {}
        self.building: deque[tuple[str, str]] = deque()
        self.pulls: list[PullRequest] = []
        self.merging: deque[int] = deque()
        self.merged_into_base: list[str] = []
        self.handlers: dict[Life, Callable[[CIEvent], None]] = {}
        self.fate = PullRequestState.MERGED
        self.red: set[int] = set()
        """Which builds fail, counted from 1."""
        self.builds = 0

    def push(self, branch: str, sha: str) -> None:
        if sha not in self.verdicts:
            self.verdicts[sha] = VerdictStatus.PENDING
            self.building.append((branch, sha))

    def step(self) -> bool:
        if self.building:
            branch, sha = self.building.popleft()
            self.builds += 1
            good = self.builds not in self.red
            self.verdicts[sha] = VerdictStatus.GREEN if good else VerdictStatus.RED
            kind = CIEventType.BUILD_SUCCESS if good else CIEventType.BUILD_FAILURE
            self.tell(kind, branch, sha)
            return True
        if self.merging:
            number = self.merging.popleft()
            pull = self.pulls[number - 1]
            self.pulls[number - 1] = pull.model_copy(update={"state": self.fate})
            merged = self.fate is PullRequestState.MERGED
            kind = CIEventType.PR_MERGED if merged else CIEventType.PR_CLOSED
            self.tell(kind, pull.branch, pull.head_sha, number)
            return True
        return False

    def tell(self, kind: CIEventType, branch: str, sha: str, number: int | None = None) -> None:
        event = CIEvent(
            type=kind,
            event_id=f"e{len(self.events)}",
            at=self._world.now,
            branch=branch,
            sha=sha,
            pr_number=number,
            pr_url=f"local://pr/{number}" if number else None,
            summary=f"{kind} of {branch}",
        )
        self.events.append(event)
        for life, handler in tuple(self.handlers.items()):
            if not life.dead:
                handler(event)

    def judge(self, sha: str) -> Verdict:
        match self.verdicts.get(sha):
            case VerdictStatus.GREEN:
                return judge(sha, passed=("tests",))
            case VerdictStatus.RED:
                return judge(
                    sha, failed=(Check(name="tests", state=CheckState.FAILED, excerpt="boom"),)
                )
            case VerdictStatus.PENDING:
                return judge(sha, pending=("tests",))
            case _:
                return judge(sha)


class Provider:
    """The forge, as one runner sees it."""

    name = "simulated"
    tells_all = False
    looks = False

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life, self._forge = world, life, world.forge

    def watch(self, watch: CIWatch) -> Callable[[], None]:
        """Do nothing: it does not look by itself."""
        del watch
        return lambda: None

    async def take(self, hint: Hint) -> tuple[str, ...]:
        del hint
        return ()

    def troubles(self) -> tuple[Trouble, ...]:
        return ()

    def bind(self, ports: ProviderPorts) -> None:
        del ports

    async def start(self) -> None:
        self._life.breathe()

    async def aclose(self) -> None:
        self._forge.handlers.pop(self._life, None)

    def subscribe(self, handler: Callable[[CIEvent], None]) -> Callable[[], None]:
        self._forge.handlers[self._life] = handler
        return lambda: None

    async def events_since(self, cursor: int) -> EventBatch:
        self._life.breathe()
        return EventBatch(events=tuple(self._forge.events[cursor:]), cursor=0)

    async def pushed(self, branch: str, sha: str) -> None:
        self._life.checkpoint("before pushed")
        self._forge.push(branch, sha)
        self._life.checkpoint("after pushed")

    async def verdict(self, sha: str) -> Verdict:
        self._life.breathe()
        return self._forge.judge(sha)

    async def pull_request(self, ref: str | int) -> PullRequest | None:
        self._life.breathe()
        number = int(str(ref).rsplit("/", 1)[-1])
        return self._forge.pulls[number - 1] if number <= len(self._forge.pulls) else None

    async def find_pull_request(self, branch: str) -> PullRequest | None:
        self._life.breathe()
        mine = [pull for pull in self._forge.pulls if pull.branch == branch]
        return mine[-1] if mine else None

    async def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str = ""
    ) -> PullRequest:
        self._life.checkpoint("before create_pull_request")
        forge = self._forge
        for known in forge.pulls:
            if known.branch == branch and known.state is PullRequestState.OPEN:
                return known
        number = len(forge.pulls) + 1
        head = next(
            each.head for each in self._world.spaces.values() if each.workspace.branch == branch
        )
        pull = PullRequest(
            number=number, url=f"local://pr/{number}", branch=branch, base=base, head_sha=head,
            title=title, body=body, state=PullRequestState.OPEN, checks=VerdictStatus.GREEN,
            created_at=self._world.now, updated_at=self._world.now,
        )  # fmt: skip
        forge.pulls.append(pull)
        forge.merging.append(number)
        self._life.checkpoint("after create_pull_request")
        return pull

    async def merge(
        self, number: int, *, expected_sha: str | None = None, terms: MergeTerms = USUAL_TERMS
    ) -> MergeResult:
        raise NotImplementedError

    async def close(self, number: int) -> PullRequest:
        raise NotImplementedError
