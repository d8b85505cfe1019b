"""What is sent to Gitea is held against its published routes; every served one checks it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ci.gitea.gitea_api import GITEA

AT = "/repos/o/n"


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "fault"),
    [
        ("GET", f"{AT}/pulls", {"state": "open", "limit": "50"}, None, ""),
        ("GET", f"{AT}/pulls", {"per_page": "50"}, None, "unknown parameter per_page"),
        ("GET", f"{AT}/issues/3/comments", {"limit": "50"}, None, "unknown parameter limit"),
        ("POST", f"{AT}/pulls/3/merge", {}, {"Do": "merge", "head_commit_id": "a"}, ""),
        ("POST", f"{AT}/pulls/3/merge", {}, {"sha": "a"}, "unknown field sha"),
        ("PUT", f"{AT}/pulls/3/merge", {}, {}, "no such route"),
        ("GET", f"{AT}/branches/agent%2Fa", {}, None, ""),
    ],
)
def test_what_the_routes_do_not_know_is_found(
    method: str, path: str, query: dict[str, str], body: Any, fault: str
) -> None:
    told = GITEA.fault_of(method, path, query, body)
    assert fault in told
    assert bool(told) is bool(fault)
