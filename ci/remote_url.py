"""Where a repository is hosted, read from the url of a git remote.

Owns the forms of such urls. Must not send requests, and never keeps a user name, password or token
that a url contains.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from ci.forge_registry import forge_kinds

_SCP = re.compile(r"(?:[^@/\s]+@)?(?P<host>\[[0-9A-Fa-f:]+\]|[^:/\\\s@\[\]]+):(?P<path>[^\s]+)")
_SCHEMES = frozenset({"http", "https", "ssh", "git", "git+ssh", "ssh+git", "git+https"})
_DRIVE = 1
"""Letters before the colon of a Windows path."""


@dataclass(frozen=True, slots=True)
class RemoteUrl:
    """A repository on a host."""

    host: str
    """In lower case, without a port."""
    path: str
    """owner/name, or more groups before the name."""
    web: str
    """Where its pages are: scheme, host and port, without a slash at the end."""

    @property
    def place(self) -> str:
        """The repository for people: github.com/owner/name."""
        return f"{self.web.partition('://')[2]}/{self.path}"


def parse(url: str) -> RemoteUrl | None:
    """Read a git remote's url; None if it is a folder or cannot be a forge's."""
    url = url.strip()
    if "://" in url:
        return _from_url(url)
    scp = _SCP.fullmatch(url)
    if scp is None or len(scp["host"]) <= _DRIVE:
        return None
    return _made(scp["host"].strip("[]"), None, scp["path"], web_scheme="https")


def kind_of(host: str) -> str | None:
    """Return the forge that a host runs, by its name; None if the name does not tell."""
    host, kinds = host.lower(), forge_kinds()
    known = (kind.name for kind in kinds if host in kind.hosts)
    return next(known, None) or next((kind.name for kind in kinds if kind.runs(host)), None)


def _from_url(url: str) -> RemoteUrl | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if host is None or parts.scheme.lower() not in _SCHEMES:
        return None
    pages = parts.scheme.lower() if parts.scheme.lower() in {"http", "https"} else ""
    # The port of ssh says nothing about where the pages are.
    return _made(host, port if pages else None, parts.path, web_scheme=pages or "https")


def _made(host: str, port: int | None, path: str, *, web_scheme: str) -> RemoteUrl | None:
    host = _forge_host(host.lower())
    path = unquote(path).strip("/").removesuffix(".git").rstrip("/")
    steps = path.split("/")
    if len(steps) < 2 or not all(steps) or {".", ".."} & set(steps):  # noqa: PLR2004  # owner/name
        return None
    shown = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}[web_scheme]
    return RemoteUrl(
        host=host,
        path=path,
        web=f"{web_scheme}://{shown}" + (f":{port}" if port not in {None, usual} else ""),
    )


def _forge_host(host: str) -> str:
    for kind in forge_kinds():
        for known, others in kind.hosts.items():
            # People name the same host `github.com-work` in ~/.ssh/config, once per account.
            if host in others or re.match(rf"{known}[-_]", host):
                return known
    return host
