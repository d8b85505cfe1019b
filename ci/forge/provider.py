"""The provider on a forge: watches, verdicts, pull requests and events about them.

Owns the provider's lifecycle and its public methods. The forge itself is thin
(`ci.forge.protocol`); events come from `ci.forge.watching`. Polling decides: a webhook only makes
it poll sooner.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ci.errors import ForgeError, ProviderError
from ci.forge.events import ForgeEvents
from ci.forge.git_sync import GitSync
from ci.forge.memory import Memory
from ci.forge.outage import Outage
from ci.forge.poller import Poller
from ci.forge.pull_requests import PullRequests
from ci.forge.replies import AgentReplies
from ci.forge.triage import CheckTriage
from ci.forge.upkeep.behind import BehindBase
from ci.forge.upkeep.head_branch import HeadBranches
from ci.forge.upkeep.issues import IssueUpkeep
from ci.forge.upkeep.merge_queue import MergeQueue
from ci.forge.upkeep.one_per_branch import OnePerBranch
from ci.forge.upkeep.words_and_people import PullUpkeep
from ci.forge.watching import ForgeWatcher
from ci.interface import USUAL_TERMS, MergeTerms
from ci.provider import BaseProvider
from ci.verdict import VerdictStatus, checks_of, failed_of, judge_checks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.events import Check, CIEvent
    from ci.forge.merge_rules import Rules
    from ci.forge.poller import PollResult
    from ci.forge.protocol import Forge
    from ci.interface import CIProvider, CIWatch, MergeResult, PullRequest, Trouble
    from ci.issues import IssueStanding
    from ci.ports import ProviderPorts
    from ci.verdict import Verdict
    from ci.webhook_delivery import Hint

    Header = Callable[[], Awaitable[Mapping[str, str]]]

REPLIES = " replies"
"""The key by which replies that are owed are polled; no agent has this name."""
BRANCHES = " branches"
"""The same for branches that are to be removed."""


@dataclass(slots=True)
class _Work:
    """The parts of a started provider."""

    memory: Memory
    triage: CheckTriage
    git_sync: GitSync
    pulls: PullRequests
    replies: AgentReplies
    watcher: ForgeWatcher
    poller: Poller
    issues: IssueUpkeep
    head_branches: HeadBranches
    forgetting: set[asyncio.Task[None]] = field(default_factory=set)

    def forget(self, key: str) -> None:
        """Delete the status of a wait that is over."""
        task = asyncio.get_running_loop().create_task(self.memory.over(key))
        self.forgetting.add(task)
        task.add_done_callback(self.forgetting.discard)

    async def aclose(self) -> None:
        """Stop polling, and wait until no task is left."""
        await self.poller.aclose()
        await self.issues.aclose()
        while self.forgetting:
            await asyncio.gather(*self.forgetting, return_exceptions=True)


class RemoteProvider(BaseProvider[_Work]):
    """Works with one repository on a forge."""

    tells_all: bool = True
    looks: bool = True

    def __init__(
        self,
        forge: Forge,
        *,
        rules: Callable[[], Rules],
        header: Header,
        chance: Callable[[], float] = random.random,
        release: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`header` signs pushes; `release` closes what it needed for that."""
        super().__init__(f"ci.{forge.name}.events")
        self.name = forge.name
        self.forge = forge
        self._rules = rules
        self._header = header
        self._chance = chance
        self._release = release
        self.judges: tuple[CIProvider, ...] = ()
        """Other providers whose verdicts count as well, also for merging."""
        self._publishing = asyncio.Lock()

    async def start(self) -> None:
        """Read the stored state; waits register by `watch` and are checked then."""
        async with self._life:
            if self._work is None:
                ports = self._bound()
                await self._log.open(ports.documents)
                work = self._set_up(ports)
                await work.memory.open(ports.documents)
                if work.memory.owed_replies():
                    work.poller.add(REPLIES)
                if work.head_branches.owed():
                    work.poller.add(BRANCHES)
                self._work = work
                work.issues.resume()

    async def aclose(self) -> None:
        """Stop; the stored state stays for the next `start`."""
        async with self._life:
            work, self._work = self._work, None
            if work is not None:
                await work.aclose()
            await self._log.flush()
            await self.forge.aclose()
            if self._release is not None:
                await self._release()

    # --- what waits ---------------------------------------------------------------------------

    def watch(self, watch: CIWatch) -> Callable[[], None]:
        """Poll from now on, starting at once; a watch of the same key is replaced."""
        work = self._started()
        work.watcher.begin(watch)
        work.poller.add(watch.key)

        def over() -> None:
            if work.watcher.watches.get(watch.key) is watch:
                work.watcher.end(watch.key)
                work.poller.remove(watch.key)
                work.forget(watch.key)

        return over

    async def take(self, hint: Hint) -> tuple[str, ...]:
        """Check at once what the hint concerns, and return the keys of these waits."""
        work = self._started()
        keys = tuple(
            key
            for key, watch in work.watcher.watches.items()
            if hint.concerns(branch=watch.branch, sha=watch.sha, number=watch.number)
        )
        for key in keys:
            work.poller.hurry(key)
        bases = work.watcher.bases
        into = work.watcher.base_moved(hint.branch) if bases.is_new(hint.branch, hint.sha) else ()
        keys = tuple(dict.fromkeys((*keys, *into)))
        if keys:
            await work.poller.through()
            if (trouble := work.watcher.outage.present) is not None:
                raise ForgeError(trouble.text, retry_at=trouble.next_try)
        if into and hint.sha:
            bases.looked_into(hint.branch, hint.sha)
        return keys

    def troubles(self) -> tuple[Trouble, ...]:
        """Return why the forge gives no answers at present."""
        trouble = self._work.watcher.outage.present if self._work else None
        return () if trouble is None else (trouble,)

    def follow_issue(self, standing: IssueStanding) -> None:
        """Bring the issue of a task in line with this, soon and as the settings want it."""
        self._started().issues.follow(standing)

    def followed_issues(self) -> tuple[str, ...]:
        """Return the keys of all lifecycles with an issue that are not over, as known here."""
        return self._started().issues.followed()

    def issue_name(self, issue: str) -> str:
        """Return how texts at the forge name an issue; empty if it has none of that name."""
        which = self.forge.issue_of(issue)
        return "" if which is None else which.short

    def issue_problem(self, issue: str) -> str:
        """Return why a task cannot be about this issue, and what to do; empty if it can."""
        if self.forge.issues is None or self.forge.issue_of(issue) is not None:
            return ""
        host = self.forge.place.partition("/")[0]
        return (
            f"the issue {issue} is not at {host}, where the pull requests are: name one that is "
            "there, or leave `issue` out and put the address into the description"
        )

    # --- what is asked ------------------------------------------------------------------------

    async def pushed(self, branch: str, sha: str) -> None:
        """Push the newest commit of a branch; a failed push is retried at each poll."""
        work = self._started()
        await work.memory.want(branch, sha)
        owed = await work.git_sync.push_missing(branch)
        if owed:
            raise ProviderError(owed)

    async def verdict(self, sha: str) -> Verdict:
        """Judge exactly this commit."""
        triage = self._started().triage
        checks = await triage.checks(sha)
        verdict = triage.verdict(sha, checks)
        if verdict.status is not VerdictStatus.RED:
            return verdict
        failed = failed_of(checks)
        others = tuple(check for check in checks if check not in failed)
        return judge_checks(sha, (*await triage.explained(sha, checks), *others))

    async def pull_request(self, ref: str | int) -> PullRequest | None:
        """Find a pull request: its number, `#3`, or its url."""
        return await self._started().pulls.by_reference(ref)

    async def find_pull_request(self, branch: str) -> PullRequest | None:
        """Find the newest open pull request of a branch, else its newest."""
        return await self._started().pulls.of_branch(branch)

    async def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str = ""
    ) -> PullRequest:
        """Push the branch and open a pull request, or return the one that is open."""
        head = await self._bound().repository.head(branch)
        if head is None:
            raise ProviderError(
                f"there is no branch {branch!r} with a commit to open a pull request for"
            )
        await self.pushed(branch, head)
        pulls = self._started().pulls
        return await pulls.create(branch=branch, base=base, title=title, body=body)

    async def merge(
        self, number: int, *, expected_sha: str | None = None, terms: MergeTerms = USUAL_TERMS
    ) -> MergeResult:
        """Merge exactly the reviewed commit, if nothing speaks against it."""
        work = self._started()
        result = await work.pulls.merge(number, expected_sha=expected_sha, terms=terms)
        if not result.merged:
            # The list of pull requests may not show yet what speaks against it.
            for key, watch in work.watcher.watches.items():
                if watch.number == number:
                    work.poller.hurry(key)
        return result

    async def close(self, number: int) -> PullRequest:
        """Close without merging; one that is closed or merged stays as it is."""
        return await self._started().pulls.close(number)

    async def reply(self, agent_id: str, branch: str, sha: str, replies: Mapping[str, str]) -> None:
        """Post replies to remarks once this commit is at the forge; what fails is tried again."""
        work = self._started()
        await work.replies.take(agent_id, branch, sha, replies)
        try:
            await work.replies.post_owed()
        finally:
            if work.memory.owed_replies():
                work.poller.add(REPLIES)

    # --- how ----------------------------------------------------------------------------------

    def _set_up(self, ports: ProviderPorts) -> _Work:
        forge, now = self.forge, ports.now
        if ports.remote is None or ports.call_at is None:
            raise ProviderError(
                f"the {self.name} provider needs ProviderPorts with `remote` and `call_at`"
            )

        def soon(key: str) -> None:
            poller.soon(key)  # made below, from the watcher's own rounds

        memory = Memory(forge.name, now)
        triage = CheckTriage(forge, memory, self._rules, now, beside=self._beside)
        events = ForgeEvents(forge.name, forge.place)
        git_sync = GitSync(
            ports.remote,
            ports.repository,
            memory,
            header=self._header,
            place=forge.place,
        )
        behind = BehindBase(forge, memory, git_sync, self._rules)
        issues = IssueUpkeep(
            forge, memory, self._rules, now=now, call_at=ports.call_at, report=ports.report
        )
        head_branches = HeadBranches(
            forge,
            memory,
            git_sync,
            self._rules,
            ports.is_needed,
            self._publish,
            self._log.knows,
            ports.report,
            poll=lambda: poller.add(BRANCHES),
        )
        one_per_branch = OnePerBranch(forge, memory, now)
        queue = MergeQueue(forge, triage, memory, events, now, self._publish)
        replies = AgentReplies(forge, memory, now, ports.report)
        watcher = ForgeWatcher(
            queue=queue,
            head_branches=head_branches,
            one_per_branch=one_per_branch,
            issues=issues,
            behind=behind,
            forge=forge,
            triage=triage,
            memory=memory,
            events=events,
            git_sync=git_sync,
            rules=self._rules,
            now=now,
            publish=self._publish,
            against=ports.auto_merge_objection,
            comes_along=ports.comes_along,
            soon=soon,
            outage=Outage(forge.place, now, ports.report),
        )
        pulls = PullRequests(
            behind=behind,
            upkeep=PullUpkeep(forge, memory, self._rules),
            queue=queue,
            head_branches=head_branches,
            one_per_branch=one_per_branch,
            issues=issues,
            forge=forge,
            triage=triage,
            memory=memory,
            now=now,
            git_sync=git_sync,
            repository=ports.repository,
            events=events,
            rules=self._rules,
            publish=self._publish,
            comes_along=ports.comes_along,
            wait_for=watcher.wait_for,
            base_moved=watcher.base_moved,
        )

        async def polled(keys: Mapping[str, bool]) -> Mapping[str, PollResult]:
            owed = (REPLIES, BRANCHES)
            watched = {key: uncached for key, uncached in keys.items() if key not in owed}
            before = replies.ready()
            answers = dict(await watcher.round(watched)) if watched else {}
            if REPLIES in keys or replies.ready() > before:
                answers[REPLIES] = await replies.poll()
            if not memory.owed_replies():
                poller.remove(REPLIES)
            if BRANCHES in keys:
                answers[BRANCHES] = await head_branches.remove_owed()
            if not head_branches.owed():
                poller.remove(BRANCHES)
            return answers

        poller = Poller(
            polled,
            now=now,
            call_at=ports.call_at,
            chance=self._chance,
            budget=lambda: forge.budget,
        )
        return _Work(
            memory, triage, git_sync, pulls, replies, watcher, poller, issues, head_branches
        )

    async def _beside(self, sha: str) -> tuple[Check, ...]:
        verdicts = [await judge.verdict(sha) for judge in self.judges]
        return tuple(check for verdict in verdicts for check in checks_of(verdict))

    async def _publish(self, event: CIEvent) -> None:
        async with self._publishing:
            await self._log.publish(event)
