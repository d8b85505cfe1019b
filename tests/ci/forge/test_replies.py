"""An agent's reply stands below its remark, once, whatever happens while it is posted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from ci.errors import (
    ForbiddenError,
    LimitedError,
    MissingError,
    ProviderError,
    RefusedError,
    UnreachableError,
)
from ci.events import CIEventType, ReviewComment
from ci.forge.memory import OwedReply
from ci.forge.merge_rules import Rules
from ci.forge.replies import body_of, is_reply, quote
from tests.ci.contract import follow, opened, until
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.forge_server import fails
from tests.ci.github.github_world import EmulatedWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from ci.errors import ForgeError
    from ci.interface import PullRequest
    from tests.ci.forge.forge_world import ServedWorld
    from tests.ci.github.emulated import Emulated

AGENT, BRANCH = "agent-a", "agent/a"


async def remarks_of(world: RemoteWorld, number: int) -> tuple[ReviewComment, ...]:
    pull = await world.served.pull(number)
    return (await world.served.forge.reviews(pull)).remarks


async def ours(world: RemoteWorld, number: int) -> list[ReviewComment]:
    return [each for each in await remarks_of(world, number) if is_reply(each)]


async def reviewed(world: RemoteWorld) -> tuple[PullRequest, dict[str, ReviewComment]]:
    """Have a pull request with remarks on a line and on the whole that were told."""
    pull = await opened(world, BRANCH, text="a")
    await world.served.later()
    await world.served.review(pull.number, "Please split it.\nIt is long.")
    await world.served.remark(pull.number, "name it add", "shared.txt", 1)

    def told() -> dict[str, ReviewComment]:
        found = [
            each
            for event in world.events
            if event.type is CIEventType.PR_CHANGES_REQUESTED
            for each in event.details
            if isinstance(each, ReviewComment)
        ]
        return {each.body.partition(" ")[0]: each for each in found}

    await world.polled(pull.number)
    await until(lambda: {"Please", "name"} <= told().keys(), "the remarks")
    await world.polled(pull.number)
    return pull, told()


async def reply(world: RemoteWorld, sha: str, replies: dict[str, str]) -> None:
    await world.provider.reply(AGENT, BRANCH, sha, replies)


class Lost:
    """Has a forge do what it is asked and lose the answer, so often."""

    def __init__(self, act: Callable[..., Awaitable[None]], error: BaseException) -> None:
        self.act, self.error, self.times = act, error, 1

    async def __call__(self, *args: Any) -> None:
        await self.act(*args)
        if self.times:
            self.times -= 1
            raise self.error


class Refused(Lost):
    """Has a forge refuse one of the things that it is asked."""

    async def __call__(self, *args: Any) -> None:
        if "Done." in args[-1]:
            raise self.error
        await self.act(*args)


class RepliesContract:
    async def test_each_stands_below_its_remark_and_wakes_nobody(self, world: RemoteWorld) -> None:
        pull, told = await reviewed(world)
        sha = await world.commit(BRANCH, shared="b")
        await world.provider.pushed(BRANCH, sha)
        events = len(world.events)
        replies = {told["name"].id: "Done.", told["Please"].id: "/merge\nLeft: it is one thing."}
        for _ in range(2):
            await reply(world, sha, replies)
        await follow(world, pull, sha)
        await world.polled(pull.number)
        line, whole = sorted(await ours(world, pull.number), key=lambda each: "Left" in each.body)
        assert line.ref == told["name"].ref
        assert line.ref or "> name it add" in line.body
        assert whole.ref == told["Please"].ref
        assert whole.ref or "In reply to [by " in whole.body
        assert f"*Answer of {AGENT}, posted by Loopwright:*\n\nDone." in line.body
        assert "\n\\/merge\nLeft" in whole.body
        again = world.events[events:]
        assert CIEventType.PR_CHANGES_REQUESTED not in [each.type for each in again]
        assert [event for event, _ in world.logged] == ["reply_posted", "reply_posted"]

    @pytest.mark.parametrize("error", [UnreachableError("no answer"), asyncio.CancelledError()])
    async def test_one_whose_answer_was_lost_is_found_and_not_posted_again(
        self, world: RemoteWorld, monkeypatch: pytest.MonkeyPatch, error: BaseException
    ) -> None:
        pull, told = await reviewed(world)
        forge, replies = world.served.forge, {told["name"].id: "Done."}
        with monkeypatch.context() as patch:
            for name in ("reply", "comment"):
                patch.setattr(forge, name, Lost(getattr(forge, name), error))
            with pytest.raises((ProviderError, asyncio.CancelledError)):
                await reply(world, pull.head_sha, replies)
            await world.restart()
            await reply(world, pull.head_sha, replies)
            await follow(world, pull, pull.head_sha)
            kept = f"ci.{forge.name}.replies"
            await until(lambda: not world.documents.kept.get(kept), "its end")
        assert len(await ours(world, pull.number)) == 1

    async def test_one_that_never_arrived_is_posted_after_a_while(
        self, world: RemoteWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def lose(*_: object) -> None:
            raise UnreachableError("no answer")

        pull, told = await reviewed(world)
        with monkeypatch.context() as patch:
            for name in ("reply", "comment"):
                patch.setattr(world.served.forge, name, lose)
            with pytest.raises(UnreachableError):
                await reply(world, pull.head_sha, {told["name"].id: "Done."})
        await until(lambda: "reply_posted" in dict(world.logged), "the reply")
        assert len(await ours(world, pull.number)) == 1

    async def test_it_waits_for_the_push_of_its_commit(self, world: RemoteWorld) -> None:
        pull, told = await reviewed(world)
        sha = await world.commit(BRANCH, shared="b")
        hook = world.served.origin.bare / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
        with pytest.raises(ProviderError):
            await world.provider.pushed(BRANCH, sha)
        await reply(world, sha, {told["name"].id: "Done."})
        assert await ours(world, pull.number) == []
        hook.unlink()
        await world.polled(pull.number)
        assert len(await ours(world, pull.number)) == 1

    async def test_what_cannot_be_answered_is_told_and_posted_nowhere(
        self, world: RemoteWorld
    ) -> None:
        pull, told = await reviewed(world)
        before = len(await remarks_of(world, pull.number))
        await reply(world, pull.head_sha, {"r0000": "Done."})
        ((event, fields),) = world.logged
        assert (event, fields["agent_id"], fields["remark"]) == ("reply_refused", AGENT, "r0000")
        assert "r0000" not in {each.id for each in told.values()}
        assert len(await remarks_of(world, pull.number)) == before

    @pytest.mark.parametrize("refusal", [ForbiddenError, MissingError, RefusedError])
    async def test_a_forge_that_refuses_one_is_told_and_asked_for_the_next(
        self, world: RemoteWorld, monkeypatch: pytest.MonkeyPatch, refusal: type[ForgeError]
    ) -> None:
        pull, told = await reviewed(world)
        forge = world.served.forge
        for name in ("reply", "comment"):
            act = getattr(forge, name)
            monkeypatch.setattr(forge, name, Refused(act, refusal("no comments here")))
        await reply(
            world, pull.head_sha, {told["name"].id: "Done.", told["Please"].id: "Left as it is."}
        )
        (first, refused), (second, _) = world.logged
        assert (first, second) == ("reply_refused", "reply_posted")
        assert (refused["remark"], refused["reason"]) == (told["name"].id, "no comments here")
        assert len(await ours(world, pull.number)) == 1

    async def test_one_that_is_owed_when_a_runner_ends_is_posted_by_the_next(
        self, world: RemoteWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def lose(*_: object) -> None:
            raise LimitedError("no requests left")

        pull, told = await reviewed(world)
        with monkeypatch.context() as patch:
            for name in ("reply", "comment"):
                patch.setattr(world.served.forge, name, lose)
            with pytest.raises(LimitedError):
                await reply(world, pull.head_sha, {told["name"].id: "Done."})
            await world.provider.aclose()
        await world.restart()
        await until(lambda: "reply_posted" in dict(world.logged), "the reply")
        assert len(await ours(world, pull.number)) == 1


class TestServed(RepliesContract):
    async def test_it_wakes_nobody_where_the_token_is_of_no_user(self, world: RemoteWorld) -> None:
        served = cast("ServedWorld[Any]", world.served)
        served.server.route("GET", f"{served.api}/user", fails(403))
        pull, told = await reviewed(world)
        await reply(world, pull.head_sha, {each.id: "Done." for each in told.values()})
        events = len(world.events)
        served.say(pull.number, served.reviewer, "Thank you.")
        world.rules = Rules(wake_on_comments=True)
        await world.polled(pull.number)
        await until(lambda: len(world.events) > events, "what the reviewer says next")
        heard = [detail for event in world.events[events:] for detail in event.details]
        assert [each.text for each in heard] == ["Thank you."]

    @pytest.fixture
    async def world(
        self, served_type: type[ServedWorld[Any]], tmp_path: Path
    ) -> AsyncIterator[RemoteWorld]:
        async with served_type.running(tmp_path / "forge", pushes=False) as forge:
            world = RemoteWorld(forge, tmp_path / "state")
            await world.start()
            yield world
            await world.aclose()


class TestGitHub(RepliesContract):
    @pytest.fixture
    async def world(self, emulated: Emulated, tmp_path: Path) -> AsyncIterator[RemoteWorld]:
        async with EmulatedWorld.running(tmp_path, emulated, pushes=False) as forge:
            world = RemoteWorld(forge, tmp_path / "state")
            await world.start()
            yield world
            await world.aclose()


# --- the text -------------------------------------------------------------------------------------


def owed(text: str) -> OwedReply:
    return OwedReply("0123456789abcdef", AGENT, BRANCH, "a" * 40, "r1", text, None)


def said(body: str, **more: Any) -> ReviewComment:
    return ReviewComment(key="line-1", author="dora", trusted=True, body=body, at=1.0, **more)


@pytest.mark.parametrize("text", ["Done.", "```py\nx = 1", "<!-- never closed", "ä" * 4000])
def test_a_reply_is_known_by_its_end_whatever_the_agent_writes(text: str) -> None:
    body = body_of(owed(text))
    assert is_reply(said(body))
    assert body.startswith(f"*Answer of {AGENT}")
    assert body.count("<!--") == 1
    assert sum(line.startswith("```") for line in body.splitlines()) % 2 == 0
    assert not is_reply(said(f"> {body.splitlines()[-1]}"))
    assert not is_reply(said(f"{body}\nand this"))


def test_a_quote_is_short_and_gives_no_orders() -> None:
    remark = said("/close\n<!-- x\n@all look\nmore\n", path="a.py", line=3, url="https://x/1")
    assert quote(remark) == (
        "In reply to [a.py:3 by dora](https://x/1):\n\n> /close\n> &lt;!-- x\n> @all look\n> …"
    )


def test_ids_are_short_stable_and_told_apart() -> None:
    ids = {ReviewComment(key=f"line-{n}", author="a", trusted=True, at=0.0).id for n in range(999)}
    assert len(ids) == 999
    assert said("x").id == said("y").id == "r" + said("").id[1:]
    assert all(len(each) == 6 for each in ids)
