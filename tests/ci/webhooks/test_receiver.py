"""What comes in by webhooks: nothing unsigned gets in, nothing signed gets lost."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
from typing import TYPE_CHECKING

import pytest

from ci.webhook_delivery import DeliveryState
from ci.webhooks.receiver import MAX_BODY, Receipt, Receiver
from lifecycle.clock import SteppedClock
from tests.ci.webhooks.inboxes import (
    SECRET,
    SHA,
    check,
    check_run,
    github,
    inbox,
    signature,
    simple,
    standard,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.webhook_delivery import Deliveries

SIGNED = json.dumps(check_run(run=2)).encode()
PROVIDERS = ("github", "gitlab", "gitea", "generic")


class Gate:
    """A receiver with its inbox, and how often it woke somebody."""

    def __init__(self, deliveries: Deliveries, *secrets: str) -> None:
        self.deliveries = deliveries
        self.secrets = secrets
        self.clock = SteppedClock()
        self.woken = 0
        self.receiver = Receiver(
            deliveries,
            secrets=dict.fromkeys(PROVIDERS, lambda: self.secrets),
            now=self.clock.now,
            wake=self._wake,
        )

    def _wake(self) -> None:
        self.woken += 1

    async def take(
        self, request: tuple[dict[str, str], bytes], provider: str = "github"
    ) -> Receipt:
        return await self.receiver.take(provider, *request)

    async def kept(self) -> int:
        return len(await self.deliveries.list())


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    async with inbox(tmp_path) as deliveries:
        yield Gate(deliveries, SECRET)


async def test_a_signed_delivery_is_kept_before_it_is_answered(gate: Gate) -> None:
    headers, raw = github(check_run(), delivery="guid-1")
    receipt = await gate.take((headers, raw))
    assert receipt == Receipt(202, "kept", "github:guid-1", fresh=True)
    kept = await gate.deliveries.get("github:guid-1")
    assert kept is not None
    assert kept.body == raw
    assert (kept.event, kept.provider) == ("check_run.completed", "github")
    assert (kept.state, kept.received_at) == (DeliveryState.RECEIVED, gate.clock.now())
    assert gate.woken == 1


async def test_no_signature_token_or_cookie_is_kept(gate: Gate) -> None:
    headers, raw = github(check_run(), delivery="guid-1")
    private = {"Authorization": "Basic abc", "Cookie": "sid=abc", "X-Gitlab-Token": "abc"}
    await gate.take(({**headers, **private}, raw))
    kept = await gate.deliveries.get("github:guid-1")
    assert kept is not None
    assert set(kept.headers) == {
        "content-type", "user-agent", "x-github-event", "x-github-delivery"
    }  # fmt: skip


async def test_an_unknown_provider_is_not_there(gate: Gate) -> None:
    assert (await gate.take(github(check_run()), "bitbucket")).status == 404
    assert (await gate.take(github(check_run()), "../github")).status == 404
    assert await gate.kept() == 0


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256="},
        {"X-Hub-Signature-256": "sha256=" + "0" * 64},
        {"X-Hub-Signature-256": signature(SIGNED).removeprefix("sha256=")},
        {"X-Hub-Signature-256": signature(SIGNED)[:-1]},
        {"X-Hub-Signature-256": signature(SIGNED) + "0"},
        {"X-Hub-Signature-256": signature(SIGNED, "another")},
        {"X-Hub-Signature-256": signature(SIGNED, "")},
        {"X-Hub-Signature-256": "sha256=\udcff"},
        {"X-Hub-Signature-256": signature(b"another body")},
    ],
)
async def test_a_wrong_signature_is_refused_and_nothing_is_kept(
    gate: Gate, header: dict[str, str]
) -> None:
    headers, raw = github(check_run())
    assert (await gate.take((headers, raw))).status == 202
    headers, _ = github(check_run(run=2))
    del headers["X-Hub-Signature-256"]
    receipt = await gate.take(({**headers, **header}, SIGNED))
    assert receipt.status == 401
    assert SECRET not in receipt.text + receipt.reason
    assert await gate.kept() == 1
    assert gate.woken == 1


async def test_a_sha_1_signature_is_refused_though_it_is_right(gate: Gate) -> None:
    headers, raw = github(check_run())
    del headers["X-Hub-Signature-256"]
    old = hmac.new(SECRET.encode(), raw, hashlib.sha1).hexdigest()
    assert (await gate.take(({**headers, "X-Hub-Signature": f"sha1={old}"}, raw))).status == 401
    assert (await gate.take(({**headers, "X-Hub-Signature-256": f"sha1={old}"}, raw))).status == 401


async def test_one_byte_more_than_was_signed_is_refused(gate: Gate) -> None:
    headers, raw = github(check_run())
    assert (await gate.take((headers, raw + b" "))).status == 401


async def test_both_secrets_are_good_during_a_rotation(gate: Gate) -> None:
    fresh = SECRET[::-1]
    old, new = github(check_run(run=1)), github(check_run(run=2), secret=fresh)
    assert (await gate.take(new)).status == 401
    gate.secrets = (fresh, SECRET)
    assert [(await gate.take(each)).status for each in (old, new)] == [202, 202]
    gate.secrets = (fresh,)
    assert (await gate.take(github(check_run(run=3)))).status == 401


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_without_a_secret_everything_is_refused_and_only_the_log_says_why(
    gate: Gate, provider: str
) -> None:
    gate.secrets = ()
    receipt = await gate.take(simple(check()), provider)
    assert receipt.status == 401
    assert f"LOOPWRIGHT_{provider.upper()}_HOOK_SECRET" in receipt.reason
    assert "LOOPWRIGHT" not in receipt.text


@pytest.mark.parametrize("secret", ["", "  "])
async def test_an_empty_secret_lets_nobody_in(gate: Gate, secret: str) -> None:
    forged = [
        (*github(check_run(), secret=secret), "github"),
        (*simple(check(), secret=secret), "generic"),
        # To HMAC an empty key and one of zero bytes are the same.
        (*standard(check(), at=gate.clock.now(), signed_with=b"\0"), "generic"),
    ]
    gate.secrets = (secret,)
    for headers, raw, provider in forged:
        assert (await gate.take((headers, raw), provider)).status == 401


async def test_a_secret_with_nothing_after_its_prefix_lets_nobody_in(gate: Gate) -> None:
    gate.secrets = ("whsec_",)
    request = standard(check(), at=gate.clock.now(), signed_with=b"\0")
    assert (await gate.take(request, "generic")).status == 401


async def test_a_delivery_that_comes_100_times_is_one(gate: Gate) -> None:
    request = github(check_run(), delivery="guid-1")
    receptions = [await gate.take(request) for _ in range(100)]
    assert {receipt.status for receipt in receptions} == {202}
    assert [receipt.fresh for receipt in receptions] == [True] + [False] * 99
    assert await gate.kept() == 1
    assert gate.woken == 1


async def test_without_an_id_the_same_body_is_the_same_delivery(gate: Gate) -> None:
    first = await gate.take(simple(check()), "generic")
    again = await gate.take(simple(check()), "generic")
    other = await gate.take(simple(check("failed")), "generic")
    assert (
        first.key == again.key == f"generic:sha256-{hashlib.sha256(simple(check())[1]).hexdigest()}"
    )
    assert (first.fresh, again.fresh, other.fresh) == (True, False, True)


@pytest.mark.parametrize("identity", ["x" * 1000, "a\nb", "caf\xe9", "\udcff"])
async def test_an_odd_id_is_not_used(gate: Gate, identity: str) -> None:
    headers, raw = github(check_run())
    receipt = await gate.take(({**headers, "X-GitHub-Delivery": identity}, raw))
    assert receipt.status == 202
    assert receipt.key == f"github:sha256-{hashlib.sha256(raw).hexdigest()}"


async def test_an_id_that_is_not_signed_is_no_id(gate: Gate) -> None:
    headers, raw = simple(check())
    first = await gate.take(({**headers, "webhook-id": "a"}, raw), "generic")
    second = await gate.take(({**headers, "webhook-id": "b"}, raw), "generic")
    assert (first.fresh, second.fresh) == (True, False)


async def test_a_body_of_100_mb_is_refused_before_anything_else(gate: Gate) -> None:
    raw = b" " * (100 * 2**20)
    headers = {"X-Hub-Signature-256": "sha256=" + "0" * 64}
    # With a wrong signature the answer is 401, had it been looked at.
    receipt = await gate.take((headers, raw))
    assert receipt.status == 413
    assert str(MAX_BODY) in receipt.text


async def test_the_largest_body_is_taken(gate: Gate) -> None:
    body = {**check_run(), "padding": ""}
    room = MAX_BODY - len(json.dumps(body))
    headers, raw = github({**body, "padding": "x" * room})
    assert len(raw) == MAX_BODY
    assert (await gate.take((headers, raw))).status == 202


async def test_a_gzip_bomb_is_not_inflated(gate: Gate) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    headers = {"Content-Encoding": "gzip", "X-Hub-Signature-256": signature(bomb)}
    headers = {**github(check_run())[0], **headers}
    assert (await gate.take((headers, bomb))).status == 400
    # Also when it does not say what it is.
    del headers["Content-Encoding"]
    receipt = await gate.take((headers, bomb))
    assert receipt.status == 202
    kept = await gate.deliveries.get(receipt.key)
    assert kept is not None
    assert kept.state is DeliveryState.BROKEN


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not json",
        b"[1, 2]",
        b'"text"',
        b"null",
        b"\xff\xfe\x00",
        b'{"a": ' + b"9" * 10_000 + b"}",
        b"[" * 200_000,
        b'{"a":' * 200_000,
    ],
)
async def test_what_is_signed_and_no_json_object_is_kept_as_broken(gate: Gate, raw: bytes) -> None:
    headers = {**github({})[0], "X-Hub-Signature-256": signature(raw)}
    receipt = await gate.take((headers, raw))
    assert (receipt.status, receipt.fresh) == (202, True)
    kept = await gate.deliveries.get(receipt.key)
    assert kept is not None
    assert (kept.state, kept.body) == (DeliveryState.BROKEN, raw)
    assert "not a JSON object" in kept.outcome


async def test_text_that_is_no_unicode_is_kept_all_the_same(gate: Gate) -> None:
    raw = b'{"action": "\\ud800\\u0000", "check_run": {"head_sha": "\\udfff"}}'
    headers = {**github({})[0], "X-Hub-Signature-256": signature(raw)}
    assert (await gate.take((headers, raw))).status == 202


async def test_an_event_that_is_new_to_us_is_kept(gate: Gate) -> None:
    headers, raw = github({"action": "sung", "opera": {"acts": [None, 3.5]}}, "opera")
    receipt = await gate.take((headers, raw))
    kept = await gate.deliveries.get(receipt.key)
    assert kept is not None
    assert (kept.state, kept.event) == (DeliveryState.RECEIVED, "opera.sung")


async def test_what_cannot_be_kept_is_not_accepted(tmp_path: Path) -> None:
    request = github(check_run(), delivery="guid-1")
    async with inbox(tmp_path) as deliveries:
        gate = Gate(deliveries, SECRET)
    receipt = await gate.take(request)
    assert (receipt.status, receipt.fresh, gate.woken) == (503, False, 0)
    assert "guid-1" in receipt.reason
    async with inbox(tmp_path) as deliveries:
        assert await deliveries.list() == ()
        assert (await Gate(deliveries, SECRET).take(request)).fresh


async def test_standard_webhooks_are_taken_once_and_in_time(gate: Gate) -> None:
    now = gate.clock.now()
    first = await gate.take(standard(check(), at=now - 299, key="msg_1"), "generic")
    assert (first.status, first.key) == (202, "generic:msg_1")
    again = await gate.take(standard(check(), at=now + 299, key="msg_1"), "generic")
    assert (again.status, again.fresh) == (202, False)
    for late in (now - 301, now + 301):
        assert (await gate.take(standard(check(), at=late, key="msg_2"), "generic")).status == 401


async def test_a_standard_webhook_is_signed_with_its_id_and_time(gate: Gate) -> None:
    headers, raw = standard(check(), at=gate.clock.now())
    for change in (
        {"webhook-id": "msg_2"},
        {"webhook-timestamp": str(int(gate.clock.now()) + 1)},
        {"webhook-timestamp": "9" * 5000},
        {"webhook-timestamp": "1e9"},
        {"webhook-signature": headers["webhook-signature"].replace("v1,", "v1a,")},
        {"webhook-signature": ""},
    ):
        assert (await gate.take(({**headers, **change}, raw), "generic")).status == 401
    # One that signs badly is not saved by a second, weaker way.
    both = {**headers, "webhook-signature": "v1,AAAA", "X-Loopwright-Signature": signature(raw)}
    assert (await gate.take((both, raw), "generic")).status == 401
    several = {**headers, "webhook-signature": f"v1a,x v1,AAAA {headers['webhook-signature']}"}
    assert (await gate.take((several, raw), "generic")).status == 202


async def test_a_standard_secret_is_the_base64_after_its_prefix(gate: Gate) -> None:
    gate.secrets = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",)
    raw = b'{"test": 2432232314}'
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    gate.clock.advance(1614265330.0 - gate.clock.now())
    assert (await gate.take((headers, raw), "generic")).status == 202


async def test_an_ignored_event_tells_strangers_nothing(gate: Gate) -> None:
    wrong = await gate.take(({}, b"{}"), "github")
    gate.secrets = ()
    unset = await gate.take(({}, b"{}"), "github")
    assert (wrong.status, wrong.text) == (unset.status, unset.text)
    assert SHA not in wrong.text
