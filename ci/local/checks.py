"""Which commits the local provider builds, and its verdicts.

Owns the rules of builds: when one is ordered, shared, cancelled, rerun. Must not know pull
requests. Every changing method must be called from the serial queue.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ci.errors import ProviderError
from ci.events import clean_tail
from ci.local.builds import BuildOrder, BuildResult
from ci.local.records import Build, BuildState
from ci.verdict import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.local.builds import BuildRunner
    from ci.local.ledger import LocalLedger
    from ci.serial_queue import SerialQueue


class LocalChecks:
    """Builds commits with one command, or none at all if there is no command."""

    _settled: Callable[[str], Awaitable[None]]

    def __init__(
        self,
        ledger: LocalLedger,
        runner: BuildRunner,
        changes: SerialQueue,
        *,
        command: str | None,
        now: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._runner = runner
        self._changes = changes
        self._now = now
        self.command = command

    async def resume(self, settled: Callable[[str], Awaitable[None]]) -> None:
        """Run interrupted builds again, under their own ids; call `settled` for judged commits."""
        self._settled = settled
        await self._runner.prepare()
        for build in self._ledger.unfinished_builds():
            if self.command is None:
                await self._cancelled(build, "no test command is set any more")
            else:
                again = {"state": BuildState.QUEUED, "command": self.command}
                await self._ledger.keep_build(build.model_copy(update=again))
                self._start(build.number)

    async def want(self, branch: str, sha: str) -> None:
        """Build the newest commit of a branch; builds of its older ones are no longer needed."""
        for build in self._ledger.unfinished_builds():
            if branch in build.branches and build.sha != sha:
                await self._leave(build, branch)
        if self.command is None:
            return
        latest = self._ledger.build_of(sha)
        if latest is None or latest.state is BuildState.CANCELLED:
            await self._order(sha, (branch,))
        elif branch not in latest.branches:
            joined = {"branches": (*latest.branches, branch)}
            await self._ledger.keep_build(latest.model_copy(update=joined))

    async def rebuild(self, sha: str) -> None:
        """Build a commit once more, unless a build of it is under way."""
        build = self._ledger.build_of(sha)
        if self.command is None:
            raise ProviderError("there is nothing to rebuild with: set a test_command")
        if build is None:
            raise ProviderError(f"commit {sha} was never built: report it with pushed() first")
        if not build.unfinished:
            await self._order(sha, build.branches)

    def verdict(self, sha: str) -> Verdict:
        """Judge a commit by its latest build."""
        build = self._ledger.build_of(sha)
        if self.command is None:
            return judge(sha, summary="no test command is set: nothing is checked")
        if build is None:
            text = "this commit was not built: report it with pushed()"
            return judge(sha, pending=(self.command,), summary=text)
        return build.verdict()

    async def _leave(self, build: Build, branch: str) -> None:
        others = tuple(other for other in build.branches if other != branch)
        if others:
            await self._ledger.keep_build(build.model_copy(update={"branches": others}))
        else:
            await self._runner.cancel(build.build_id)
            await self._cancelled(build, f"{branch} has a newer commit")

    async def _cancelled(self, build: Build, why: str) -> None:
        end = {
            "state": BuildState.CANCELLED,
            "finished_at": self._now(),
            "summary": f"{build.build_id} was cancelled: {why}",
        }
        await self._ledger.keep_build(build.model_copy(update=end))

    async def _order(self, sha: str, branches: tuple[str, ...]) -> None:
        build = Build(
            number=self._ledger.next_build(),
            sha=sha,
            branches=branches,
            command=self.command or "",
            created_at=self._now(),
        )
        log_url = self._runner.log(build.build_id).absolute().as_uri()
        await self._ledger.keep_build(build.model_copy(update={"log_url": log_url}))
        self._start(build.number)

    def _start(self, number: int) -> None:
        build = self._ledger.build(number)
        self._runner.start(
            BuildOrder(
                build_id=build.build_id,
                sha=build.sha,
                command=build.command,
                started=lambda: self._changes.run(partial(self._begun, number)),
                finished=lambda result: self._changes.run(partial(self._ended, number, result)),
            )
        )

    async def _begun(self, number: int) -> None:
        build = self._ledger.build(number)
        if build.unfinished:
            began = {"state": BuildState.RUNNING, "started_at": build.started_at or self._now()}
            await self._ledger.keep_build(build.model_copy(update=began))

    async def _ended(self, number: int, result: BuildResult) -> None:
        build = self._ledger.build(number)
        if not build.unfinished:
            return  # it was cancelled while its end waited for this turn
        state = BuildState.PASSED if result.passed else BuildState.FAILED
        end = {
            "state": BuildState.BROKEN if result.broken else state,
            "finished_at": self._now(),
            "summary": result.summary,
            "excerpt": clean_tail(result.excerpt),
        }
        await self._ledger.keep_build(build.model_copy(update=end))
        await self._settled(build.sha)
