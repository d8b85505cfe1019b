"""The address of a remote, parsed strictly, with the credentials taken out.

Owns the supported kinds of address, and to which of them credentials may be sent. It must not start
a process nor connect to anything.
"""

from __future__ import annotations

import ipaddress
import os
import re
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from runtime.errors import RepositoryError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMES = frozenset({"https", "http", "ssh", "file"})
_HOST = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\]"
_NAME = re.compile(_HOST)
_SHORT = re.compile(rf"(?:[A-Za-z0-9._][A-Za-z0-9._+-]*@)?(?:{_HOST}):(?![:/]{{2}})[^\s\\]+")
"""The short form of ssh: `git@host:path`."""
_STRANGE = re.compile(r"[\x00-\x20\x7f\\]")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

NO_ADDRESS = (
    "the remote {name!r} has no address: `git remote add {name} <url>`, and start the runner again"
)
NOT_FOR_US = (
    "the address {url} of the remote is not supported: {why}. Supported are https, ssh and local "
    "paths (http on this machine): `git remote set-url` changes it, from the next start on"
)
IN_CLEAR = (
    "{url} is plain http to another machine, and the credentials could be read on the way: "
    "give the https or ssh address"
)
BAD_HEADER = "the authorization header is malformed: check the token for line breaks"


@dataclass(frozen=True, slots=True)
class Address:
    """One remote."""

    scheme: str
    """The scheme, as git names it."""
    url: str
    """As git gets it: without credentials."""
    origin: str = ""
    """Of a web address: scheme and host, to which a header is bound."""
    near: bool = True
    """Whether it is on this machine."""
    path: Path | None = None
    """Its path, if it is in the file system."""
    authorization: str = ""
    """The credentials from the address itself."""

    def header_lines(self, header: Mapping[str, str]) -> tuple[str, ...]:
        """Return the authorization header; RepositoryError if it must not be sent."""
        if not self.origin:
            return ()
        lines = tuple(f"{name}: {value}" for name, value in header.items())
        if not all(map(_HEADER_NAME.fullmatch, header)) or _unprintable("".join(lines)):
            raise RepositoryError(BAD_HEADER)
        if not lines and self.authorization:
            lines = (f"Authorization: {self.authorization}",)
        if lines and self.scheme == "http" and not self.near:
            raise RepositoryError(IN_CLEAR.format(url=self.url))
        return lines


def understood(url: str, base: Path) -> Address:
    """Parse an address; a relative path starts at base. RepositoryError if not supported.

    Every character must be understood, so that no other parser can read another host.
    """
    if re.match(r"[A-Za-z0-9+.-]*::", url):
        raise _refused(url, "`::` in it names a program")
    if "://" in url:
        return _full(url)
    before = url.partition("/")[0]
    if ":" in before:
        if not _SHORT.fullmatch(url):
            raise _refused(url, "its host or path has characters that do not belong there")
        return Address("ssh", url, near=False)
    if not url or "\0" in url or "\n" in url:
        raise _refused(url, "it is empty or has a line break")
    path = Path(os.path.abspath(base / url))  # noqa: PTH100  # links kept: they are the user's
    return Address("file", str(path), path=path)


def without_credentials(url: str) -> str:
    """Return the address without credentials."""
    return _CREDENTIALS.sub("", url)


def _full(url: str) -> Address:
    scheme = url.partition("://")[0]
    if scheme not in _SCHEMES:
        raise _refused(url, f"{scheme}:// is not among them")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refused(url, "its host or port cannot be read") from error
    if _STRANGE.search(url):
        raise _refused(url, "it has characters that do not belong in a url")
    if scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise _refused(url, "a file is on this machine")
        return Address(scheme, url, path=Path(unquote(parts.path)))
    user, host = _who(parts), parts.netloc.rpartition("@")[2]
    name = host.removesuffix(f":{port}")
    if not _NAME.fullmatch(name):
        raise _refused(url, "its host cannot be read")
    rest = parts._replace(scheme="", netloc="").geturl()
    if scheme == "ssh":
        if user is None:
            raise _refused(url, "its user cannot be read")
        return Address(scheme, f"ssh://{user}{host}{rest}", near=False)
    signs = ""
    if parts.password:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password)}"
        signs = "Basic " + b64encode(pair.encode()).decode()
    origin = f"{scheme}://{host}/"
    return Address(scheme, f"{scheme}://{host}{rest}", origin, _is_near(name), authorization=signs)


def _who(parts: SplitResult) -> str | None:
    """Return the user of an ssh address with its @; None if it is not valid."""
    if not parts.username:
        return ""
    return f"{parts.username}@" if re.fullmatch(r"[\w.][\w.+-]*", parts.username) else None


def _is_near(name: str) -> bool:
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name.lower() == "localhost"


def _unprintable(text: str) -> bool:
    return any(not "\x20" <= each <= "\x7e" for each in text)


def _refused(url: str, why: str) -> RepositoryError:
    return RepositoryError(NOT_FOR_US.format(url=repr(without_credentials(url)), why=why))
