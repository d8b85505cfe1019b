"""What is sent to GitHub is held against its published description, which finds what is wrong.

Every request of the tests is checked: those to emulate when its session ends (`emulated`), those
to the small server when its test ends (`conftest`).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.github_api import fault_of

PULLS = "/repos/o/r/pulls"


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "fault"),
    [
        ("GET", PULLS, {"state": "open", "per_page": "100"}, None, ""),
        ("GET", PULLS, {"limit": "50"}, None, "unknown parameter limit"),
        ("GET", PULLS, {"state": "opened"}, None, "'opened' is none of"),
        ("GET", "/repos/o/r/commits/a1/check-runs", {"filter": "latest"}, None, ""),
        ("PUT", PULLS, {}, None, "no such operation"),
        ("POST", PULLS, {}, {"head": "agent/a", "base": "main"}, ""),
        ("POST", PULLS, {}, {"head": "agent/a"}, "field base is missing"),
        ("PATCH", f"{PULLS}/3", {}, {"status": "closed"}, "unknown field status"),
        ("GET", "/repos/o/r/git/ref/heads/agent/a", {}, None, ""),
        ("POST", "/repos/o/r/issues/3/labels", {}, {"labels": ["a"]}, ""),
        ("GET", "/repos/o/r/collaboratorz", {}, None, "no such operation"),
    ],
)
def test_what_the_description_does_not_know_is_found(
    method: str, path: str, query: dict[str, str], body: Any, fault: str
) -> None:
    told = fault_of(method, path, query, body)
    assert fault in told
    assert bool(told) is bool(fault)
