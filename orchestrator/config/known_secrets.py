"""Which secrets this process knows of: those that agents get, and those that we use ourselves.

Must not hold any: it reads the variables it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci.forge_registry import forge_kinds
from runtime import environment
from runtime.masking.masker import Masker, secrets_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    Header = Callable[[], Awaitable[Mapping[str, str]]]


def masker_of(environ: Mapping[str, str], passed: Iterable[str] = ()) -> Masker:
    """Return what masks the secrets of these variables that agents get or that we use ourselves.

    Those that agents get beside (of their plan, of their program) are learnt when they get them.
    """
    names = {*environment.allowed(environ), *passed}
    names |= {variable for kind in forge_kinds() for variable in kind.token_variables}
    names |= {name for name in environ if name.startswith("LOOPWRIGHT_")}
    return Masker(secrets_of(environ, sorted(names)))


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
