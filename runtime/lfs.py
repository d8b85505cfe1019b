"""Files that a commit holds by a pointer alone, in the form of git-lfs.

Owns what such a pointer says. It runs no filter and changes nothing.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from pathlib import Path

_FORM = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*"
    rb"oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n"
)


class Pointer(NamedTuple):
    """What stands in a commit in place of a file."""

    sha256: str
    size: int

    @classmethod
    def read(cls, content: bytes) -> Self | None:
        """Read one; None where the content is no pointer."""
        found = _FORM.fullmatch(content)
        return None if found is None else cls(found[1].decode(), int(found[2]))

    def names(self, path: Path) -> bool:
        """Tell whether a file has the very content that it stands for."""
        digest = hashlib.sha256()
        try:
            if path.is_symlink() or path.stat().st_size != self.size:
                return False
            with path.open("rb") as file:
                while part := file.read(1 << 20):
                    digest.update(part)
        except OSError:
            return False
        return digest.hexdigest() == self.sha256
