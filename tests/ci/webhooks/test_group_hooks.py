"""One hook for a whole group or organisation: what is ours is asked about, the rest is quiet."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any

import pytest

from ci.webhook_delivery import IGNORED_KEPT_FOR, DeliveryState
from ci.webhooks.dispatcher import DAY
from ci.webhooks.receiver import Receiver
from tests.ci.contract import until
from tests.ci.webhooks.dispatcher_world import Asked, Desk, watch
from tests.ci.webhooks.inboxes import BRANCH, OTHER, REPO, inbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

OLD, NEW = "the old secret", "the new secret"
Request = tuple[dict[str, str], bytes]


def digest(raw: bytes, secret: str) -> str:
    return hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()


def of_github(repo: str, secret: str) -> Request:
    body = {"ref": f"refs/heads/{BRANCH}", "after": OTHER, "repository": {"full_name": repo}}
    raw = json.dumps(body).encode()
    return {"X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={digest(raw, secret)}"}, raw


def of_gitea(repo: str, secret: str) -> Request:
    _, raw = of_github(repo, secret)
    return {"X-Gitea-Event": "push", "X-Gitea-Signature": digest(raw, secret)}, raw


def of_gitlab(repo: str, secret: str) -> Request:
    project = {"path_with_namespace": repo}
    body = {"object_kind": "push", "ref": f"refs/heads/{BRANCH}", "after": OTHER}
    return _gitlab({**body, "project": project}, "Push Hook", secret)


def of_old_gitlab(repo: str, secret: str) -> Request:
    """Return a job's, which names its project by its repository only."""
    repository = {"name": "x", "git_ssh_url": f"ssh://git@gitlab.test:2222/{repo}.git"}
    body = {"object_kind": "build", "ref": BRANCH, "sha": OTHER, "project_name": "X / Y"}
    return _gitlab({**body, "repository": repository}, "Job Hook", secret)


def _gitlab(body: dict[str, Any], event: str, secret: str) -> Request:
    return {"X-Gitlab-Event": event, "X-Gitlab-Token": secret}, json.dumps(body).encode()


SENDERS = [
    pytest.param("github", of_github, id="github"),
    pytest.param("gitea", of_gitea, id="gitea"),
    pytest.param("gitlab", of_gitlab, id="gitlab"),
    pytest.param("gitlab", of_old_gitlab, id="old-gitlab"),
]


class OneHook(Desk):
    """What receives the hook of a group in which one repository is ours."""

    def __init__(self, deliveries: Any, provider: Asked) -> None:
        super().__init__(deliveries, provider)
        self.receiver = Receiver(
            deliveries,
            secrets=dict.fromkeys(("github", "gitea", "gitlab"), lambda: (NEW, OLD)),
            now=self.clock.now,
            wake=self.dispatcher.wake,
        )

    async def is_ours(self, sender: str, repo: str) -> bool:
        """Go by the name alone, as with a forge that keeps our pull requests."""
        return bool(sender) and (not repo or repo.casefold() == REPO)


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[OneHook]:
    async with inbox(tmp_path) as deliveries:
        desk = OneHook(deliveries, Asked(watch()))
        async with desk.dispatcher:
            yield desk


@pytest.mark.parametrize(("sender", "request_of"), SENDERS)
async def test_what_is_about_ours_is_asked_about_and_the_rest_is_taken_and_let_be(
    hook: OneHook, sender: str, request_of: Any
) -> None:
    ours = await hook.send(request_of(REPO, OLD), sender)
    theirs = await hook.send(request_of("acme/other", NEW), sender)
    deeper = await hook.send(request_of(f"{REPO}/deeper", NEW), sender)
    found = await hook.all_settled([ours, theirs, deeper])
    ignored = DeliveryState.IGNORED
    assert [each.state for each in found] == [DeliveryState.MATCHED, ignored, ignored]
    assert found[1].outcome == "about acme/other, another repository"
    # Nothing but a commit is looked for of what others do, and nobody is told.
    asked = [hint for hint in hook.provider.hints if hint.repo.casefold() != REPO]
    assert {(hint.branch, hint.numbers) for hint in asked} <= {("", ())}
    assert hook.reported == []


@pytest.mark.parametrize(("sender", "request_of"), SENDERS)
async def test_each_of_several_secrets_is_right_and_no_other(
    hook: OneHook, sender: str, request_of: Any
) -> None:
    for secret, status in ((OLD, 202), (NEW, 202), ("another", 401)):
        receipt = await hook.receiver.take(sender, *request_of(f"acme/{secret}", secret))
        assert receipt.status == status


async def test_what_others_do_is_forgotten_long_before_what_is_ours(hook: OneHook) -> None:
    ours = await hook.send(of_gitlab(REPO, OLD), "gitlab")
    theirs = await hook.send(of_gitlab("acme/other", OLD), "gitlab")
    await hook.all_settled([ours, theirs])
    hook.clock.advance(IGNORED_KEPT_FOR - 60)
    hook.dispatcher.wake()
    late = await hook.send(of_gitlab("acme/third", OLD), "gitlab")
    await hook.settled(late)
    assert await hook.deliveries.get(theirs) is not None
    hook.clock.advance(DAY)
    hook.dispatcher.wake()

    async def forgotten() -> bool:
        return await hook.deliveries.get(theirs) is None

    await until(forgotten, "what others did is forgotten")
    assert await hook.deliveries.get(ours) is not None
    assert await hook.deliveries.get(late) is not None


@pytest.mark.parametrize("event", ["Member Hook", "Subgroup Hook", "Project Hook", "Release Hook"])
async def test_what_only_groups_send_is_taken_and_asks_nothing(hook: OneHook, event: str) -> None:
    body = {"event_name": "user_add_to_group", "group_path": "acme", "user_username": "x"}
    found = await hook.settled(await hook.send(_gitlab(body, event, OLD), "gitlab"))
    assert found.state is DeliveryState.IGNORED
    assert "nothing that a lifecycle waits for" in found.outcome
    assert hook.provider.hints == []
