"""Explains to people what git and a server said about a push or a fetch.

Owns cleaning those messages: a server may return anything, even the token it was sent. Pure
functions.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.remote.address import without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 600
_SHORTEST_SECRET = 6
_HIDDEN = "***"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*\x07?|.)?")
_UNPRINTABLE = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
_SAID = re.compile(r"(?:fatal|error|remote|ssh): *(.*\S)|(.*(?:[Pp]ermission|[Kk]ey ).*)")
_QUOTED = re.compile(r"'[^']*'")
_NOISE = re.compile(
    r"failed to push some refs|Could not read from remote repository|unable to read askpass|"
    r"remote end hung up"
)
_UNREACHABLE = (
    r"resolve host|Failed to connect|Couldn't connect|[Cc]onnection (?:refused|reset|timed|closed)|"
    r"timed out|unreachable|No route|hung up|Empty reply|early EOF|SSL|TLS"
)
_MEANINGS = {
    r"could not read (?:Username|Password)|Authentication failed|returned error: 401": (
        "it does not accept the credentials: check that the token is right, has not expired and "
        "is for this repository"
    ),
    r"returned error: 403": (
        "it accepts the credentials, but forbids this: give the token write access to contents, "
        "and check whether a rule protects the branch"
    ),
    r"returned error: 30\d|update url base from redirection": (
        "it redirects to another address, and credentials are not sent there: set the remote to "
        "its new address (some hosts want `.git` at its end), and start again"
    ),
    r"[Rr]epository .*not found|returned error: 404|does not appear to be a git repo": (
        "there is no such repository, or it is not visible to us: check the address and for which "
        "repositories the token or key is"
    ),
    r"dubious ownership": (
        "it belongs to another user of this machine, and git refuses to use it: use ssh or https, "
        "or change its owner"
    ),
    r"Host key verification failed": (
        "ssh does not know this host, or its key changed: connect once by hand and compare the key"
    ),
    r"Permission denied \(": (
        "it accepts none of the keys of ssh: load one into the agent (`ssh-add`) or name it in "
        "~/.ssh/config; a passphrase cannot be typed here"
    ),
    r"certificate": (
        "its certificate is not trusted here: for an authority of your own set SSL_CERT_FILE"
    ),
    r"returned error: (?:5\d\d|429)": ("it has an internal problem or is overloaded: retry later"),
    r"git-http-push failed|is this a git repository|protocol error|bad line length": (
        "it is not a git server: check the address, and whether a proxy or a login page answers "
        "instead"
    ),
    r"mismatched algorithms|object format|hash algorithm": (
        "it uses another hash for commit ids: SHA-1 and SHA-256 do not mix"
    ),
    _UNREACHABLE: (
        "it cannot be reached, or disconnected: check that the host is up and the network works"
    ),
}


@dataclass(frozen=True, slots=True)
class Status:
    """What `push --porcelain` says of one branch."""

    flag: str = ""
    summary: str = ""

    @property
    def is_there(self) -> bool:
        """Whether the branch there is at what was pushed."""
        return bool(self.flag) and self.flag in " +*="

    @property
    def is_stale(self) -> bool:
        """Whether the branch there was not where it was expected."""
        return "(stale info)" in self.summary


def pushed(output: str, ref: str) -> Status:
    """Return the status of the ref."""
    for line in output.splitlines():
        fields = line.split("\t")
        if len(fields) == 3 and fields[1].endswith(f":{ref}"):  # noqa: PLR2004  # flag, names, summary
            return Status(fields[0], fields[2])
    return Status()


def secrets_of(lines: Iterable[str]) -> tuple[str, ...]:
    """Return all secrets in authorization headers; the longest first."""
    found = set()
    for line in lines:
        value = line.partition(": ")[2]
        for word in (value, *value.split()):
            found |= {word, *_pair(word)}
    return tuple(sorted((each for each in found if len(each) >= _SHORTEST_SECRET), key=_length))


def cleaned(text: str, secrets: Iterable[str] = ()) -> str:
    """Return an external message on one line, without secrets and control characters."""
    text = _SEQUENCE.sub("", text)
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    text = without_credentials(_UNPRINTABLE.sub(" ", text))
    text = re.sub(r" {2,}", " ", text).strip()
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."


def explained(stderr: str, secrets: Iterable[str] = (), summary: str = "") -> str:
    """Say why git failed: what it means, if known, and git's own message."""
    lines = [line.strip() for line in _SEQUENCE.sub("", stderr).splitlines()]
    said = [found[1] or found[2] for line in lines if (found := _SAID.match(line))]
    words = [each for each in said if not _NOISE.search(each)] or said
    if summary:
        words = [summary, *words]
    quoted = cleaned("; ".join(words) or stderr, secrets) or "it gave no reason"
    # Neither lines of the server nor names that git quotes determine the cause.
    own = "\n".join(_QUOTED.sub("", each) for each in lines if not each.startswith("remote:"))
    meaning = next((each for cause, each in _MEANINGS.items() if re.search(cause, own)), "")
    return f"{meaning}. git says: {quoted}" if meaning else f"git says: {quoted}"


def _pair(word: str) -> tuple[str, ...]:
    try:
        pair = b64decode(word, validate=True).decode()
    except (Base64Error, ValueError):
        return ()
    return (pair, *pair.split(":"))


def _length(secret: str) -> tuple[int, str]:
    return -len(secret), secret
