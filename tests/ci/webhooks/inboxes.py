"""A real inbox, and senders that sign: for what comes by webhooks."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any

from lifecycle.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.webhook_delivery import Deliveries

SHA = "c0ffee" * 6 + "c0de"
OTHER = "0ddba11" * 5 + "00000"
SECRET = "it's a secret"  # noqa: S105  # of these tests
BRANCH = "agent/T1"
REPO = "acme/widgets"
BEGIN = 1_800_000_000.0


@contextlib.asynccontextmanager
async def inbox(folder: Path) -> AsyncIterator[Deliveries]:
    async with await SqliteStore.open(folder / "state.db") as store:
        yield store.deliveries


def signature(raw: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()


def github(
    body: dict[str, Any], event: str = "check_run", *, delivery: str = "", secret: str = SECRET
) -> tuple[dict[str, str], bytes]:
    raw = json.dumps(body).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/1",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery or hashlib.sha256(raw).hexdigest(),
        "X-Hub-Signature-256": signature(raw, secret),
    }
    return headers, raw


def check_run(
    sha: str = SHA, *, repo: str = REPO, branch: str = BRANCH, run: int = 1
) -> dict[str, Any]:
    return {
        "action": "completed",
        "check_run": {"id": run, "head_sha": sha, "check_suite": {"head_branch": branch}},
        "repository": {"full_name": repo},
    }


def simple(body: object, secret: str = SECRET) -> tuple[dict[str, str], bytes]:
    raw = json.dumps(body).encode()
    return {"X-Loopwright-Signature": signature(raw, secret)}, raw


def standard(
    body: object, *, at: float, key: str = "msg_1", secret: str = SECRET, signed_with: bytes = b""
) -> tuple[dict[str, str], bytes]:
    raw = json.dumps(body).encode()
    told = f"{key}.{int(at)}.".encode() + raw
    mac = base64.b64encode(hmac.digest(signed_with or secret.encode(), told, "sha256")).decode()
    headers = {
        "webhook-id": key,
        "webhook-timestamp": str(int(at)),
        "webhook-signature": f"v1,{mac}",
    }
    return headers, raw


def check(status: str = "passed", sha: str = SHA, **more: object) -> dict[str, Any]:
    told = {"event": "check", "sha": sha, "branch": BRANCH, "name": "unit", "status": status}
    return {**told, "at": BEGIN, **more}
