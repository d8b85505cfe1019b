"""Issues on Gitea and Forgejo: one comment of ours, our labels, closing.

Owns the addresses of these requests; when one is made is decided in `ci.forge.upkeep.issues`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forge.json_fields import flag, needed_number, number, rows, text
from ci.forge.protocol import MOST_COMMENTS
from ci.forge.rest import issue_of_row
from ci.issues import IssueReference

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ci.forge.protocol import ForgeIssue, IssueQuery
    from ci.http.client import HttpClient

LABEL_COLOUR = "#ededed"
SCOPE = "/"
"""Of the exclusive labels of one scope an issue has one: a second one replaces the first."""
_PAGE: Mapping[str, str | int] = {"limit": 50}


class GiteaIssues:
    """The issues that a token reaches, and the labels of their repositories."""

    def __init__(self, http: HttpClient, repo: str) -> None:
        self._http, self._repo = http, repo

    async def issue(self, which: IssueReference) -> ForgeIssue:
        """Return an issue."""
        return issue_of_row((await self._http.get(self._at(which))).body)

    async def find(self, query: IssueQuery) -> tuple[ForgeIssue, ...]:
        """Return the issues that are meant."""
        if query.numbers:
            return tuple([await self.issue(IssueReference(each)) for each in query.numbers])
        wanted = {**_PAGE, "state": "open", "type": "issues"}
        if query.labels:
            wanted["labels"] = ",".join(query.labels)
        if query.search:
            wanted["q"] = query.search
        found = await self._http.get_all(f"{self._in('')}/issues", params=wanted, most=query.most)
        issues = (issue_of_row(row) for row in rows({"": found}, "") if not row.get("pull_request"))
        # An old server passes over a label that it does not know, and lists all issues.
        return tuple(each for each in issues if set(query.labels) <= set(each.labels))

    async def find_comment(self, which: IssueReference, mark: str) -> int | None:
        """Return the id of the oldest comment that contains the mark."""
        told = await self._http.get_all(f"{self._at(which)}/comments", most=MOST_COMMENTS)
        return next((number(row, "id") for row in told if mark in text(row, "body")), None)

    async def comment(self, which: IssueReference, text: str) -> int:
        """Write a comment and return its id."""
        path = f"{self._at(which)}/comments"
        made = await self._http.send("POST", path, json={"body": text})
        return needed_number("the comment", made.body, "id")

    async def edit_comment(self, which: IssueReference, comment: int, text: str) -> None:
        """Write another text of a comment."""
        path = f"{self._in(which.repo)}/issues/comments/{comment}"
        await self._http.send("PATCH", path, json={"body": text})

    async def add_labels(self, which: IssueReference, names: Sequence[str]) -> None:
        """Put labels on, made where there are none, unless one would replace another one."""
        present = (await self.issue(which)).labels
        known = await self._labels(names, which.repo)
        for name, row in known.items():
            scope = name.rpartition(SCOPE)[0]
            rival = next((each for each in present if each.rpartition(SCOPE)[0] == scope), "")
            if flag(row, "exclusive") and scope and rival not in {"", name}:
                raise RefusedError(f"the label {name} would replace {rival}, which is on it")
        order = {"labels": await self._ids(names, known, which.repo)}
        await self._http.send("POST", f"{self._at(which)}/labels", json=order)

    async def remove_label(self, which: IssueReference, name: str) -> None:
        """Take a label off, if it is on."""
        body = (await self._http.get(self._at(which))).body
        for row in rows(body, "labels"):
            if text(row, "name") == name:
                path = f"{self._at(which)}/labels/{number(row, 'id')}"
                await self._http.send("DELETE", path)

    async def close(self, which: IssueReference) -> None:
        """Close it."""
        await self._http.send("PATCH", self._at(which), json={"state": "closed"})

    async def hindrance(self) -> str:
        """Return why issues of this repository cannot be changed."""
        repo = (await self._http.get(self._in(""))).body
        if isinstance(repo, dict) and repo.get("has_issues") is False:
            return "the repository has no issues: switch them on there"
        try:
            await self._http.get(f"{self._in('')}/issues", params={"limit": 1})
        except (ForbiddenError, MissingError):
            return "the token may not read issues: give it the scope write:issue"
        return ""

    async def label_ids(self, names: Sequence[str]) -> list[int]:
        """Return the ids of labels of our repository, made where there are none."""
        return await self._ids(names, await self._labels(names, ""), "")

    async def _ids(
        self, names: Sequence[str], known: Mapping[str, Mapping[str, object]], repo: str
    ) -> list[int]:
        found: list[int] = []
        for name in dict.fromkeys(names):
            row: object = known.get(name)
            if row is None:
                order = {"name": name, "color": LABEL_COLOUR}
                row = (await self._http.send("POST", f"{self._in(repo)}/labels", json=order)).body
            found.append(needed_number("the label", row, "id"))
        return found

    async def _labels(self, names: Sequence[str], repo: str) -> Mapping[str, Mapping[str, object]]:
        """Return those of these names, also those that the repository has of its organisation."""
        wanted = set(names)
        known = _named(await self._listed(self._in(repo)), wanted)
        if wanted - known.keys():
            owner = (repo or self._repo).partition("/")[0]
            try:
                listed = await self._listed(f"/orgs/{quote(owner)}")
            except (ForbiddenError, MissingError):
                listed = []  # a person has none, and not every token is told of an organisation
            known = {**_named(listed, wanted), **known}
        return known

    async def _listed(self, place: str) -> list[dict[str, object]]:
        return rows({"": await self._http.get_all(f"{place}/labels", params=_PAGE)}, "")

    def _in(self, repo: str) -> str:
        return f"/repos/{quote(repo or self._repo)}"

    def _at(self, which: IssueReference) -> str:
        return f"{self._in(which.repo)}/issues/{which.number}"


def _named(
    listed: Iterable[Mapping[str, object]], wanted: Collection[str]
) -> dict[str, Mapping[str, object]]:
    return {name: row for row in listed if (name := text(row, "name")) in wanted}
