"""How single values look on pages: tokens, dollars, counts, ids."""

from __future__ import annotations

import re
from pathlib import Path

from orchestrator.terminal.text import safe

AGENT = "agent-"
_VERBS = "accept|answer|guide|logs|pause|reject|resume|stop|summary|unblock"
_COMMAND = re.compile(rf"`loopwright (?:{_VERBS}) ")
_OR_COMMAND = re.compile(rf",? or [^;`]*`loopwright (?:{_VERBS}) [^`]*`[^;,.]*")


def tokens(count: float | None) -> str:
    """Say how many tokens, shortly: `950`, `12 k`, `2.3 M`."""
    if count is None:
        return "not told"
    if count < 1000:  # noqa: PLR2004  # as it is read
        return f"{count:.0f}"
    if count < 999_500:  # noqa: PLR2004  # as it is read
        return f"{count / 1000:.0f} k"
    return f"{count / 1_000_000:.1f} M"


def dollars(amount: float | None, *, at_least: bool = False) -> str:
    """Say what something cost; `at_least` where parts of it are not known."""
    if amount is None:
        return "not told"
    text = f"${amount:,.2f}" if amount >= 0.01 or not amount else "< $0.01"  # noqa: PLR2004  # a cent
    return f"≥ {text}" if at_least else text


def many(count: int, one: str, more: str = "") -> str:
    """Say how many of a thing there are: `1 task`, `3 tasks`."""
    return f"{count} {one}" if count == 1 else f"{count} {more or one + 's'}"


def part(value: float, whole: float) -> float:
    """Return the share in percent, within 0 and 100."""
    return max(0.0, min(100.0, 100 * value / whole)) if whole else 0.0


def short(agent_id: str) -> str:
    """Return the id as people read it: that of the task, where the agent is named after it."""
    return agent_id.removeprefix(AGENT)


def plain_why(why: str) -> str:
    """Leave out of a sentence the commands for which a page has buttons."""
    left = _OR_COMMAND.sub("", why.removesuffix("."))
    parts = [part for part in left.split("; ") if not _COMMAND.search(part)]
    return f"{'; '.join(parts)}." if parts else why


def place(path: str, repo: Path) -> str:
    """Return a path, or a text that begins with one, as a person types it."""
    for folder, name in ((f"{repo}/", ""), (f"{Path.home()}/", "~/")):
        if path.startswith(folder):
            return name + path.removeprefix(folder)
    return path


def shown(text: str) -> str:
    """Return text with what cannot be seen shown escaped; every value goes through it."""
    return safe(text, lines=True)
