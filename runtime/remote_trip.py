"""What a git that goes to another repository is given: the way, and what signs us in there.

Owns the environment of such a git beyond that of every git of ours. Pure, but for looks at where a
repository is; it starts nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import RepositoryError
from runtime.git import set_over
from runtime.gitview import locate
from runtime.remote_words import Status, explained, secrets_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.gitcall import GitResult
    from runtime.gitview import Place
    from runtime.remote_address import Address

_SSH = (
    "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ControlMaster=no -o PermitLocalCommand=no"
)
_PROXIES = frozenset({"https_proxy", "all_proxy", "no_proxy"})
_TRUST = {
    "SSL_CERT_FILE": "GIT_SSL_CAINFO",
    "SSL_CERT_DIR": "GIT_SSL_CAPATH",
    "GIT_SSL_CAINFO": "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH": "GIT_SSL_CAPATH",
}
_SETTINGS = (
    # A header would go with us to wherever we are sent.
    ("http.followRedirects", "false"),
    # Of a store of objects beside ours git would ask another git, with that one's configuration.
    ("core.alternateRefsCommand", "true"),
)
ITSELF = (
    "the remote {url} is this repository itself, and its hooks would run: `git remote set-url` "
    "to another one, and start the runner again"
)


@dataclass(frozen=True, slots=True)
class Trip:
    """One way to another repository and back."""

    url: str
    place: Place
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    """What must be in no text."""

    def tell(self, what: str, result: GitResult, status: Status | None = None) -> str:
        """Say what the other side did not do, and why."""
        summary = "" if status is None else status.summary
        return f"{self.url} {what}: {explained(result.stderr, self.secrets, summary)}"


def plan_trip(
    address: Address, place: Place, header: Mapping[str, str], environ: Mapping[str, str]
) -> Trip:
    """Return the way there; RepositoryError if it is one that must not be gone."""
    if address.path is not None and _is_itself(address.path, place):
        raise RepositoryError(ITSELF.format(url=address.url))
    lines = address.header_lines(header)
    # By the environment: other users of the machine see arguments, and a file would stay.
    settings = [*_SETTINGS, *((f"http.{address.origin}.extraHeader", line) for line in lines)]
    env = {
        # Without a checkout: no file in one has a say in this.
        "GIT_DIR": str(place.common_dir),
        "GIT_ALLOW_PROTOCOL": address.scheme,
        **set_over(settings),
    }
    return Trip(address.url, place, env | _means(address, environ), secrets_of(lines))


def _means(address: Address, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what of the user's environment one needs to get there."""
    if address.scheme == "ssh":
        means = {"GIT_SSH_COMMAND": _SSH, "GIT_SSH_VARIANT": "ssh", "SSH_ASKPASS_REQUIRE": "never"}
        return means | {key: environ[key] for key in ("SSH_AUTH_SOCK",) if key in environ}
    if not address.origin:
        return {}
    trust = {own: environ[name] for name, own in _TRUST.items() if environ.get(name)}
    # Plain http stays on this machine, and so does what signs us in.
    far = address.scheme == "https"
    proxies = {key: value for key, value in environ.items() if far and key.lower() in _PROXIES}
    # A .netrc there would sign us in as somebody else.
    return {"HOME": os.devnull} | trust | proxies


def _is_itself(path: Path, place: Place) -> bool:
    ours = os.path.realpath(place.common_dir)
    for there in (path, path.with_name(f"{path.name}.git")):
        found = locate(there) if there.exists() else None
        if found is not None and os.path.realpath(found.common_dir) == ours:
            return True
    return False
