"""Takes secrets out of text before it is kept or shown.

Owns how they are found in texts and in streams, and what stands in their place. Pure: it reads no
environment and no file. Which values are secrets is `detection`, the forms of each `encodings`,
how these are found fast `search`.
It must not decide which texts are masked: the callers that keep a text do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.masking.detection import holds_secret, secrets_in, secrets_of
from runtime.masking.search import Search, cores

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MaskStream", "Masker", "holds_secret", "secrets_in", "secrets_of"]


class Masker:
    """Replaces secrets by their names, `***NAME***`; without secrets it changes nothing."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        self._secrets: dict[str, str] = {}
        self._search: Search | None = None
        if secrets:
            self.learn(secrets)

    def __bool__(self) -> bool:
        return self._search is not None

    def __repr__(self) -> str:
        return f"<Masker of {', '.join(self._secrets) or 'nothing'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the secrets it knows."""
        return tuple(self._secrets)

    def learn(self, secrets: Mapping[str, str]) -> None:
        """Mask these too from now on; a value that is known already keeps its first name."""
        known = set(self._secrets.values())
        new = {
            name: value for name, value in secrets.items() if value not in known and cores(value)
        }
        if not new:
            return
        for name, value in new.items():
            self._secrets[_free(name, self._secrets)] = value
        self._search = Search(self._secrets)

    def learn_from(self, environ: Mapping[str, str]) -> None:
        """Mask from now on what of these variables are secrets."""
        if found := secrets_of(environ):
            self.learn(found)

    def mask(self, text: str) -> str:
        """Return a text without the secrets in it; the very same where there are none."""
        if self._search is None:
            return text
        try:
            errors = "surrogateescape"  # for bytes that are not text
            data = text.encode(errors=errors)
        except UnicodeEncodeError:
            errors = "surrogatepass"
            data = text.encode(errors=errors)
        told = self.mask_bytes(data)
        return text if told is data else told.decode(errors=errors)

    def mask_bytes(self, data: bytes) -> bytes:
        """Return bytes without the secrets in them; the very same where there are none."""
        if self._search is None or not (spans := self._search.spans(data)):
            return data
        pieces: list[bytes] = []
        at = 0
        for start, end, marker in spans:
            pieces += (data[at:start], marker)
            at = end
        pieces.append(data[at:])
        return b"".join(pieces)

    def stream(self) -> MaskStream:
        """Return what masks a stream, however it is cut into pieces."""
        return MaskStream(self._search)


class MaskStream:
    """Masks a stream of bytes piece by piece; gives what `mask_bytes` gives for the whole.

    Only an end that may be the start of a secret is held back until more comes, or until `end`.
    """

    def __init__(self, search: Search | None) -> None:
        self._search = search
        self._held = b""
        self._covered = 0
        """How much of the start of what is held belongs to a secret that was replaced already."""

    def feed(self, chunk: bytes) -> bytes:
        """Take the next piece; return what can be told by now."""
        if self._search is None:
            return chunk
        data = self._held + chunk if self._held else chunk
        return self._told(self._search, data, self._search.undecided(data))

    def end(self) -> bytes:
        """Return the rest, once nothing more comes."""
        if self._search is None:
            return b""
        return self._told(self._search, self._held, len(self._held))

    @property
    def held(self) -> int:
        """How many bytes are held back."""
        return len(self._held)

    def _told(self, search: Search, data: bytes, upto: int) -> bytes:
        pieces: list[bytes] = []
        at = self._covered
        for start, end, marker in search.spans(data):
            if start >= upto:
                break
            if start < at:  # continues one that was replaced
                at = max(at, end)
                continue
            pieces += (data[at:start], marker)
            at = end
        pieces.append(data[at:upto])
        self._held, self._covered = data[upto:], max(0, at - upto)
        return b"".join(pieces)


def _free(name: str, taken: Mapping[str, str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
