"""Answers of agents to reviewers, each posted once below the remark that it is about.

Owns when one is posted (after the agent's commits, and not again), the text around it, and what
becomes of one that cannot be posted: it is told, and stops nothing.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from ci.errors import (
    ForbiddenError,
    ForgeError,
    LimitedError,
    MissingError,
    RefusedError,
    UnauthorizedError,
)
from ci.events import clean_line, without_commands
from ci.forge.memory import OwedReply
from ci.forge.poller import PollResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ci.events import ReviewComment
    from ci.forge.memory import Memory
    from ci.forge.protocol import Forge, ForgePull
    from ci.ports import LogEvent

UNHEARD_FOR = 60.0
"""Seconds for which a reply is only looked for after the answer to posting it was lost."""
QUOTED_LINES = 3
_MARK = re.compile(r"^<!-- loopwright:reply:([0-9a-f]{16}) -->\s*\Z", re.MULTILINE)
_REFUSED = (ForbiddenError, MissingError, RefusedError)
_NOT_DONE = (LimitedError, UnauthorizedError)
"""Errors after which nothing can have been posted."""


@dataclass(frozen=True, slots=True)
class AgentReplies:
    """The replies of agents in one forge's repository."""

    forge: Forge
    memory: Memory
    now: Callable[[], float]
    report: LogEvent
    _posting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def take(self, agent_id: str, branch: str, sha: str, replies: Mapping[str, str]) -> None:
        """Record replies to be posted after this commit of the branch; the same again is none."""
        for remark, text in replies.items():
            mark = _mark(agent_id, sha, remark, text)
            owed = OwedReply(mark, agent_id, branch, sha, remark, text, None)
            await self.memory.owe_reply(owed)

    def ready(self) -> frozenset[str]:
        """Return the marks of those that are owed, and whose commits are at the forge."""
        return frozenset(each.mark for each in self.memory.owed_replies() if self._is_ready(each))

    def _is_ready(self, owed: OwedReply) -> bool:
        branch = owed.branch
        pushed = self.memory.is_there(branch, self.memory.wanted(branch))
        return pushed and self.memory.ours(branch, owed.sha)

    async def poll(self) -> PollResult:
        """Post what is owed; what the forge does not answer is polled again."""
        try:
            await self.post_owed()
        except ForgeError as error:
            return PollResult(not_before=error.retry_at)
        return PollResult()

    async def post_owed(self) -> None:
        """Post what is owed, as far as the commits that it speaks of are at the forge."""
        if not self.memory.owed_replies():
            return
        async with self._posting:
            owed: dict[str, list[OwedReply]] = {}
            for each in self.memory.owed_replies():
                owed.setdefault(each.branch, []).append(each)
            for branch, replies in owed.items():
                await self._post_of(branch, replies)

    async def _post_of(self, branch: str, owed: Iterable[OwedReply]) -> None:
        ready = [each for each in owed if self._is_ready(each)]
        if not ready:
            return
        pull = await self.forge.find_pull(branch)
        if pull is None:
            return
        remarks = (await self.forge.reviews(pull)).remarks
        there = {_marked(remark) for remark in remarks}
        for each in ready:
            if each.mark in there:
                await self.memory.reply_settled(each.mark)
            elif each.asked_at is None or self.now() >= each.asked_at + UNHEARD_FOR:
                await self._post(pull, each, self._meant(pull, each, remarks))

    def _meant(
        self, pull: ForgePull, owed: OwedReply, remarks: Iterable[ReviewComment]
    ) -> ReviewComment | None:
        """Return the remark that the agent was told under this id, if it is still there."""
        told = self.memory.told(pull.number)
        found = [each for each in remarks if each.id == owed.remark and each.key in told]
        return found[0] if len(found) == 1 else None

    async def _post(self, pull: ForgePull, owed: OwedReply, remark: ReviewComment | None) -> None:
        about = {"agent_id": owed.agent_id, "remark": owed.remark, "pull_request": pull.url}
        if remark is None:
            known = "there is no such remark that the agent was told, or it has been deleted"
            self.report("reply_refused", **about, reason=known)
            await self.memory.reply_settled(owed.mark)
            return
        await self.memory.owe_reply(owed._replace(asked_at=self.now()))
        try:
            if remark.ref:
                await self.forge.reply(pull.number, remark.ref, body_of(owed))
            else:
                await self.forge.comment(pull.number, f"{quote(remark)}\n\n{body_of(owed)}")
        except _REFUSED as refusal:
            self.report("reply_refused", **about, reason=str(refusal))
        except ForgeError as error:
            if isinstance(error, _NOT_DONE):
                await self.memory.owe_reply(owed)
            raise
        else:
            self.report("reply_posted", **about)
        await self.memory.reply_settled(owed.mark)


def is_reply(remark: ReviewComment) -> bool:
    """Return whether it is one of ours, whoever the forge says wrote it."""
    return bool(_marked(remark))


def body_of(owed: OwedReply) -> str:
    """Return the agent's words, who they are of, and the mark by which they are found again."""
    return (
        f"*Answer of {owed.agent_id}, posted by Loopwright:*\n\n{_tame(owed.text)}\n\n"
        f"<!-- loopwright:reply:{owed.mark} -->"
    )


def quote(remark: ReviewComment) -> str:
    """Return how a remark begins, where a reply cannot stand below it."""
    lines = remark.body.strip().splitlines()
    few = [f"> {clean_line(line)}" for line in lines[:QUOTED_LINES]]
    more = ["> …"] if len(lines) > QUOTED_LINES else []
    about = f"In reply to [{remark.title}]({remark.url})" if remark.url else remark.title
    return "\n".join([f"{about}:", "", *map(_tame, (*few, *more))]).rstrip()


def _tame(text: str) -> str:
    """Return a text that gives no command and hides nothing that follows it."""
    text = without_commands(text.strip()).replace("<!--", "&lt;!--")
    fences = sum(line.lstrip().startswith("```") for line in text.splitlines())
    return f"{text}\n```" if fences % 2 else text


def _mark(agent_id: str, sha: str, remark: str, text: str) -> str:
    return sha256(f"{agent_id} {sha} {remark} {text}".encode()).hexdigest()[:16]


def _marked(remark: ReviewComment) -> str:
    found = _MARK.search(remark.body)
    return found[1] if found else ""
