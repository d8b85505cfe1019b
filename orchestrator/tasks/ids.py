"""The ids of tasks that are read from a list: usable as names, and the same each time. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from lifecycle.plan import NAME_PATTERN, checked_name, default_agent_id

LONGEST = 64 - len(default_agent_id(""))
"""The agent is named after the task."""
SLUG = 40


def task_id_of(key: str, *, is_id: bool) -> str:
    """Return the id of a task: its own where that can name a branch, else one made of its text.

    It depends on the text alone, so that it stays when lines are added or moved.
    """
    if is_id and len(key) <= LONGEST and NAME_PATTERN.fullmatch(key):
        try:
            return checked_name(key)
        except ValueError:
            pass
    plain = unicodedata.normalize("NFKD", key).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    digest = hashlib.sha256(key.encode(errors="replace")).hexdigest()
    if len(words) <= SLUG:
        # What of it was lost may be all that told two apart.
        lost = sum(1 for char in key if not char.isascii()) > len(words) // 2
        return f"{words or 'task'}-{digest[:6]}" if lost or not words else words
    return f"{words[:SLUG].rsplit('-', 1)[0]}-{digest[:6]}"
