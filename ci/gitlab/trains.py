"""Merge trains: putting a merge request on one, whether it is on it, and why it was dropped.

Owns GitLab's requests and words for them. How often one is put on again is decided in
`ci.forge.upkeep.merge_queue`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forge.json_fields import flag, number, rows, text
from ci.forge.protocol import LeftQueue
from ci.interface import MergeResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci.forge.protocol import ForgePull
    from ci.gitlab.project import GitLabProject, MergeSettings
    from ci.http.client import HttpClient

ON_TRAIN = MergeResult(merged=False, reason="on the merge train", queued=True)
AUTO_MERGE = "it is set to be merged by GitLab itself when its pipeline has passed"
STILL_RUNS = "ci_still_running"
DOES_ITSELF = frozenset({STILL_RUNS, "need_rebase"})
"""What a train does by itself: it waits for the rest of the pipeline, and rebases."""
TRAIN = "train"
"""The last word of the ref on which a train tests a merge request."""
_REMOVED = re.compile(
    r"(?:removed this merge request from the merge train"
    r"|(?:aborted|canceled|cancelled)(?: the)? automatic add to merge train)"
    r"(?: because (?P<reason>.+))?",
    re.DOTALL,
)
_NOTES: Mapping[str, str | int] = {"sort": "desc", "order_by": "created_at", "per_page": 50}
_AUTO_MERGE_SINCE = (17, 11)
"""Older servers have the same parameter under another name."""
_VERSION = re.compile(r"(\d+)\.(\d+)")


class GitLabTrains:
    """The merge trains of one project."""

    def __init__(self, http: HttpClient, path: str, project: GitLabProject) -> None:
        self._http = http
        self._path = path
        self._project = project
        self._waits = ""
        """What the server calls the parameter that has it wait for the pipeline."""

    async def settings(self) -> MergeSettings:
        """Return what the project demands of a merge now, trains among it."""
        return await self._project.settings(anew=True)

    async def seen(self, pull: ForgePull) -> ForgePull:
        """Return a merge request with its train, and without what a train does by itself."""
        does = pull.hindrance in DOES_ITSELF
        if not (does or pull.queued):
            return pull
        if not (await self._project.settings()).trains:
            update = {"queued": False, "hindrance": AUTO_MERGE}
            return pull.model_copy(update=update) if pull.queued else pull
        by_train: dict[str, Any] = {"hindrance": "", "behind": False} if does else {}
        if pull.queued:
            by_train["group_sha"] = await self._group(pull.number)
        return pull.model_copy(update=by_train)

    async def enter(self, number: int, *, sha: str, squash: bool, waits: bool) -> MergeResult:
        """Put exactly this commit on the train of its target.

        `waits`: its pipeline still runs, and the server puts it on when that has passed.
        """
        order: dict[str, Any] = {"sha": sha, "squash": squash}
        if waits:
            order[await self._parameter()] = True
        await self._http.send("POST", self._entry(number), json=order)
        return ON_TRAIN

    async def _group(self, number: int) -> str:
        """Return the commit on which the train tests it; empty while there is none."""
        try:
            car = (await self._http.get(self._entry(number))).body
        except (MissingError, ForbiddenError):
            # It is to be put on when its pipeline has passed.
            return ""
        return text(car, "pipeline", "sha")

    async def left(self, pull: ForgePull) -> LeftQueue:
        """Return how it left the train the last time: GitLab writes it under the merge request."""
        path = f"{self._path}/merge_requests/{pull.number}/notes"
        told = (await self._http.get(path, params=_NOTES)).body
        said = (
            _REMOVED.match(text(note, "body").strip())
            for note in rows({"": told}, "")
            if flag(note, "system")
        )
        last = next(filter(None, said), None)
        group = await self._newest_group(pull.number)
        if last is None:
            return LeftQueue(group=group)
        reason = (last["reason"] or "").strip().rstrip(".")
        return LeftQueue(reason=reason or "by hand", group=group, by_person=not reason)

    async def _newest_group(self, number: int) -> str:
        ref = f"refs/merge-requests/{number}/{TRAIN}"
        told = (await self._http.get(f"{self._path}/pipelines", params={"ref": ref})).body
        newest = max(rows({"": told}, ""), key=_id, default=None)
        return text(newest, "sha")

    async def _parameter(self) -> str:
        if not self._waits:
            try:
                version = text((await self._http.get("/version")).body, "version")
            except (MissingError, ForbiddenError, RefusedError):
                version = ""
            found = _VERSION.match(version)
            old = found is not None and (int(found[1]), int(found[2])) < _AUTO_MERGE_SINCE
            self._waits = "when_pipeline_succeeds" if old else "auto_merge"
        return self._waits

    def _entry(self, number: int) -> str:
        return f"{self._path}/merge_trains/merge_requests/{number}"


def _id(row: object) -> int:
    return number(row, "id") or 0
