"""Answers of GitHub's REST API, as its documentation shows them."""

from __future__ import annotations

from typing import Any

HEAD, OLD = "a" * 40, "b" * 40


LOG = """\ufeff2026-01-01T00:00:01.1000000Z ##[group]Run actions/checkout@v4
2026-01-01T00:00:01.2000000Z ##[endgroup]
2026-01-01T00:00:02.0000000Z ##[error]a warning of no importance
2026-01-01T00:00:05.0000000Z ##[group]Run make test
2026-01-01T00:00:05.1000000Z shell: /usr/bin/bash -e {0}
2026-01-01T00:00:05.2000000Z ##[endgroup]
2026-01-01T00:00:06.0000000Z FAILED test_sum: the sum is wrong
  and this line has no stamp
2026-01-01T00:00:07.0000000Z ##[error]Process completed with exit code 2.
2026-01-01T00:00:09.0000000Z Post job cleanup.
2026-01-01T00:00:09.1000000Z ##[error]the cache could not be saved
"""
STEPS = [
    {"name": "Check out", "conclusion": "success"},
    {
        "name": "Test",
        "conclusion": "failure",
        "started_at": "2026-01-01T00:00:05Z",
        "completed_at": "2026-01-01T00:00:07Z",
    },
    {"name": "Save", "conclusion": "skipped"},
]
TOLD = """Run make test
shell: /usr/bin/bash -e {0}
FAILED test_sum: the sum is wrong
  and this line has no stamp
error: Process completed with exit code 2."""


def run(name: str = "ci", identity: int = 1, **told: Any) -> dict[str, Any]:
    return {"id": identity, "name": name, "status": "completed", **told}


def status(context: str, state: str, at: int = 1) -> dict[str, Any]:
    when = f"2026-01-01T00:00:{at:02}Z"
    return {"id": at, "context": context, "state": state, "updated_at": when}


def pull(**told: Any) -> dict[str, Any]:
    return {
        "number": 3,
        "state": "open",
        "html_url": "https://github.com/o/r/pull/3",
        "title": "Do it",
        "body": None,
        "head": {"ref": "agent/a", "sha": HEAD, "repo": {"full_name": "o/r"}},
        "base": {"ref": "main", "sha": OLD, "repo": {"full_name": "O/r"}},
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:01:00Z",
        **told,
    }


def said(who: str, state: str, at: int, **told: Any) -> dict[str, Any]:
    return {
        "id": at,
        "user": {"login": who},
        "state": state,
        "author_association": "MEMBER",
        "commit_id": HEAD,
        "submitted_at": f"2026-01-01T00:00:{at:02}Z",
        "body": "",
        **told,
    }
