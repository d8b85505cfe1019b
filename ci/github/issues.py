"""Issues on GitHub: one comment of ours, our labels, closing.

Owns the addresses of these requests; when one is made is decided in `ci.forge.upkeep.issues`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError
from ci.forge.json_fields import needed_number, number, text
from ci.forge.protocol import MOST_COMMENTS
from ci.forge.rest import issue_of_row
from ci.issues import IssueReference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci.forge.protocol import ForgeIssue, IssueQuery
    from ci.github.client import GitHubClient

_PAGE: Mapping[str, str | int] = {"per_page": 100}


class GitHubIssues:
    """The issues that a token for one repository reaches."""

    def __init__(self, api: GitHubClient, repo: str) -> None:
        self._api, self._repo = api, repo

    async def issue(self, which: IssueReference) -> ForgeIssue:
        """Return an issue."""
        return issue_of_row((await self._api.get(self._at(which))).body)

    async def find(self, query: IssueQuery) -> tuple[ForgeIssue, ...]:
        """Return the issues that are meant; pull requests, which GitHub lists too, are none."""
        if query.numbers:
            return tuple([await self.issue(IssueReference(each)) for each in query.numbers])
        if query.search:
            words = f"repo:{self._repo} is:issue is:open {query.search}"
            found = await self._api.get_all(
                "/search/issues", params={**_PAGE, "q": words}, key="items", most=query.most
            )
        else:
            wanted = {**_PAGE, "state": "open", "labels": ",".join(query.labels)}
            found = await self._api.get_all(
                f"/repos/{quote(self._repo)}/issues", params=wanted, most=query.most
            )
        return tuple(issue_of_row(row) for row in found if "pull_request" not in row)

    async def find_comment(self, which: IssueReference, mark: str) -> int | None:
        """Return the id of the oldest comment that contains the mark."""
        told = await self._api.get_all(
            f"{self._at(which)}/comments", params=_PAGE, most=MOST_COMMENTS
        )
        return next((number(row, "id") for row in told if mark in text(row, "body")), None)

    async def comment(self, which: IssueReference, text: str) -> int:
        """Write a comment and return its id."""
        path = f"{self._at(which)}/comments"
        made = await self._api.send("POST", path, json={"body": text})
        return needed_number("the comment", made.body, "id")

    async def edit_comment(self, which: IssueReference, comment: int, text: str) -> None:
        """Write another text of a comment."""
        path = f"{self._in(which)}/issues/comments/{comment}"
        await self._api.send("PATCH", path, json={"body": text})

    async def add_labels(self, which: IssueReference, names: Sequence[str]) -> None:
        """Put labels on; GitHub makes those that there are not."""
        await self._api.send("POST", f"{self._at(which)}/labels", json={"labels": list(names)})

    async def remove_label(self, which: IssueReference, name: str) -> None:
        """Take a label off, if it is on."""
        try:
            await self._api.send("DELETE", f"{self._at(which)}/labels/{quote(name, safe='')}")
        except MissingError:
            return

    async def close(self, which: IssueReference) -> None:
        """Close it as completed."""
        closed = {"state": "closed", "state_reason": "completed"}
        await self._api.send("PATCH", self._at(which), json=closed)

    async def hindrance(self) -> str:
        """Return why issues of this repository cannot be changed."""
        repo = (await self._api.get(f"/repos/{quote(self._repo)}")).body
        if isinstance(repo, dict) and repo.get("has_issues") is False:
            return "the repository has no issues: switch them on there"
        try:
            await self._api.get(f"/repos/{quote(self._repo)}/issues", params={"per_page": 1})
        except (ForbiddenError, MissingError):
            return "the token may not read issues: give it the permission Issues (read and write)"
        return ""

    def _in(self, which: IssueReference) -> str:
        return f"/repos/{quote(which.repo or self._repo)}"

    def _at(self, which: IssueReference) -> str:
        return f"{self._in(which)}/issues/{which.number}"
