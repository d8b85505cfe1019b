"""How GitLab's deliveries are checked, named and read, the odd ones too."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.gitlab import webhooks
from tests.ci.webhooks.odd_bodies import mutated

SHA = "a" * 40
PROJECT = {"id": 5, "path_with_namespace": "team/tools/loops"}
PIPELINE: dict[str, Any] = {
    "object_kind": "pipeline",
    "object_attributes": {"id": 31, "ref": "agent/a", "tag": False, "sha": SHA, "status": "failed"},
    "merge_request": None,
    "project": PROJECT,
}
JOB: dict[str, Any] = {
    "object_kind": "build", "ref": "agent/a", "tag": False, "sha": SHA, "build_status": "success",
    "project": PROJECT,
}  # fmt: skip
MERGE: dict[str, Any] = {
    "object_kind": "merge_request",
    "project": PROJECT,
    "object_attributes": {
        "iid": 4, "source_branch": "agent/a", "target_branch": "main", "state": "opened",
        "action": "update", "last_commit": {"id": SHA},
    },
}  # fmt: skip
NOTE: dict[str, Any] = {
    "object_kind": "note",
    "project": PROJECT,
    "object_attributes": {"id": 9, "noteable_type": "MergeRequest", "action": "create"},
    "merge_request": {"iid": 4, "source_branch": "agent/a", "last_commit": {"id": SHA}},
}
PUSH: dict[str, Any] = {
    "object_kind": "push", "ref": "refs/heads/agent/a", "before": "0" * 40, "after": SHA,
    "project": PROJECT,
}  # fmt: skip
SAMPLES = [PIPELINE, JOB, MERGE, NOTE, PUSH]
KEY = b"a key of a hook"
SIGNING = "whsec_" + base64.b64encode(KEY).decode()


def signature(raw: bytes, key: bytes = KEY, name: str = "msg-1", when: str = "1700000000") -> str:
    digest = hmac.digest(key, f"{name}.{when}.".encode() + raw, hashlib.sha256)
    return "v1," + base64.b64encode(digest).decode()


def headers(raw: bytes, **changed: str) -> dict[str, str]:
    given_ = {
        "webhook-id": "msg-1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": signature(raw),
    }
    return {**given_, **{name.replace("_", "-"): value for name, value in changed.items()}}


@pytest.mark.parametrize(
    ("shown", "secrets", "right"),
    [
        ("old", ["new", "old"], True),
        ("new", ["new", "old"], True),
        ("new ", ["new"], False),
        ("other", ["new", "old"], False),
        ("", ["new"], False),
        ("", [""], False),
        ("x", [], False),
        ("gehe\u00efm", ["gehe\u00efm"], True),
        ("\udcff", ["new"], False),
    ],
)
def test_a_token_must_be_one_of_the_secrets(shown: str, secrets: list[str], right: object) -> None:
    assert webhooks.signed({"X-Gitlab-Token": shown}, b"{}", secrets) is right


def test_without_token_and_signature_nothing_is_signed() -> None:
    assert not webhooks.signed({}, b"{}", ["s"])


def test_a_signature_is_right_for_its_bytes_its_id_its_time_and_one_of_the_keys() -> None:
    raw = b'{"a": 1}'
    other = "whsec_" + base64.b64encode(b"other").decode()
    assert webhooks.signed(headers(raw), raw, [other, SIGNING])
    assert not webhooks.signed(headers(raw), raw + b" ", [SIGNING])
    assert not webhooks.signed(headers(raw, webhook_id="msg-2"), raw, [SIGNING])
    assert not webhooks.signed(headers(raw, webhook_timestamp="1700000001"), raw, [SIGNING])
    assert not webhooks.signed(headers(raw), raw, [other])
    assert not webhooks.signed(headers(raw, webhook_id=""), raw, [SIGNING])
    rotating = f"v1,AAAA {signature(raw)}"
    assert webhooks.signed(headers(raw, webhook_signature=rotating), raw, [SIGNING])


@pytest.mark.parametrize("odd", ["", "v1,", "v2,abc", "v1", "v1,\udcff", "nonsense", "v1a,AAAA"])
def test_an_odd_signature_is_a_wrong_one(odd: str) -> None:
    assert not webhooks.signed(headers(b"{}", webhook_signature=odd), b"{}", [SIGNING])


def test_a_stolen_token_does_not_help_a_wrong_signature() -> None:
    alone = {"x-gitlab-token": "s"}
    assert webhooks.signed(alone, b"{}", ["s"]), "this is what is stolen"
    both = {**alone, **headers(b"{}", webhook_signature="v1,AAAA")}
    assert not webhooks.signed(both, b"{}", ["s", SIGNING])


@pytest.mark.parametrize("secret", ["plain", "whsec_", "whsec_%%%", "whsec_\u00e9", "whsec_A"])
def test_what_is_no_signing_token_is_no_key(secret: str) -> None:
    raw = b"{}"
    for key in (b"", secret.encode()):
        told = headers(raw, webhook_signature=signature(raw, key))
        assert not webhooks.signed(told, raw, [secret])


def test_the_identity_is_the_signed_one_first() -> None:
    everything = {
        "Webhook-Id": "w", "Idempotency-Key": "i", "X-Gitlab-Event-UUID": "u",
    }  # fmt: skip
    assert webhooks.identity(everything, b"") == "w"
    del everything["Webhook-Id"]
    assert webhooks.identity(everything, b"") == "i"
    assert webhooks.identity({}, b"{}") == ""


def test_hooks_set_off_by_hooks_share_a_uuid_and_are_told_apart() -> None:
    shared = {"X-Gitlab-Event-UUID": "u"}
    first, second = webhooks.identity(shared, b"1"), webhooks.identity(shared, b"2")
    assert first != second
    assert first == webhooks.identity(shared, b"1")
    assert first.startswith("u-")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (PIPELINE, "pipeline.failed"),
        (JOB, "build.success"),
        (MERGE, "merge_request.update"),
        (NOTE, "note.create"),
        (PUSH, "push"),
        ({}, "merge_request"),
    ],
)
def test_an_event_is_named_by_what_was_done(body: dict[str, Any], name: str) -> None:
    assert webhooks.event({"X-Gitlab-Event": "Merge Request Hook"}, body) == name


@pytest.mark.parametrize(
    ("body", "branch", "numbers"),
    [
        (PIPELINE, "agent/a", ()),
        ({**PIPELINE, "merge_request": {"iid": 4}}, "agent/a", (4,)),
        (JOB, "agent/a", ()),
        ({**JOB, "object_kind": "job"}, "agent/a", ()),
        ({**JOB, "ref": "refs/merge-requests/4/merge"}, "", (4,)),
        ({**JOB, "ref": "refs/merge-requests/4/train"}, "", (4,)),
        ({**JOB, "ref": "refs/merge-requests/x/head"}, "", ()),
        (MERGE, "agent/a", (4,)),
        (NOTE, "agent/a", (4,)),
        (PUSH, "agent/a", ()),
    ],
)
def test_a_hint_says_where_to_ask(
    body: dict[str, Any], branch: str, numbers: tuple[int, ...]
) -> None:
    hint = webhooks.hint({}, body)
    assert hint is not None
    assert (hint.repo, hint.branch, hint.sha, hint.numbers) == (
        "team/tools/loops", branch, SHA, numbers,
    )  # fmt: skip
    assert hint.event == webhooks.event({}, body)


def test_the_pipeline_of_a_merged_result_is_about_the_head() -> None:
    merged = {**PIPELINE, "merge_request": {"iid": 4, "last_commit": {"id": "b" * 40}}}
    hint = webhooks.hint({}, merged)
    assert hint is not None
    assert hint.sha == "b" * 40


def test_a_deleted_branch_is_a_hint_without_a_commit() -> None:
    hint = webhooks.hint({}, {**PUSH, "after": "0" * 40})
    assert hint is not None
    assert (hint.branch, hint.sha) == ("agent/a", "")


def test_a_tag_is_no_branch() -> None:
    tagged = {**PIPELINE, "object_attributes": {**PIPELINE["object_attributes"], "tag": True}}
    hint = webhooks.hint({}, tagged)
    assert hint is not None
    assert (hint.branch, hint.sha) == ("", SHA)
    assert webhooks.hint({}, {**JOB, "tag": True, "sha": ""}) is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"object_kind": "issue", "object_attributes": {"iid": 4}},
        {"object_kind": "wiki_page"},
        {"object_kind": "event_of_tomorrow", "sha": SHA},
        {"object_kind": "note", "object_attributes": {"noteable_type": "Issue"}},
        {"object_kind": "push"},
        {"object_kind": "pipeline", "object_attributes": []},
        {"object_kind": ["push"]},
    ],
)
def test_what_tells_us_nothing_is_no_hint(body: dict[str, Any]) -> None:
    assert webhooks.hint({"X-Gitlab-Event": ""}, body) is None


@given(
    mutated(SAMPLES), st.dictionaries(st.sampled_from(["X-Gitlab-Event", "x"]), st.text(max_size=9))
)
def test_nothing_in_a_delivery_makes_it_raise(body: dict[str, Any], given_: dict[str, str]) -> None:
    hint = webhooks.hint(given_, body)
    assert isinstance(webhooks.event(given_, body), str)
    assert hint is None or hint.branch or hint.sha or hint.numbers


@given(
    st.dictionaries(
        st.sampled_from(
            ["webhook-id", "webhook-timestamp", "webhook-signature", "x-gitlab-token",
             "idempotency-key", "x-gitlab-event-uuid"]
        ),
        st.text(max_size=12) | st.just("v1,AAAA"),
    ),
    st.binary(max_size=20),
    st.lists(st.text(max_size=9) | st.just(SIGNING), max_size=3),
)  # fmt: skip
def test_no_header_makes_checking_raise(
    given_: dict[str, str], raw: bytes, secrets: list[str]
) -> None:
    assert isinstance(webhooks.signed(given_, raw, secrets), bool)
    assert isinstance(webhooks.identity(given_, raw), str)
