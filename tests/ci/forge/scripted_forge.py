"""A forge that says what a test wants, counts what it is asked, and fails when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from ci.events import Check, CheckState, ReviewComment
from ci.forge.merge_rules import Rules
from ci.forge.protocol import Access, BranchRules, ForgePull, LeftQueue, Reviews
from ci.forge.provider import RemoteProvider
from ci.http.rate_limit import RateBudget
from ci.interface import CIWatch, MergeResult, PullRequestState
from ci.ports import ProviderPorts
from lifecycle.clock import SteppedClock
from runtime.remote.remote import PushOutcome
from tests.ci.forge.remote_world import no_header
from tests.ci.ports import JsonDocuments, ShellCommands

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from ci.errors import ForgeError
    from ci.events import CIEvent
    from ci.forge.protocol import NewPull
    from ci.ports import Repository

BASE_SHA = "b" * 40


def sha(letter: str) -> str:
    return letter * 40


def check(name: str, state: str = "passed", **more: Any) -> Check:
    return Check(name=name, state=CheckState(state), **{"ref": f"{name}-1", **more})


class ScriptedForge:
    """Keeps everything in plain attributes."""

    name = "scripted"
    mark = "#"
    queue = "merge queue"
    place = "forge.test/team/app"
    issues = None

    def __init__(self) -> None:
        self.by_sha: dict[str, tuple[Check, ...]] = {}
        self.pulls: dict[int, ForgePull] = {}
        self.said: dict[int, Reviews] = {}
        self.logs: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.merged_with: list[tuple[int, str, str]] = []
        self.reruns: list[tuple[str, ...]] = []
        self.may_rerun = True
        self.failing: ForgeError | None = None
        self.new_name = ""
        """How the repository is called since it was renamed."""
        self.budget = RateBudget()
        self.heads = {"main": BASE_SHA}
        self.rules: dict[str, BranchRules] = {}

    def _ask(self, what: str) -> None:
        self.asked[what] += 1
        if self.failing is not None:
            raise self.failing

    def open(self, number: int = 7, *, head: str = sha("1"), **more: Any) -> ForgePull:
        """Have an open pull request."""
        facts: dict[str, Any] = {
            "branch": "agent/a", "base": "main", "base_sha": BASE_SHA, "title": "Do a",
            "mergeable": True, "created_at": 1.0, "updated_at": 1.0, **more,
        }  # fmt: skip
        self.pulls[number] = ForgePull(
            number=number,
            url=f"https://forge.test/team/app/pull/{number}",
            head_sha=head,
            **{"state": PullRequestState.OPEN, **facts},
        )
        return self.pulls[number]

    def change(self, number: int = 7, **more: Any) -> None:
        """Change the pull request as the forge would."""
        before = self.pulls[number]
        facts = {"updated_at": before.updated_at + 1, **more}
        self.pulls[number] = before.model_copy(update=facts)

    async def checks(self, sha: str) -> tuple[Check, ...]:
        self._ask("checks")
        return self.by_sha.get(sha, ())

    async def explain(self, sha: str, check: Check) -> Check:
        del sha
        self._ask("explain")
        return check.model_copy(update={"excerpt": self.logs.get(check.name, "")})

    async def rerun(self, sha: str, checks: Sequence[Check]) -> bool:
        del sha
        self._ask("rerun")
        self.reruns.append(tuple(each.name for each in checks))
        return self.may_rerun

    async def head(self, branch: str) -> str | None:
        self._ask("head")
        return self.heads.get(branch)

    async def is_checked(self, branch: str) -> bool:
        self._ask("is_checked")
        return bool(self.by_sha.get(self.heads[branch]))

    async def branch_rules(self, branch: str) -> BranchRules:
        self._ask("branch_rules")
        return self.rules.get(branch, BranchRules())

    async def default_branch(self) -> str:
        self._ask("default_branch")
        return "main"

    async def open_pulls(self) -> tuple[ForgePull, ...]:
        self._ask("open_pulls")
        shown = [pull for pull in self.pulls.values() if pull.state is PullRequestState.OPEN]
        return tuple(pull.model_copy(update={"mergeable": None}) for pull in shown)

    async def pull(self, number: int) -> ForgePull | None:
        self._ask("pull")
        return self.pulls.get(number)

    async def find_pull(self, branch: str) -> ForgePull | None:
        self._ask("find_pull")
        found = [pull for pull in self.pulls.values() if pull.branch == branch]
        return found[-1] if found else None

    def issue_of(self, ref: str) -> None:
        del ref

    def number_of(self, ref: str) -> int | None:
        last = ref.rpartition("/")[2].lstrip("#")
        return int(last) if last.isdigit() else None

    async def called(self) -> str:
        return "team/app"

    def renamed_to(self, url: str) -> str:
        del url
        return self.new_name

    async def create_pull(self, new: NewPull) -> ForgePull:
        self._ask("create_pull")
        return self.open(len(self.pulls) + 7, branch=new.branch, base=new.base, title=new.title)

    async def reviews(self, pull: ForgePull) -> Reviews:
        self._ask("reviews")
        return self.said.get(pull.number, Reviews())

    async def merge(self, pull: ForgePull, *, sha: str, method: str, message: str) -> MergeResult:
        del message
        self._ask("merge")
        self.merged_with.append((pull.number, sha, method))
        self.change(pull.number, state=PullRequestState.MERGED, merge_commit="m" * 40)
        return MergeResult(merged=True, commit="m" * 40)

    async def update_pull(self, pull: ForgePull) -> bool:
        del pull
        return False

    async def edit_pull(self, pull: ForgePull, *, title: str, body: str) -> None:
        raise NotImplementedError(f"{pull.number} {title} {body}")

    async def mark_ready(self, pull: ForgePull) -> None:
        raise NotImplementedError(pull.number)

    async def ask_for_review(self, number: int, who: Sequence[str]) -> None:
        raise NotImplementedError(f"{number} {who}")

    async def assign(self, number: int, who: Sequence[str]) -> None:
        raise NotImplementedError(f"{number} {who}")

    async def left_queue(self, pull: ForgePull) -> LeftQueue:
        del pull
        return LeftQueue()

    async def close_pull(self, number: int) -> None:
        self._ask("close_pull")
        self.change(number, state=PullRequestState.CLOSED)

    async def comment(self, number: int, text: str) -> None:
        raise NotImplementedError(f"nobody comments on {number}: {text}")

    async def reply(self, number: int, ref: str, text: str) -> None:
        raise NotImplementedError(f"nobody replies to {ref} of {number}: {text}")

    async def access(self) -> Access:
        return Access(who="ada", can_read=True, can_write=True)

    async def aclose(self) -> None:
        """Have nothing to close."""


class ScriptedRemote:
    """A git remote of which only the heads exist."""

    def __init__(self) -> None:
        self.heads: dict[str, str] = {}
        self.ancestors: set[tuple[str, str]] = set()
        self.refusing = ""
        self.followed: list[tuple[str, str]] = []

    async def push(
        self, branch: str, sha: str, *, expected: str | None, header: Mapping[str, str]
    ) -> PushOutcome:
        del header
        if self.refusing:
            return PushOutcome(done=False, reason=self.refusing)
        if self.heads.get(branch) not in {expected, sha}:
            return PushOutcome(done=False, reason=f"it is at {self.heads.get(branch)}")
        self.heads[branch] = sha
        return PushOutcome(done=True, reason="")

    async def remove(self, branch: str, *, expected: str, header: Mapping[str, str]) -> PushOutcome:
        del header
        if self.heads.get(branch) != expected:
            return PushOutcome(done=False, reason=f"it is at {self.heads.get(branch)}")
        del self.heads[branch]
        return PushOutcome(done=True, reason="")

    async def fetch(self, branch: str, *, header: Mapping[str, str]) -> str | None:
        del header
        return self.heads.get(branch)

    async def holds(self, commit: str, other: str) -> bool:
        return (commit, other) in self.ancestors

    async def follow(self, branch: str, sha: str) -> bool:
        self.followed.append((branch, sha))
        return True


class OneBranch:
    """A repository as far as a provider on a forge asks it."""

    def __init__(self) -> None:
        self.unmerged: set[tuple[str, str]] = set()

    async def head(self, branch: str) -> str | None:
        return sha("1") if branch.startswith("agent/") else None

    async def joined(self, commit: str, other: str, *, message: str) -> str | None:
        del commit, other, message
        return None

    async def is_merged(self, commit: str, into: str) -> bool:
        return (commit, into) not in self.unmerged

    async def conflicts(self, branch: str, into: str) -> tuple[str, ...]:
        del branch, into
        return ("app.py",)


class Scene:
    """A provider on a scripted forge, under a clock that the test steps."""

    def __init__(self, tmp_path: Path, **rules: Any) -> None:
        self.forge, self.remote, self.repository = ScriptedForge(), ScriptedRemote(), OneBranch()
        self.clock = SteppedClock()
        self.rules = Rules(**rules)
        self.documents = JsonDocuments()
        self.events: list[CIEvent] = []
        self.reported: list[tuple[str, dict[str, object]]] = []
        self.folder = tmp_path
        self.against = ""
        """Why nobody merges a pull request unasked."""
        self.provider = self._new()

    def _new(self) -> RemoteProvider:
        provider = RemoteProvider(
            self.forge, rules=lambda: self.rules, header=no_header, chance=lambda: 0.5
        )
        provider.subscribe(self.events.append)
        provider.bind(
            ProviderPorts(
                repository=cast("Repository", self.repository),
                commands=ShellCommands(),
                documents=self.documents,
                now=self.clock.now,
                folder=self.folder,
                call_at=self.clock.call_at,
                remote=self.remote,
                auto_merge_objection=self._against,
                report=self._report,
            )
        )
        return provider

    def _report(self, event: str, /, **fields: object) -> None:
        self.reported.append((event, fields))

    async def _against(self, base: str, head: str) -> str:
        assert (base, head) == ("main", sha("1"))
        return self.against

    async def restart(self) -> None:
        await self.provider.aclose()
        self.provider = self._new()
        await self.provider.start()

    def watch(self, **more: Any) -> Any:
        facts = {"key": "agent-a", "branch": "agent/a", "sha": sha("1"), "number": 7, **more}
        return self.provider.watch(CIWatch(**facts))

    def wait_for_checks(self, *checks: Check) -> None:
        """Have somebody wait for the checks of the commit."""
        self.forge.by_sha[sha("1")] = checks
        self.watch(number=None)

    def wait_for_pull(self, *checks: Check, **pull: Any) -> None:
        """Have somebody wait for an open pull request, whose head has these checks."""
        self.forge.by_sha[sha("1")] = checks
        self.forge.open(**pull)
        self.watch()

    async def quiet(self) -> None:
        """Return when nothing is under way any more."""
        work = self.provider._work
        assert work is not None
        async with asyncio.timeout(10):
            for _ in range(3):
                await work.poller.through()
                await asyncio.sleep(0)
        await self.provider._log.flush()

    async def later(self, seconds: float) -> None:
        """Let time pass, in steps small enough for whatever is due in it."""
        end = self.clock.now() + seconds
        await self.quiet()
        while (due := self.clock.next_instant()) is not None and due <= end:
            self.clock.advance(due - self.clock.now())
            await self.quiet()
        self.clock.advance(end - self.clock.now())
        await self.quiet()

    @property
    def told(self) -> list[str]:
        return [str(event.type) for event in self.events]

    async def stands(self, key: str = "agent-a") -> dict[str, Any]:
        return dict((await self.documents.all("ci.waits"))[key])


@contextlib.asynccontextmanager
async def scene_of(tmp_path: Path, **rules: Any) -> AsyncIterator[Scene]:
    scene = Scene(tmp_path, **rules)
    await scene.provider.start()
    try:
        yield scene
    finally:
        await scene.provider.aclose()


def remark(key: str, text: str, **more: Any) -> ReviewComment:
    facts: dict[str, Any] = {"author": "ada", "trusted": True, "at": 5.0, **more}
    return ReviewComment(key=key, body=text, **facts)
