"""Which remarks on lines were marked as done on GitHub: only its GraphQL API tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forge.json_fields import at, flag, number, rows, text
from ci.github.reviews import RESOLVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ci.github.client import GitHubClient

THREADS = """query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    reviewThreads(last: 100) { nodes {
      isResolved comments(first: 100) { nodes { fullDatabaseId } }
    } }
  } }
}"""


async def with_resolved(
    api: GitHubClient, repo: str, pull: int, comments: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Mark the comments on lines that are in resolved threads; none where GitHub does not tell."""
    done = await _resolved(api, repo, pull) if comments else frozenset()
    return [{**each, RESOLVED: number(each, "id") in done} for each in comments]


async def _resolved(api: GitHubClient, repo: str, pull: int) -> frozenset[int]:
    owner, _, name = repo.partition("/")
    try:
        told = await api.graphql(THREADS, owner=owner, name=name, number=pull)
    except (ForbiddenError, MissingError, RefusedError):
        return frozenset()
    threads = rows(at(told, "data", "repository", "pullRequest", "reviewThreads"), "nodes")
    comments = [
        comment
        for thread in threads
        if flag(thread, "isResolved")
        for comment in rows(thread, "comments", "nodes")
    ]
    # A number in a text, as it may be longer than the numbers of GraphQL.
    told_ids = (text(each, "fullDatabaseId") for each in comments)
    return frozenset(int(each) for each in told_ids if each.isdecimal())
