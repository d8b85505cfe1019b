"""How deliveries of Gitea and Forgejo are checked, named and read, the odd ones too."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.gitea import webhooks
from tests.ci.webhooks.odd_bodies import mutated

SHA = "a" * 40
REPO = {"id": 5, "full_name": "team/loops"}
PULL: dict[str, Any] = {
    "action": "synchronized",
    "number": 4,
    "pull_request": {"number": 4, "head": {"ref": "agent/a", "label": "agent/a", "sha": SHA}},
    "repository": REPO,
}
COMMENT: dict[str, Any] = {
    "action": "created", "issue": {"number": 4}, "is_pull": True, "comment": {"body": "Hm."},
    "repository": REPO,
}  # fmt: skip
PUSH: dict[str, Any] = {"ref": "refs/heads/agent/a", "after": SHA, "repository": REPO}
STATUS: dict[str, Any] = {"sha": SHA, "state": "failure", "context": "x", "repository": REPO}
RUN: dict[str, Any] = {
    "action": "completed",
    "workflow_run": {"id": 7, "head_branch": "agent/a", "head_sha": SHA},
    "repository": REPO,
}
JOB = {"action": "completed", "workflow_job": RUN["workflow_run"], "repository": REPO}
SAMPLES = [PULL, COMMENT, PUSH, STATUS, RUN, JOB]
NAMES = ["pull_request_sync", "issue_comment", "push", "status", "workflow_run", "workflow_job"]


def sign(raw: bytes, secret: str = "s", how: str = "sha256") -> str:  # noqa: S107  # a test's
    return hmac.new(secret.encode(), raw, how).hexdigest()


@pytest.mark.parametrize("name", ["X-Gitea-Signature", "X-Forgejo-Signature", "x-gitea-signature"])
def test_a_signature_is_right_for_its_bytes_and_one_of_the_secrets(name: str) -> None:
    raw = b'{"a": 1}'
    told = {name: sign(raw)}
    assert webhooks.signed(told, raw, ["other", "s"])
    assert webhooks.signed(told, raw, ["s", "other"])
    assert webhooks.signed({name: sign(raw).upper()}, raw, ["s"])
    assert not webhooks.signed(told, raw + b" ", ["s"])
    assert not webhooks.signed(told, raw, ["other"])
    assert not webhooks.signed(told, raw, [])


def test_the_form_of_github_is_read_where_there_is_no_other() -> None:
    raw = b"{}"
    assert webhooks.signed({"X-Hub-Signature-256": f"sha256={sign(raw)}"}, raw, ["s"])
    wrong_own = {"X-Gitea-Signature": "0" * 64, "X-Hub-Signature-256": f"sha256={sign(raw)}"}
    assert not webhooks.signed(wrong_own, raw, ["s"])


def test_a_secret_that_is_empty_signs_nothing() -> None:
    raw = b"{}"
    forged = hmac.new(b"", raw, hashlib.sha256).hexdigest()
    assert not webhooks.signed({"X-Gitea-Signature": forged}, raw, [""])


@pytest.mark.parametrize("odd", ["", "sha256=", "nonsense", "\udcff", "sha1=" + "0" * 40])
def test_an_odd_signature_is_a_wrong_one(odd: str) -> None:
    assert not webhooks.signed({"X-Gitea-Signature": odd}, b"{}", ["s"])


def test_sha_1_is_refused() -> None:
    raw = b"{}"
    weak = sign(raw, how="sha1")
    for name in ("X-Hub-Signature", "X-Gitea-Signature", "X-Hub-Signature-256"):
        assert not webhooks.signed({name: f"sha1={weak}"}, raw, ["s"])
        assert not webhooks.signed({name: weak}, raw, ["s"])


def test_the_identity_is_the_delivery() -> None:
    assert webhooks.identity({"X-Gitea-Delivery": "g"}, b"") == "g"
    assert webhooks.identity({"X-Forgejo-Delivery": "f", "X-Gitea-Delivery": "g"}, b"") == "f"
    assert webhooks.identity({"X-GitHub-Delivery": "h"}, b"") == "h"
    assert webhooks.identity({}, b"{}") == ""


@pytest.mark.parametrize(
    ("told", "body", "name"),
    [
        ({"X-Gitea-Event": "pull_request", "X-Gitea-Event-Type": "pull_request_sync"}, PULL,
         "pull_request_sync.synchronized"),
        ({"X-Forgejo-Event": "push"}, PUSH, "push"),
        ({"X-Gitea-Event": "status"}, STATUS, "status.failure"),
        ({}, PULL, ""),
    ],
)  # fmt: skip
def test_an_event_is_named_by_its_type_and_what_was_done(
    told: dict[str, str], body: dict[str, Any], name: str
) -> None:
    assert webhooks.event(told, body) == name


@pytest.mark.parametrize(
    ("kind", "body", "branch", "sha", "numbers"),
    [
        ("pull_request", PULL, "agent/a", SHA, (4,)),
        ("pull_request_sync", PULL, "agent/a", SHA, (4,)),
        ("pull_request_label", PULL, "agent/a", SHA, (4,)),
        ("pull_request_review_rejected", PULL, "agent/a", SHA, (4,)),
        ("pull_request_review_approved", PULL, "agent/a", SHA, (4,)),
        ("pull_request_review_comment", PULL, "agent/a", SHA, (4,)),
        ("pull_request_comment", COMMENT, "", "", (4,)),
        ("pull_request_comment", {**COMMENT, **PULL}, "agent/a", SHA, (4,)),
        ("issue_comment", COMMENT, "", "", (4,)),
        ("push", PUSH, "agent/a", SHA, ()),
        ("push", {**PUSH, "after": "0" * 40}, "agent/a", "", ()),
        ("status", STATUS, "", SHA, ()),
        ("status", {"commit": {"id": SHA}, "repository": REPO}, "", SHA, ()),
        ("workflow_run", RUN, "agent/a", SHA, ()),
        ("workflow_job", JOB, "agent/a", SHA, ()),
    ],
)
def test_a_hint_says_where_to_ask(
    kind: str, body: dict[str, Any], branch: str, sha: str, numbers: tuple[int, ...]
) -> None:
    for name in ("X-Gitea-Event-Type", "X-Forgejo-Event-Type", "X-Gitea-Event"):
        hint = webhooks.hint({name: kind}, body)
        assert hint is not None
        assert (hint.repo, hint.branch, hint.sha, hint.numbers) == (
            "team/loops", branch, sha, numbers,
        )  # fmt: skip
        assert hint.event == webhooks.event({name: kind}, body)


def test_a_branch_that_is_gone_is_read_from_the_label() -> None:
    gone = {"ref": "refs/pull/4/head", "label": "agent/a", "sha": SHA}
    body = {**PULL, "pull_request": {"number": 4, "head": gone}}
    hint = webhooks.hint({"X-Gitea-Event": "pull_request"}, body)
    assert hint is not None
    assert hint.branch == "agent/a"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("", PULL), ("issues", {"issue": {"number": 4}}), ("release", {}), ("push", {}),
        ("issue_comment", {**COMMENT, "is_pull": False}), ("pull_request", {"number": 4}),
        ("push", {**PUSH, "ref": "refs/tags/v1", "after": ""}), ("event_of_tomorrow", PULL),
        ("workflow_run", {"workflow_run": []}), ("status", {"sha": 7}),
    ],
)  # fmt: skip
def test_what_tells_us_nothing_is_no_hint(kind: str, body: dict[str, Any]) -> None:
    assert webhooks.hint({"X-Gitea-Event": kind}, body) is None


@given(mutated(SAMPLES), st.sampled_from([*NAMES, "pull_request", ""]))
def test_nothing_in_a_delivery_makes_it_raise(body: dict[str, Any], kind: str) -> None:
    told = {"X-Gitea-Event": kind}
    hint = webhooks.hint(told, body)
    assert isinstance(webhooks.event(told, body), str)
    assert hint is None or hint.branch or hint.sha or hint.numbers


@given(
    st.dictionaries(
        st.sampled_from(["x-gitea-signature", "x-hub-signature-256", "x-gitea-delivery"]),
        st.text(max_size=12),
    ),
    st.binary(max_size=20),
    st.lists(st.text(max_size=9), max_size=3),
)
def test_no_header_makes_checking_raise(
    told: dict[str, str], raw: bytes, secrets: list[str]
) -> None:
    assert isinstance(webhooks.signed(told, raw, secrets), bool)
    assert isinstance(webhooks.identity(told, raw), str)
