r"""The forms in which one secret may show up: encoded, escaped, quoted.

Single characters that are escaped as `\u0041` or `%41` are not here: the search decodes them.
Pure. It must not know which values are secrets.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^\s/?#@]*(?:@[^\s/?#@]+)*)@")
_RUN = re.compile(r"[A-Za-z0-9]+")
_SPECIAL = re.compile(r"([^A-Za-z0-9_@%+=:,./\n-])")
_SHORTEST_PART = 4


def address_secrets(value: str) -> list[str]:
    """Return the passwords in the addresses of a text, or the names where there is no password."""
    found = []
    for user in _ADDRESS.findall(value):
        name, colon, password = user.partition(":")
        secret = password if colon else name
        found += [secret, unquote(secret)]
    return list(dict.fromkeys(each for each in found if each))


def lines_of(value: str) -> list[str]:
    """Return what of a secret may stand on one line; a secret of one line is that line."""
    if "-----BEGIN" in value:  # a key, its line ends perhaps escaped, as in a file of JSON
        value = value.replace("\\n", "\n")
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) < 2:  # noqa: PLR2004  # a single line
        return [value.strip()]
    return [line for line in lines if not line.startswith("-----")]


def forms_of(secret: str) -> Iterator[tuple[str, str]]:
    """Return all forms of a secret, each with a part of it that is fast to look for."""
    raw = secret.encode(errors="surrogateescape")
    common = _longest_run(secret)
    plain = {secret, raw.decode(errors="replace")}
    told = (*plain, *_escaped(secret), *_quoted(secret), raw.hex(), raw.hex().upper())
    for form in dict.fromkeys(told):
        shared = len(common) >= _SHORTEST_PART and common in form
        yield form, common if shared else part_of(form)
    for form in dict.fromkeys(_base64_of(raw)):
        yield form, part_of(form)


def part_of(form: str) -> str:
    """Return a part of a form that is fast to look for."""
    run = _longest_run(form)
    return run if len(run) >= _SHORTEST_PART else form


def _longest_run(text: str) -> str:
    return max(_RUN.findall(text), key=len, default="")


def _escaped(secret: str) -> Iterator[str]:
    """JSON as it is written by Python and JavaScript, also inside JSON; repr; HTML."""
    for ascii_only in (True, False):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        for form in (once, once.replace("/", r"\/")):
            yield form
            yield json.dumps(form, ensure_ascii=ascii_only)[1:-1]
    yield repr(secret)[1:-1]
    yield html.escape(secret)
    yield html.escape(secret, quote=False)


def _quoted(secret: str) -> Iterator[str]:
    """Forms of a web page, and shells."""
    yield secret.replace(" ", "+")
    for form in (shlex.quote(secret), "'" + secret.replace("'", r"'\''") + "'"):
        yield form[1:-1] if form[:1] == "'" == form[-1:] else form
    yield _SPECIAL.sub(r"\\\1", secret)
    yield re.sub(r'([\\"$`])', r"\\\1", secret)


def _base64_of(raw: bytes) -> Iterator[str]:
    """What base64 makes of it wherever it begins in a text, without what its neighbours change."""
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode()
        inner = encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")
