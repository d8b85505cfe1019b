"""Where a remote is: its address, understood strictly and without what signs us in.

Owns which ways to another repository there are, and which of them a credential may take. It must
not start a process nor reach anything.
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
    "the address {url} of the remote is none that the runner goes to: {why}. It takes https, ssh "
    "and local paths (http on this machine): `git remote set-url` changes it, at the next start"
)
IN_CLEAR = (
    "{url} is plain http to another machine, and what signs us in would be readable on the way: "
    "give the https or ssh address"
)
BAD_HEADER = "a header line that should sign us in is malformed: look at the token for line breaks"


@dataclass(frozen=True, slots=True)
class Address:
    """One remote."""

    scheme: str
    """As git calls the way to it."""
    url: str
    """As git is given it: nothing that signs in is left in it."""
    origin: str = ""
    """Of a web address: the host alone, to which a header is bound."""
    near: bool = True
    """Whether what is sent does not leave this machine."""
    path: Path | None = None
    """Where it is in the file system, if it is there."""
    authorization: str = ""
    """What the address itself said to sign in with."""

    def header_lines(self, header: Mapping[str, str]) -> tuple[str, ...]:
        """Return the lines that sign us in here; RepositoryError if they may not be sent."""
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
    """Return the address; a relative path is seen from base. RepositoryError if it is none of ours.

    Only what is understood to the last character is passed on: no reader of it can take the host
    for another one.
    """
    if re.match(r"[A-Za-z0-9+.-]*::", url):
        raise _refused(url, "with `::` it names a program")
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
    """Return the address as it may be shown to anybody."""
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
    """Return the user of an ssh address with its @; None if there is one that nobody has."""
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
