"""Issues of Linear as a plan: `loopwright up linear:label=ready`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from pathlib import Path

API = "https://api.linear.app/graphql"
QUERY = """
query ($label: String!, $after: String) {
  issues(
    first: 100, after: $after,
    filter: {labels: {name: {eq: $label}}, state: {type: {nin: ["completed", "canceled"]}}}
  ) {
    pageInfo { hasNextPage endCursor }
    nodes {
      identifier title description priority url
      labels { nodes { name } }
      inverseRelations { nodes { type issue { identifier } } }
    }
  }
}
"""


def read(rest: str, repo: Path) -> dict[str, Any]:
    """Return a plan of the open issues with a label, those of the highest priority first."""
    del repo
    name, _, label = rest.partition("=")
    if name != "label" or not label:
        raise ValueError("write linear:label=NAME")
    issues = list(_issues(label))
    # 1 is urgent, 4 is low, and 0 is none.
    issues.sort(key=lambda issue: issue["priority"] or 5)
    known = {issue["identifier"] for issue in issues}
    return {"tasks": [_task(issue, known) for issue in issues]}


def _task(issue: dict[str, Any], known: set[str]) -> dict[str, Any]:
    blockers = [
        each["issue"]["identifier"]
        for each in issue["inverseRelations"]["nodes"]
        if each["type"] == "blocks"
    ]
    return {
        "id": issue["identifier"],
        "title": issue["title"],
        "description": issue["description"] or "",
        "dependencies": [each for each in blockers if each in known],
        "tags": [each["name"] for each in issue["labels"]["nodes"]],
        "source": issue["url"],
    }


def _issues(label: str) -> Any:
    after = None
    while True:
        asked = {"query": QUERY, "variables": {"label": label, "after": after}}
        request = Request(  # noqa: S310  # an address of ours
            os.environ.get("LINEAR_API_URL", API),
            data=json.dumps(asked).encode(),
            headers={
                "authorization": os.environ["LINEAR_API_KEY"],
                "content-type": "application/json",
            },
        )
        with urlopen(request, timeout=30) as answer:  # noqa: S310  # as above
            told = json.load(answer)
        if told.get("errors"):
            raise ValueError(told["errors"][0]["message"])
        found = told["data"]["issues"]
        yield from found["nodes"]
        if not found["pageInfo"]["hasNextPage"]:
            return
        after = found["pageInfo"]["endCursor"]
