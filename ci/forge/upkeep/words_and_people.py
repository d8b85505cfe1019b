"""What a pull request of ours says and whom it asks: its text, its draft state, its reviewers.

Owns that the words of a person are never replaced: only what we wrote ourselves is written anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, ForgeError, MissingError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ci.forge.memory import Memory
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge, ForgePull

_DRAFT = re.compile(r"^(?:wip:|\[wip\]|draft:|\[draft\]|\(draft\))\s*", re.IGNORECASE)
"""How forges without drafts mark them in titles."""


@dataclass(frozen=True, slots=True)
class PullUpkeep:
    """The upkeep of our pull requests in one forge's repository."""

    forge: Forge
    memory: Memory
    rules: Callable[[], Rules]

    async def opened(self, pull: ForgePull, title: str, body: str) -> None:
        """Remember what was written, and ask people unless it is a draft."""
        await self.memory.wrote(pull.number, _print(title), _print(body))
        if not pull.draft:
            await self.memory.owe_people(pull.number, owed=True)
            await self.ask_people(pull)

    async def reword(self, pull: ForgePull, title: str, body: str) -> ForgePull:
        """Write the title and text of a later attempt, where ours still stand."""
        ours = self.memory.written(pull.number)
        if ours is None:
            return pull
        old_title, old_body = pull.title, pull.body
        if title and _print(old_title) == ours[0]:
            old_title = title
        if body and _print(old_body) == ours[1]:
            old_body = body
        wanted = (_print(old_title), _print(old_body))
        if wanted == (_print(pull.title), _print(pull.body)):
            return pull
        try:
            await self.forge.edit_pull(pull, title=plain(old_title), body=old_body)
        except (RefusedError, ForbiddenError, MissingError):
            return pull  # the words of before do no harm
        await self.memory.wrote(pull.number, *wanted)
        return pull.model_copy(update={"title": plain(old_title), "body": old_body})

    async def ready(self, pull: ForgePull) -> bool:
        """Mark a draft of ours as ready; return whether it was one."""
        mine = pull.number in self.memory.made(pull.branch)
        if not (pull.draft and mine and self.rules().draft_first):
            return False
        await self.memory.owe_people(pull.number, owed=True)
        await self.forge.mark_ready(pull)
        await self.ask_people(pull.model_copy(update={"draft": False}))
        return True

    async def ask_people(self, pull: ForgePull) -> None:
        """Ask those who are still to be asked; who cannot be asked now is asked at a later look."""
        if pull.draft or not self.memory.owes_people(pull.number):
            return
        rules = self.rules()
        try:
            await _ask(self.forge.ask_for_review, pull.number, rules.reviewers)
            await _ask(self.forge.assign, pull.number, rules.assignees)
        except ForgeError:
            return
        await self.memory.owe_people(pull.number, owed=False)


async def _ask(
    ask: Callable[[int, Sequence[str]], Awaitable[None]], number: int, who: Sequence[str]
) -> None:
    """Ask all at once, else one by one: a forge may refuse all for one that it does not know."""
    if not who:
        return
    try:
        await ask(number, who)
    except (RefusedError, ForbiddenError, MissingError):
        # People are optional, as labels are: the pull request matters.
        if len(who) > 1:
            for each in who:
                await _ask(ask, number, (each,))


def plain(title: str) -> str:
    """Return a title without the mark of a draft."""
    return _DRAFT.sub("", title)


def fingerprint(title: str, body: str) -> str:
    """Return what tells a pull request by its words; a draft has those that it is to have."""
    return f"{_print(title)}-{_print(body)}"


def _print(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in plain(text).strip().splitlines())
    return sha256(lines.encode()).hexdigest()[:16]
