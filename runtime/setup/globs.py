"""Patterns of paths in settings. Pure.

`*` and `?` stay within one folder, `**` crosses folders. A pattern without `/` matches the last
part of a path, in any folder.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath

INCLUDE_FILE = ".worktreeinclude"
"""Patterns as in .gitignore, one a line; in the top folder of the user's checkout."""


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removeprefix("./").removeprefix("/"))
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts), re.DOTALL)


def matches(path: str, pattern: str) -> bool:
    """Tell whether a path, relative with `/`, matches a pattern."""
    seen = path if "/" in pattern.removesuffix("/") else path.rpartition("/")[2]
    return _compiled(pattern.removesuffix("/")).fullmatch(seen) is not None


def refusal(pattern: str) -> str:
    """Say why a pattern is not valid; empty if it is."""
    path = PurePosixPath(pattern)
    if not pattern.strip() or path.is_absolute() or ".." in path.parts or "\0" in pattern:
        return f"{pattern!r} is not a path inside the repository; give one relative to its top"
    if not path.parts:
        return f"{pattern!r} names the whole repository; name files or folders in it"
    if any("**" in part and part != "**" for part in path.parts):
        meant = "/".join(
            part if part == "**" else part.replace("**", "**/*") for part in path.parts
        )
        return f"in {pattern!r} `**` has to stand alone between slashes; write {meant!r}"
    return ""
