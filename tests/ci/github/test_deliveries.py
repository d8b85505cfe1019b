"""What emulate's GitHub really delivers: signed, named, and a hint at the right thing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ci.forge.protocol import NewPull
from ci.github.webhooks import event, hint, identity, signed
from tests.ci.contract import until
from tests.ci.forge_server import answers, forge_server
from tests.ci.ports import git

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ci.webhook_delivery import Hint
    from tests.ci.forge_server import ForgeServer
    from tests.ci.github.github_world import EmulatedWorld

SECRET = "it is a secret"  # noqa: S105  # of this test


class Heard:
    """A world and everything it delivered."""

    def __init__(self, world: EmulatedWorld, server: ForgeServer) -> None:
        self.world = world
        self.server = server

    def events(self) -> list[str]:
        return [event(each.headers, json.loads(each.body)) for each in self.server.requests]

    async def hint(self, name: str) -> Hint:
        """Wait for an event and return what it is a hint at."""
        await until(lambda: name in self.events(), name)
        asked = self.server.requests[self.events().index(name)]
        assert signed(asked.headers, asked.body, [SECRET])
        assert not signed(asked.headers, asked.body, ["another"])
        found = hint(asked.headers, json.loads(asked.body))
        assert found is not None
        assert found.repo == self.world.repo
        return found


@pytest.fixture
async def heard(world: EmulatedWorld) -> AsyncIterator[Heard]:
    async with forge_server() as server:
        server.route("POST", "/hooks/github", answers({}, status=202))
        await world.hook(f"{server.url}/hooks/github", SECRET)
        yield Heard(world, server)


async def test_the_life_of_a_pull_request_is_delivered(heard: Heard) -> None:
    world = heard.world
    first = await world.commit("agent/a", outcome="red")
    pushed, checked = await heard.hint("push"), await heard.hint("check_run.created")
    assert (pushed.branch, pushed.sha) == ("agent/a", first)
    assert checked.sha == first
    pull = await world.forge.create_pull(NewPull(branch="agent/a", base="main", title="t"))
    opened = await heard.hint("pull_request.opened")
    assert (opened.branch, opened.sha, opened.numbers) == ("agent/a", first, (pull.number,))
    second = await world.commit("agent/a")
    moved = await heard.hint("pull_request.synchronize")
    assert (moved.branch, moved.sha, moved.numbers) == ("agent/a", second, (pull.number,))
    await world.review(pull.number, body="no", lines=[("shared.txt", 1, "why?")])
    assert (await heard.hint("pull_request_review.submitted")).numbers == (pull.number,)
    await world.call("POST", f"/issues/{pull.number}/comments", {"body": "hello"})
    assert (await heard.hint("issue_comment.created")).numbers == (pull.number,)
    await world.merge(pull.number)
    assert (await heard.hint("pull_request.closed")).numbers == (pull.number,)


async def test_each_delivery_has_an_id_of_its_own(heard: Heard) -> None:
    await heard.world.commit("agent/a")
    await heard.world.commit("agent/b")
    await until(lambda: heard.events().count("check_run.created") == 2)
    ids = [identity(each.headers, each.body) for each in heard.server.requests]
    assert len(set(ids)) == len(ids)
    assert all(ids)


async def test_a_held_check_tells_when_it_has_passed(heard: Heard) -> None:
    sha = await heard.world.commit("agent/a", outcome="held")
    await heard.world.release()
    assert (await heard.hint("check_run.completed")).sha == sha


async def test_a_push_by_anybody_is_noticed(heard: Heard) -> None:
    world = heard.world
    world.pushes = False
    sha = await world.commit("agent/a")
    assert await world.forge.head("agent/a") is None
    assert git(world.root, "push", "-q", str(world.origin.bare), "agent/a")[0] == 0
    assert await world.forge.head("agent/a") == sha
    assert (await heard.hint("push")).sha == sha
    assert git(world.root, "push", "-q", str(world.origin.bare), ":agent/a")[0] == 0
    assert await world.forge.head("agent/a") is None


async def test_what_was_delivered_can_be_looked_up(world: EmulatedWorld) -> None:
    async with forge_server() as server:
        server.route("POST", "/hooks/github", answers({}, status=503))
        hook = await world.hook(f"{server.url}/hooks/github", SECRET)
        await world.commit("agent/a")
        await until(lambda: len(server.requests) == 2, "the push and the check")
    told: list[int] = []
    while len(told) < 2:
        told = [each["status_code"] for each in await world.deliveries(hook)]
    assert told == [503, 503]
