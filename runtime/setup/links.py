"""Whether the way to a file leads over a link that git tracks, which an agent may have made.

Reads links and nothing else; a link that git does not know is a person's own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MOST = 40
"""Links on one way; the system follows no more of them."""


def goes_over(checkout: Path, name: str, tracked: Collection[str]) -> bool:
    """Tell whether the way to a file of the checkout leads over one of these links."""
    return bool(tracked) and any(link in tracked for link in _links_to(checkout.resolve(), name))


def _links_to(top: Path, name: str) -> Iterator[str]:
    """Follow the way to a file; returns the links on it that lie in the folder, by their names."""
    at, ahead, passed = top, list(reversed(Path(name).parts)), 0
    while ahead and passed <= MOST:
        part = ahead.pop()
        if part == os.pardir:
            at = at.parent
            continue
        place = at / part
        if not place.is_symlink():
            at = place
            continue
        passed += 1
        if place.is_relative_to(top):
            yield place.relative_to(top).as_posix()
        led = place.readlink()
        at = Path(led.anchor) if led.is_absolute() else at
        ahead += reversed(led.relative_to(led.anchor).parts)
