"""Whose remarks agents are told: those of people who may write, and of who is named. Pure.

Owns the short names of review bots. Must not know what a remark says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Reviews

_BOT = "[bot]"
"""Ends the login of a GitHub App; no person can have such a login."""
BOTS = {
    "claude": ("claude[bot]",),
    "codex": ("chatgpt-codex-connector[bot]",),
    "coderabbit": ("coderabbitai[bot]",),
    # GitHub shows the remarks of one review under both, and lets nobody else have the second.
    "copilot": ("copilot-pull-request-reviewer[bot]", "copilot"),
    "cursor": ("cursor[bot]",),
    "gemini": ("gemini-code-assist[bot]",),
    "greptile": ("greptile-apps[bot]",),
    "qodo": ("qodo-merge-pro[bot]", "qodo-code-review[bot]"),
    "sourcery": ("sourcery-ai[bot]",),
}
"""The logins of well-known reviewers at GitHub, by the name that people know."""
_BOT_LOGINS = frozenset(login for logins in BOTS.values() for login in logins)
_BOT_OF_GITLAB = re.compile(r"(?:project|group)_\d+_bot(?:_\w+)?")
"""The account that GitLab makes for a token of a project or a group."""


def is_heard(author: str, rules: Rules, *, trusted: bool) -> bool:
    """Return whether agents are told what this author writes; `trusted`: who may write."""
    if trusted and not (rules.review_authors and rules.review_authors_only):
        return True
    login = author.lower()
    return any(login in _logins(name) for name in rules.review_authors)


def is_bot(author: str, *, trusted: bool) -> bool:
    """Return whether what this author writes counts as a bot's.

    That of who is heard by name alone does, too: most forges do not tell bots from people.
    """
    login = author.lower()
    by_its_name = login.endswith(_BOT) or login in _BOT_LOGINS
    return not trusted or by_its_name or _BOT_OF_GITLAB.fullmatch(login) is not None


def counted(reviews: Reviews, rules: Rules) -> Reviews:
    """Let requests for changes by those who are named count like those of who may write."""
    named = [who for who in reviews.changes_wanted_by_others if is_heard(who, rules, trusted=False)]
    wanted = tuple(sorted({*reviews.changes_wanted_by, *named}))
    return reviews.model_copy(update={"changes_wanted_by": wanted})


def unheard(authors: Iterable[str], most: int = 3) -> str:
    """Return for people whose remarks agents are not told, and what to do; empty if nobody's."""
    names = tuple(dict.fromkeys(authors))
    if not names:
        return ""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (
        f"what {', '.join(names[:most])}{more} wrote is not heard, as they neither may write nor "
        "are in review_authors"
    )


def _logins(name: str) -> tuple[str, ...]:
    plain = name.strip().lower()
    return (plain, f"{plain.removesuffix(_BOT)}{_BOT}", *BOTS.get(plain, ()))
