"""What is sent to GitHub is held against its published descriptions, which find what is wrong.

Every request of the tests is checked: those to emulate when its session ends (`emulated`), those
to the small server when its test ends (`conftest`).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.github_api import fault_of
from tests.tools.github_graphql import answer_fault

PULLS = "/repos/o/r/pulls"
ASK = 'query($o: String!, $n: Int!) { repository(owner: $o, name: "r") {'


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


@pytest.mark.parametrize(
    ("query", "variables", "fault"),
    [
        ("query { viewer { login } }", {}, ""),
        ("query { viewer { nickname } }", {}, "Cannot query field 'nickname' on type 'User'"),
        ("query { viewer { login }", {}, "Syntax Error"),
        (f"{ASK} pullRequest(numero: $n) {{ id }} }} }}", {"o": "o", "n": 3}, "argument 'numero'"),
        (f"{ASK} pullRequest(number: $n) {{ id }} }} }}", {"o": "o", "n": 3}, ""),
        (f"{ASK} pullRequest(number: $n) {{ id }} }} }}", {"o": "o", "n": "3"}, "Int cannot"),
        (f"{ASK} pullRequest(number: $n) {{ id }} }} }}", {"o": "o"}, "'$n'"),
        (
            f"{ASK} pullRequest(number: $n) {{ id }} }} }}",
            {"o": "o", "n": 3, "m": 4},
            "unknown variable m",
        ),
    ],
)
def test_what_the_graphql_schema_does_not_know_is_found(
    query: str, variables: dict[str, Any], fault: str
) -> None:
    told = fault_of("POST", "/graphql", {}, {"query": query, "variables": variables})
    assert fault in told
    assert bool(told) is bool(fault)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ({"data": {"viewer": {"login": "wright"}}}, ""),
        ({"data": None, "errors": [{"message": "no"}]}, ""),
        ({"data": {"viewer": None}}, ""),
        ({"data": {"viewer": {"name": "wright"}}}, "data.viewer.name was not asked for"),
        ({"data": {"viewer": {}}}, "data.viewer.login is missing"),
    ],
)
def test_an_answer_of_another_form_than_the_query_is_found(answer: Any, fault: str) -> None:
    told = answer_fault("query { viewer { login } }", answer)
    assert fault in told
    assert bool(told) is bool(fault)
