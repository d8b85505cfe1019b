"""How senders sign: HMAC-SHA256 in hex in one header, or Standard Webhooks.

Must not know any sender's headers. Comparisons take constant time, so that the time reveals nothing
about which secret matched.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

STANDARD = "webhook-signature"
"""The header of Standard Webhooks."""
_SECRET_PREFIX = "whsec_"  # noqa: S105  # marks the form of a secret, is none
_VERSION = "v1,"


def is_signed(shown: str, raw: bytes, secrets: Iterable[str]) -> bool:
    """Return whether this hex digest signs the bytes by one of the secrets."""
    # Everybody knows an empty secret.
    made = [hmac.digest(each.encode(), raw, "sha256").hex() for each in secrets if each]
    return any_equal([shown.strip().lower()], made)


def is_standard_signed(headers: Mapping[str, str], raw: bytes, keys: Iterable[bytes]) -> bool:
    """Return whether one of the signatures is by one of the keys; the time is not checked."""
    name, when = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not name or not when:
        return False
    content = f"{name}.{when}.".encode("utf-8", "surrogatepass") + raw
    made = [base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys if key]
    shown = [
        each.removeprefix(_VERSION)
        for each in headers[STANDARD].split()
        if each.startswith(_VERSION)
    ]
    return any_equal(shown, made)


def key_of(secret: str, *, unpadded: bool = False) -> bytes | None:
    """Return the key that a `whsec_` secret encodes; None for another form.

    `unpadded`: the base64 may lack its padding.
    """
    if not secret.startswith(_SECRET_PREFIX):
        return None
    encoded = secret.removeprefix(_SECRET_PREFIX)
    try:
        filled = "=" * (-len(encoded) % 4) if unpadded else ""
        return base64.b64decode(encoded + filled, validate=True)
    except (binascii.Error, ValueError):
        return None


def any_equal(shown: Sequence[str], right: Sequence[str]) -> bool:
    """Return whether any given value equals any correct one."""
    found = [
        hmac.compare_digest(
            one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
        )
        for one in shown
        for other in right
    ]
    return any(found)
