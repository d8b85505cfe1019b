"""Stores the local provider's records, then publishes their events.

Owns builds and pull requests in memory and in the documents. Must not decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from ci.json_model import read_document
from ci.local.records import Build, PullRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci.event_log import EventLog
    from ci.events import CIEvent
    from ci.ports import Documents

BUILDS = "ci.local.builds"
PULLS = "ci.local.pulls"
EVENTS = "ci.local.events"

R = TypeVar("R", bound=BaseModel)


class LocalLedger:
    """All builds and pull requests by number; each change is stored before it is published."""

    def __init__(self, documents: Documents, log: EventLog) -> None:
        self._documents = documents
        self._log = log
        self._builds: dict[int, Build] = {}
        self._pulls: dict[int, PullRecord] = {}
        self._latest: dict[str, int] = {}

    async def load(self) -> None:
        """Read everything, and publish the events that a crash prevented."""
        for build in await self._read(BUILDS, Build):
            self._builds[build.number] = build
        for pull in await self._read(PULLS, PullRecord):
            self._pulls[pull.number] = pull
        self._builds = dict(sorted(self._builds.items()))
        self._pulls = dict(sorted(self._pulls.items()))
        self._latest = {build.sha: number for number, build in self._builds.items()}
        events = [event for build in self._builds.values() for event in build.events()]
        for pull in self._pulls.values():
            events.extend(pull.events(self.build_of(pull.head_sha)))
        await self._tell(sorted(events, key=lambda event: event.at))

    async def keep_build(self, build: Build) -> None:
        """Store a new or changed build and publish its events, also for pull requests."""
        await self._documents.put(BUILDS, str(build.number), build.model_dump(mode="json"))
        self._builds[build.number] = build
        self._latest[build.sha] = max(build.number, self._latest.get(build.sha, 0))
        await self._tell(build.events())
        for pull in self.open_pulls():
            if pull.head_sha == build.sha:
                await self._tell(pull.events(self.build_of(build.sha)))

    async def keep_pull(self, pull: PullRecord) -> None:
        """Store a new or changed pull request and publish its events."""
        await self._documents.put(PULLS, str(pull.number), pull.model_dump(mode="json"))
        self._pulls[pull.number] = pull
        await self._tell(pull.events(self.build_of(pull.head_sha)))

    def next_build(self) -> int:
        """Number the next build."""
        return max(self._builds, default=0) + 1

    def next_pull(self) -> int:
        """Number the next pull request."""
        return max(self._pulls, default=0) + 1

    def build(self, number: int) -> Build:
        """Return a build that is known to exist."""
        return self._builds[number]

    def build_of(self, sha: str) -> Build | None:
        """Find the latest build of a commit."""
        return self._builds.get(self._latest.get(sha, 0))

    def unfinished_builds(self) -> list[Build]:
        """List the builds that still have to run to their end, oldest first."""
        return [build for build in self._builds.values() if build.unfinished]

    def pull(self, number: int) -> PullRecord | None:
        """Find a pull request by its number."""
        return self._pulls.get(number)

    def open_pulls(self) -> list[PullRecord]:
        """List the open pull requests, oldest first."""
        return [pull for pull in self._pulls.values() if pull.is_open]

    def pull_of(self, branch: str) -> PullRecord | None:
        """Find the newest open pull request of a branch, else its newest."""
        ofbranch = [pull for pull in self._pulls.values() if pull.branch == branch]
        return max(ofbranch, key=lambda pull: (pull.is_open, pull.number), default=None)

    async def _tell(self, events: Iterable[CIEvent]) -> None:
        for event in events:
            await self._log.publish(event)

    async def _read(self, collection: str, form: type[R]) -> list[R]:
        bodies = await self._documents.all(collection)
        return [read_document(form, collection, key, body) for key, body in bodies.items()]
