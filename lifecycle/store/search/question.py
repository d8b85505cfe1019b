"""What somebody types to search, as the index understands it. Pure.

Any text is a question: words that all have to be found, each also as the beginning of a longer one,
and "exact words" between quotes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lifecycle.store.search.texts import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection

MOST = 16
"""Words of a question; what follows is left out."""
LONGEST = 400
"""Characters of a question."""
_PART = re.compile(r'"([^"]*)"?|([^\s"]+)')


def match_of(text: str, kinds: Collection[str] = ()) -> str:
    """Return the question for the index, within these kinds of text; empty if there is none."""
    plain = text[:LONGEST].encode(errors="ignore").decode().replace("\x00", " ")
    terms = list[str]()
    for exact, word in _PART.findall(plain):
        said = exact or word
        if len(terms) < MOST and any(each.isalnum() for each in said):
            # A single letter as the beginning of words is in nearly all of them.
            begins = bool(word) and sum(map(str.isalnum, word)) > 1
            terms.append(f'"{said}"{" *" if begins else ""}')
    wanted = [kind for kind in KINDS if kind in kinds]
    if not terms or (kinds and not wanted):
        return ""
    every = " AND ".join(terms)
    return f"{{{' '.join(wanted)}}} : ({every})" if wanted else every
