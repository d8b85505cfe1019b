"""What is sent to GitLab is held against its published routes; every served one checks it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ci.gitlab.gitlab_api import GITLAB

AT = "/projects/team%2Fapp"


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "fault"),
    [
        ("GET", f"{AT}/pipelines", {"sha": "a", "per_page": "100"}, None, ""),
        ("GET", f"{AT}/pipelines", {"limit": "50"}, None, "unknown parameter limit"),
        ("PUT", f"{AT}/merge_requests/3/merge", {}, {"sha": "a", "squash": True}, ""),
        ("PUT", f"{AT}/merge_requests/3/merge", {}, {"Do": "merge"}, "unknown field Do"),
        ("POST", f"{AT}/merge_requests/3/merge", {}, {}, "no such route"),
        ("GET", "/projects/team/app/pipelines", {}, None, "no such route"),
    ],
)
def test_what_the_routes_do_not_know_is_found(
    method: str, path: str, query: dict[str, str], body: Any, fault: str
) -> None:
    told = GITLAB.fault_of(method, path, query, body)
    assert fault in told
    assert bool(told) is bool(fault)
