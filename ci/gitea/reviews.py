"""Reviews of a pull request on Gitea or Forgejo.

Owns fetching them and whose review counts. Treats every text as data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.errors import ForbiddenError, MissingError, UnauthorizedError
from ci.forge.json_fields import flag, number, rows, text
from ci.forge.protocol import Reviews
from ci.gitea.payloads import (
    UNSAID,
    author_of,
    newest_sides,
    remark_of_comment,
    remark_of_line,
    remark_of_review,
)
from ci.gitea.writers import GiteaWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci.events import ReviewComment
    from ci.forge.protocol import ForgePull
    from ci.http.client import HttpClient

_PAGE = {"limit": 50}


class GiteaReviews:
    """The reviews of one repository's pull requests."""

    def __init__(self, http: HttpClient, at: str, *, owner: str, now: Callable[[], float]) -> None:
        self._http = http
        self._at = at
        self._trusted = GiteaWriters(http, at, owner=owner, now=now).may_write
        self._me: tuple[str | None] | None = None

    async def reviews(self, pull: ForgePull) -> Reviews:
        """Return what was said, the oldest first; only those who may write decide anything."""
        path = f"{self._at}/pulls/{pull.number}/reviews"
        given = [row for row in await self._all(path) if text(row, "state") not in UNSAID]
        sides = newest_sides(given)
        trusted = {who for who in sides if await self._trusted(who, given)}
        wanting = {who for who, row in sides.items() if text(row, "state") == "REQUEST_CHANGES"}
        me = await self._our_name()
        remarks = [
            remark_of_comment(
                row,
                trusted=await self._trusted(author_of(row), given),
                own=author_of(row).lower() == me,
            )
            for row in await self._whole(f"{self._at}/issues/{pull.number}/comments")
        ]
        for review in given:
            remarks += await self._remarks(path, review, given, wanting)
        return Reviews(
            approved_by=tuple(
                sorted(
                    who
                    for who, row in sides.items()
                    if who in trusted and text(row, "state") == "APPROVED" and _of_head(row, pull)
                )
            ),
            changes_wanted_by=tuple(sorted(wanting & trusted)),
            changes_wanted_by_others=tuple(sorted(wanting - trusted)),
            remarks=tuple(sorted(remarks, key=lambda remark: (remark.at, remark.key))),
        )

    async def _remarks(
        self, path: str, review: dict[str, Any], given: Iterable[dict[str, Any]], wanting: set[str]
    ) -> list[ReviewComment]:
        who = author_of(review)
        trusted = await self._trusted(who, given)
        own = who.lower() == await self._our_name()
        wants = (
            who in wanting
            and text(review, "state") == "REQUEST_CHANGES"
            and not flag(review, "dismissed")
        )
        said = []
        # The words of an approval ask for nothing.
        if (text(review, "body") or wants) and text(review, "state") != "APPROVED":
            said.append(remark_of_review(review, trusted=trusted, wants=wants, own=own))
        # An old server does not say how many there are.
        if number(review, "comments_count") != 0:
            lines = await self._whole(f"{path}/{number(review, 'id')}/comments")
            said += [remark_of_line(row, trusted=trusted, wants=wants, own=own) for row in lines]
        return said

    async def _our_name(self) -> str | None:
        if self._me is None:
            try:
                login = text((await self._http.get("/user")).body, "login")
            except (MissingError, ForbiddenError, UnauthorizedError):
                # A token may be limited to the repository.
                login = ""
            self._me = (login.lower() or None,)
        return self._me[0]

    async def _all(self, path: str) -> list[dict[str, Any]]:
        return rows({"rows": await self._http.get_all(path, params=_PAGE)}, "rows")

    async def _whole(self, path: str) -> list[dict[str, Any]]:
        """Return a list that has no pages; a server may have learned to make some."""
        return rows({"rows": await self._http.get_all(path)}, "rows")


def _of_head(review: object, pull: ForgePull) -> bool:
    looked_at = text(review, "commit_id")
    return not flag(review, "stale") and looked_at in {"", pull.head_sha}
