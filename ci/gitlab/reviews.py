"""Reviews of a merge request: approvals, requests for changes, discussions.

Owns fetching them and whose review counts. Treats every text as data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.errors import ForbiddenError, MissingError, UnauthorizedError
from ci.forge.json_fields import epoch, flag, number, rows, text
from ci.forge.protocol import Reviews
from ci.gitlab.payloads import approvals_of, may_write, open_threads, remark_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.forge.protocol import ForgePull
    from ci.http.client import HttpClient

TRUST_LASTS = 600.0
"""Seconds for which a person's role in the project is cached."""
_PAGE = {"per_page": 100}


class GitLabReviews:
    """The reviews of one project's merge requests."""

    def __init__(self, http: HttpClient, project: str, *, now: Callable[[], float]) -> None:
        self._http = http
        self._project = project
        self._now = now
        self._members: dict[int, tuple[float, bool]] = {}
        self._me: tuple[int | None] | None = None

    async def reviews(self, pull: ForgePull) -> Reviews:
        """Return what was said, the oldest first; only those who may write decide anything."""
        at = f"{self._project}/merge_requests/{pull.number}"
        discussions = await self._all(f"{at}/discussions")
        notes = [note for discussion in discussions for note in rows(discussion, "notes")]
        approved = approvals_of(
            await self._maybe(f"{at}/approvals"), notes, head_since=await self._head_since(at, pull)
        )
        wanting = {
            user: text(row, "user", "username")
            for row in rows({"rows": await self._maybe(f"{at}/reviewers")}, "rows")
            if text(row, "state") == "requested_changes"
            and (user := number(row, "user", "id")) is not None
        }
        asking, me = frozenset(wanting), await self._our_id()
        remarks = []
        waiting = open_threads(discussions)
        for discussion in discussions:
            said = [note for note in rows(discussion, "notes") if not flag(note, "system")]
            opener = number(said[0], "author", "id") if said else None
            blocks = text(discussion, "id") in waiting
            if blocks and opener is not None and opener != me:
                wanting[opener] = text(said[0], "author", "username")
            for note in said:
                author = number(note, "author", "id")
                # In a thread only its opener asks; of a plain comment, those who ask by the review.
                asks = blocks if flag(note, "resolvable") else author in asking
                remarks.append(
                    remark_of(
                        note,
                        url=pull.url,
                        # A reply makes a thread of a plain comment, which waits to be resolved.
                        thread=""
                        if flag(discussion, "individual_note")
                        else text(discussion, "id"),
                        trusted=await self._trusted(author),
                        wants=asks and author == opener,
                        own=author is not None and author == me,
                    )
                )
        counted = {user for user in wanting if await self._trusted(user)}
        return Reviews(
            approved_by=tuple(
                sorted([name for user, name in approved.items() if await self._trusted(user)])
            ),
            changes_wanted_by=tuple(sorted(wanting[user] for user in counted)),
            changes_wanted_by_others=tuple(
                sorted(name for user, name in wanting.items() if user not in counted)
            ),
            remarks=tuple(sorted(remarks, key=lambda remark: (remark.at, remark.key))),
        )

    async def _head_since(self, at: str, pull: ForgePull) -> float:
        """Return when the head was pushed; infinity if GitLab does not know it yet."""
        versions = await self._all(f"{at}/versions")
        of_head = [row for row in versions if text(row, "head_commit_sha") == pull.head_sha]
        return max((epoch(row, "created_at") for row in of_head), default=float("inf"))

    async def _our_id(self) -> int | None:
        if self._me is None:
            try:
                self._me = (number((await self._http.get("/user")).body, "id"),)
            except (MissingError, ForbiddenError, UnauthorizedError):
                # The token of a job belongs to no user.
                self._me = (None,)
        return self._me[0]

    async def _trusted(self, user: int | None) -> bool:
        if user is None:
            return False
        known = self._members.get(user)
        if known is not None and self._now() < known[0] + TRUST_LASTS:
            return known[1]
        member = await self._maybe(f"{self._project}/members/all/{user}")
        self._members[user] = (self._now(), may_write(member))
        return self._members[user][1]

    async def _all(self, path: str) -> list[dict[str, Any]]:
        return rows({"rows": await self._http.get_all(path, params=_PAGE)}, "rows")

    async def _maybe(self, path: str) -> Any:
        # Not every edition has each of these, and a person without a role is not found.
        try:
            return (await self._http.get(path)).body
        except (MissingError, ForbiddenError):
            return None
