"""What is said under an issue, and whether a pull request names it. Pure.

Nothing that an agent, a gate or a person said is repeated here: an issue may be public.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci.issues import IssueReference, IssueStanding

_CLOSES = r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+"


def mark_of(standing: IssueStanding) -> str:
    """Return what tells our comment from all others; no reader sees it."""
    return f"<!-- loopwright:{standing.key} -->"


def comment_on(standing: IssueStanding, link: str) -> str:
    """Return the comment of a lifecycle; `link` is that of a pull request that names no issue."""
    title = " ".join(standing.title.replace("`", "'").split())
    task = f"`{standing.task_id}`" + (
        f" (`{title}`)" if title and title != standing.task_id else ""
    )
    follows = f"Pull request: {link}" if link else "A pull request follows and is linked here."
    said = [f"Loopwright is working on this issue as task {task}. {follows}"]
    if standing.ending:
        said = [f"Loopwright worked on this issue as task {task}. {standing.ending}"]
        said += [follows] if link else []
    return "\n\n".join((*said, mark_of(standing)))


def names_issue(text: str, which: IssueReference, place: str) -> bool:
    """Tell whether a text refers to an issue, so that the forge links both."""
    return re.search(_name(which, place), text, re.IGNORECASE) is not None


def closes_issue(text: str, which: IssueReference, place: str) -> bool:
    """Tell whether a text says, in words of every forge, that its merge closes an issue."""
    return re.search(_CLOSES + _name(which, place), text, re.IGNORECASE) is not None


def _name(which: IssueReference, place: str) -> str:
    """Return a pattern for its forms; `place` is the repository of the pull request."""
    host, _, ours = place.partition("/")
    repo = which.repo or ours
    short = f"{re.escape(repo)}#" if which.repo else f"(?:{re.escape(repo)})?#"
    address = rf"https?://{re.escape(host)}/{re.escape(repo)}(?:/-)?/(?:issues|work_items)/"
    return rf"(?<![\w/#.-])(?:{short}|{address}){which.number}(?!\d)"
