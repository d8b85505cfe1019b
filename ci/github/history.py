"""Whether anything checks a branch on GitHub: its newest commits, by one request.

Only the GraphQL API tells that of several commits at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, MissingError, RefusedError
from ci.forge.json_fields import at, rows
from ci.forge.protocol import COMMITS_LOOKED_AT

if TYPE_CHECKING:
    from ci.github.client import GitHubClient

HISTORY = """query($owner: String!, $name: String!, $branch: String!, $first: Int!) {
  repository(owner: $owner, name: $name) { ref(qualifiedName: $branch) { target {
    ... on Commit { history(first: $first) { nodes { statusCheckRollup { state } } } }
  } } }
}"""


async def is_checked(api: GitHubClient, repo: str, branch: str) -> bool | None:
    """Return whether a check run or a status is on one of them; None if that is not told."""
    owner, _, name = repo.partition("/")
    try:
        told = await api.graphql(
            HISTORY,
            owner=owner,
            name=name,
            branch=f"refs/heads/{branch}",
            first=COMMITS_LOOKED_AT,
        )
    except (ForbiddenError, MissingError, RefusedError):
        return None
    target = at(told, "data", "repository", "ref", "target")
    commits = rows(target, "history", "nodes")
    if not commits:
        return None
    return any(isinstance(at(commit, "statusCheckRollup"), dict) for commit in commits)
