"""How a check may be worded in a generic hook, and what of it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ci.events import EXCERPT_LIMIT, CheckState
from ci.generic import webhooks
from ci.generic.webhooks import check_of
from tests.ci.webhooks.inboxes import BEGIN, BRANCH, SHA, check


def test_the_documented_body_is_understood() -> None:
    told = check_of(
        {
            "event": "check",
            "sha": SHA.upper(),
            "branch": f"refs/heads/{BRANCH}",
            "name": "jenkins/unit",
            "status": "failed",
            "summary": "2 of 40 failed",
            "log": "expected 3\ngot 4",
            "url": "https://ci.example.org/job/7",
            "at": "2027-01-15T08:00:00Z",
            "number": 7,
            "colour": "mauve",
        }
    )
    assert (told.sha, told.branch, told.name) == (SHA, BRANCH, "jenkins/unit")
    assert (told.state, told.status, told.number) == (CheckState.FAILED, "failed", 7)
    assert (told.summary, told.log) == ("2 of 40 failed", "expected 3\ngot 4")
    assert (told.url, told.at) == ("https://ci.example.org/job/7", BEGIN)


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("passed SUCCESS Successful ok skipped", CheckState.PASSED),
        ("failed FAILURE error UNSTABLE ABORTED cancelled canceled timed-out", CheckState.FAILED),
        ("pending queued RUNNING in_progress scheduled", CheckState.PENDING),
    ],
)
def test_the_words_of_many_systems_are_known(words: str, state: CheckState) -> None:
    assert {check_of(check(word)).state for word in words.split()} == {state}


@pytest.mark.parametrize(
    "at",
    [BEGIN, int(BEGIN), str(BEGIN), BEGIN * 1000, "2027-01-15T09:00:00+01:00", "2027-01-15 08:00"],
)
def test_a_time_may_be_written_in_several_ways(at: object) -> None:
    assert check_of(check(at=at)).at == BEGIN


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha": None}, "sha"),
        ({"sha": SHA[:12]}, "full hash"),
        ({"sha": SHA + "\n; rm -rf /"}, "full hash"),
        ({"sha": {"a": 1}}, "full hash"),
        ({"status": "sideways"}, "use passed, failed or pending"),
        ({"status": None}, "use passed, failed or pending"),
        ({"at": "yesterday"}, "RFC 3339"),
        ({"at": -1}, "not a valid time"),
        ({"at": float("nan")}, "not a valid time"),
        ({"at": 10**400}, "not a valid time"),
        ({"at": [1]}, "at"),
        ({"number": -1}, "`number`"),
        ({"number": "seven"}, "`number`"),
        ({"name": "\u200b \n"}, "needs a name"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as fault:
        check_of({**check(), **change})
    assert len(str(fault.value)) < 500


def test_a_report_without_a_status_says_so() -> None:
    body = check()
    del body["status"]
    with pytest.raises(ValueError, match="status"):
        check_of(body)


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc/passwd", "https://a b", "https://x/" + "y" * 3000]
)
def test_an_address_that_is_no_web_page_is_left_out(url: str) -> None:
    assert check_of(check(url=url)).url == ""


def test_text_from_outside_is_cleaned_and_capped() -> None:
    told = check_of(
        check(
            name="a\x1b[31m\nb", summary="x" * 100_000, log="\x1b[2J" + "line\n" * 100_000 + "end"
        )
    )
    assert told.name == "a b"
    assert len(told.summary) <= 300
    assert len(told.log.encode()) <= EXCERPT_LIMIT
    assert told.log.endswith("line\nend")


def test_a_finished_pipeline_run_of_cdevents_is_a_check() -> None:
    body = {
        "context": {
            "version": "0.4.1",
            "id": "271069a8",
            "source": "/jenkins",
            "type": "dev.cdevents.pipelinerun.finished.0.2.0",
            "timestamp": "2027-01-15T08:00:00Z",
        },
        "subject": {
            "id": "run-7",
            "content": {
                "pipelineName": "unit",
                "outcome": "failure",
                "errors": "2 tests failed",
                "url": "https://ci.example.org/7",
            },
        },
        "customData": {"sha": SHA, "branch": BRANCH},
    }
    told = check_of(body)
    assert (told.name, told.state, told.sha, told.at) == ("unit", CheckState.FAILED, SHA, BEGIN)
    hint = webhooks.hint({}, body)
    assert hint is not None
    assert (hint.sha, hint.branch) == (SHA, BRANCH)
    started = {**body, "context": {**body["context"], "type": "dev.cdevents.taskrun.started.0.2.0"}}  # type: ignore[dict-item]  # it is one
    assert check_of(started).state is CheckState.PENDING
    other = {"context": {"type": "dev.cdevents.artifact.published.0.2.0"}}
    assert webhooks.hint({}, other) is None


def test_what_is_no_check_is_of_no_interest() -> None:
    assert webhooks.hint({}, {"event": "ping"}) is None
    assert webhooks.hint({}, {"event": {"a": 1}}) is None
    hint = webhooks.hint({}, {"sha": SHA, "status": "passed"})
    assert hint is not None
    assert hint.event == "check"
