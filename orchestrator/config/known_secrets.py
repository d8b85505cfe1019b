"""Which secrets this process knows of: those that agents get, and those that we use ourselves.

Must not hold any: it reads the variables it is given.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from ci.forge_registry import forge_kinds
from runtime import environment
from runtime.masking.detection import counts
from runtime.masking.masker import Masker, secrets_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    Header = Callable[[], Awaitable[Mapping[str, str]]]

_COLLECTOR = tuple(f"OTEL_EXPORTER_OTLP{kind}" for kind in ("", "_TRACES", "_METRICS"))


def masker_of(environ: Mapping[str, str], passed: Iterable[str] = ()) -> Masker:
    """Return what masks the secrets of these variables that agents get or that we use ourselves.

    Those that agents get beside (of their plan, of their program) are learnt when they get them.
    """
    names = {*environment.allowed(environ), *passed}
    names |= {variable for kind in forge_kinds() for variable in kind.token_variables}
    names |= {name for name in environ if name.startswith("LOOPWRIGHT_")}
    return Masker({**secrets_of(environ, sorted(names)), **_of_collectors(environ)})


def _of_collectors(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets by which telemetry is sent, which the SDK repeats in what it reports."""
    found: dict[str, str] = {}
    for name in _COLLECTOR:
        headers, address = environ.get(f"{name}_HEADERS", ""), environ.get(f"{name}_ENDPOINT", "")
        for header in unquote(headers).split(","):
            # The value alone; also of a header that is written with a colon, which is refused.
            for word in re.split("[=:]", header, maxsplit=1)[-1].split():
                found[f"{name}_HEADERS_{len(found)}"] = word
        for part in _address_parts(address):
            found[f"{name}_ENDPOINT_{len(found)}"] = part
    return {name: value for name, value in found.items() if counts(value)}


def _address_parts(address: str) -> list[str]:
    """Return what of an address is more than a place."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return [address]
    return [parts.username or "", parts.password or "", *(v for _, v in parse_qsl(parts.query))]


def learning(sign: Header, masker: Masker) -> Header:
    """Return the same sign-in, of which the masker learns each token."""
    known = ""

    async def signed() -> Mapping[str, str]:
        nonlocal known
        headers = await sign()
        token = headers.get("Authorization", "").rpartition(" ")[2]
        if token and token != known:
            known = token
            masker.learn({"FORGE_TOKEN": token})
        return headers

    return signed
