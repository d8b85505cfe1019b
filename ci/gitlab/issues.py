"""Issues on GitLab: one note of ours, our labels, closing.

Owns the addresses of these requests; when one is made is decided in `ci.forge.upkeep.issues`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forge.json_fields import at, needed_number, number, text
from ci.forge.protocol import MOST_COMMENTS, ForgeIssue
from ci.issues import IssueReference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci.forge.protocol import IssueQuery
    from ci.http.client import HttpClient

SCOPE = "::"
"""An issue has one label of a scope: a second one replaces the first."""
_OLDEST: Mapping[str, str | int] = {"sort": "asc", "order_by": "created_at", "per_page": 100}


class GitLabIssues:
    """The issues that a token for one project reaches."""

    def __init__(self, http: HttpClient, repo: str) -> None:
        self._http, self._repo = http, repo

    async def issue(self, which: IssueReference) -> ForgeIssue:
        """Return an issue."""
        return _issue((await self._http.get(self._at(which))).body)

    async def find(self, query: IssueQuery) -> tuple[ForgeIssue, ...]:
        """Return the issues that are meant."""
        if query.numbers:
            return tuple([await self.issue(IssueReference(each)) for each in query.numbers])
        wanted: dict[str, str | int] = {**_OLDEST, "state": "opened"}
        if query.labels:
            wanted["labels"] = ",".join(query.labels)
        if query.search:
            wanted["search"] = query.search
        path = f"/projects/{quote(self._repo, safe='')}/issues"
        return tuple(map(_issue, await self._http.get_all(path, params=wanted, most=query.most)))

    async def find_comment(self, which: IssueReference, mark: str) -> int | None:
        """Return the id of the oldest note that contains the mark."""
        told = await self._http.get_all(
            f"{self._at(which)}/notes", params=_OLDEST, most=MOST_COMMENTS
        )
        return next((number(row, "id") for row in told if mark in text(row, "body")), None)

    async def comment(self, which: IssueReference, text: str) -> int:
        """Write a note and return its id."""
        made = await self._http.send("POST", f"{self._at(which)}/notes", json={"body": text})
        return needed_number("the note", made.body, "id")

    async def edit_comment(self, which: IssueReference, comment: int, text: str) -> None:
        """Write another text of a note."""
        path = f"{self._at(which)}/notes/{comment}"
        await self._http.send("PUT", path, json={"body": text})

    async def add_labels(self, which: IssueReference, names: Sequence[str]) -> None:
        """Put labels on, unless one would replace another one of its scope."""
        present = (await self.issue(which)).labels
        for name in names:
            scope, scoped, _ = name.rpartition(SCOPE)
            rival = next((each for each in present if each.rpartition(SCOPE)[0] == scope), "")
            if scoped and rival and rival != name:
                raise RefusedError(f"the label {name} would replace {rival}, which is on it")
        await self._edit(which, add_labels=",".join(names))

    async def remove_label(self, which: IssueReference, name: str) -> None:
        """Take a label off, if it is on."""
        await self._edit(which, remove_labels=name)

    async def close(self, which: IssueReference) -> None:
        """Close it."""
        await self._edit(which, state_event="close")

    async def hindrance(self) -> str:
        """Return why issues of this project cannot be changed."""
        path = f"/projects/{quote(self._repo, safe='')}"
        project = (await self._http.get(path)).body
        if at(project, "issues_enabled") is False:
            return "the project has no issues: switch them on there"
        try:
            await self._http.get(f"{path}/issues", params={"per_page": 1})
        except (ForbiddenError, MissingError):
            return "the token may not read issues: give it the scope api and the role Reporter"
        return ""

    async def _edit(self, which: IssueReference, **fields: str) -> None:
        await self._http.send("PUT", self._at(which), json=fields)

    def _at(self, which: IssueReference) -> str:
        project = quote(which.repo or self._repo, safe="")
        return f"/projects/{project}/issues/{which.number}"


def _issue(body: object) -> ForgeIssue:
    names = at(body, "labels")
    return ForgeIssue(
        open=text(body, "state") == "opened",
        labels=tuple(str(each) for each in names) if isinstance(names, list) else (),
        number=number(body, "iid") or 0,
        title=text(body, "title"),
        body=text(body, "description"),
    )
