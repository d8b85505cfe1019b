"""Where a repository is kept, read from the url of a git remote.

Owns the forms of such urls and the names of well-known forges. Must not ask anybody, and never
keeps a user name, password or token that a url carries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

Kind = Literal["github", "gitlab", "gitea"]

_SCP = re.compile(r"(?:[^@/\s]+@)?(?P<host>\[[0-9A-Fa-f:]+\]|[^:/\\\s@\[\]]+):(?P<path>[^\s]+)")
_SCHEMES = frozenset({"http", "https", "ssh", "git", "git+ssh", "ssh+git", "git+https"})
_DRIVE = 1
"""Letters before the colon of a Windows path."""

_WELL_KNOWN: dict[str, Kind] = {
    "github.com": "github",
    "gitlab.com": "gitlab",
    "codeberg.org": "gitea",
    "gitea.com": "gitea",
}
_SPOKEN_AS = {
    "www.github.com": "github.com",
    "ssh.github.com": "github.com",
    "www.gitlab.com": "gitlab.com",
    "altssh.gitlab.com": "gitlab.com",
}
"""Other names of the same forge, as for ssh over the port of https."""

_WORDS: tuple[tuple[str, Kind], ...] = (
    ("github", "github"),
    ("gitlab", "gitlab"),
    ("gitea", "gitea"),
    ("forgejo", "gitea"),
    ("codeberg", "gitea"),
)


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
    """Read a git remote's url; None if it names a folder or nothing that a forge could have."""
    url = url.strip()
    if "://" in url:
        return _from_url(url)
    scp = _SCP.fullmatch(url)
    if scp is None or len(scp["host"]) <= _DRIVE:
        return None
    return _made(scp["host"].strip("[]"), None, scp["path"], web_scheme="https")


def kind_of(host: str) -> Kind | None:
    """Tell by its name which forge a host runs; None if the name does not say."""
    host = host.lower()
    if host in _WELL_KNOWN:
        return _WELL_KNOWN[host]
    if host.endswith(".ghe.com"):
        return "github"
    return next((kind for word, kind in _WORDS if word in host), None)


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
    if host in _SPOKEN_AS:
        return _SPOKEN_AS[host]
    # `github.com-work` is how people name the same host in ~/.ssh/config, once per account.
    return next((known for known in _WELL_KNOWN if re.match(rf"{known}[-_]", host)), host)
