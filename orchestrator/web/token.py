"""The bearer token: made once, kept in a file that only its owner can read, never shown by itself.

Owns the file's place, its permissions and its form. Must not know who asks for it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "LOOPWRIGHT_TOKEN"
WORKER_VARIABLE = "LOOPWRIGHT_WORKER_TOKEN"
_WORKER_FILE = "worker-token"
SHORTEST = 16
"""Characters; a shorter one can be guessed."""
LONGEST = 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class TokenError(OrchestratorError):
    """No token may be used."""


@dataclass(frozen=True, slots=True)
class Token:
    """What a client must send, and where it is kept."""

    value: str = field(repr=False)
    path: Path | None = None
    """None when it came from the environment."""
    on_purpose: bool = False
    """Chosen by a person for this server; only then other machines may connect."""
    variable: str = VARIABLE

    @property
    def place(self) -> str:
        """Say where it is."""
        return str(self.path) if self.path is not None else f"the variable {self.variable}"


def find_token(
    environ: Mapping[str, str], *, repo: Path, given: str | None = None, variable: str = ""
) -> Token:
    """Return the token: of the file that was named, of the variable, else our own file's."""
    if given is not None:
        path = Path(given).expanduser()
        try:
            return Token(_read(path), path, on_purpose=True)
        except FileNotFoundError as problem:
            raise TokenError(
                f"{path} does not exist; write a long random text into it, then chmod 600 {path}"
            ) from problem
    if variable:
        return Token(_checked(variable.strip(), VARIABLE), on_purpose=True)
    return _own(own_file(environ), repo)


def find_worker_token(server: Token, *, repo: Path, variable: str = "") -> Token:
    """Return the token by which workers hand in files: of its variable, else our own file's.

    Where the server's token was given on purpose, no file is made: it is made of that token.
    """
    if variable:
        value = _checked(variable.strip(), WORKER_VARIABLE)
        return Token(value, on_purpose=True, variable=WORKER_VARIABLE)
    if server.on_purpose or server.path is None:
        made = hmac.new(server.value.encode(), b"loopwright workers", hashlib.sha256)
        return Token(made.hexdigest(), server.path, on_purpose=True, variable=server.variable)
    return _own(server.path.with_name(_WORKER_FILE), repo)


def _own(path: Path, repo: Path) -> Token:
    if path.resolve().is_relative_to(repo.resolve()):
        raise TokenError(
            f"the token would be kept in {path}, inside of the repository, where agents and "
            "commits may get hold of it; name another place with --token-file"
        )
    with suppress(FileNotFoundError):
        return Token(_read(path), path)
    return Token(_make(path), path)


def own_file(environ: Mapping[str, str]) -> Path:
    """Name the file where the token of this user is kept."""
    given, home = environ.get("XDG_CONFIG_HOME", ""), environ.get("HOME", "")
    if given and Path(given).is_absolute():
        return Path(given, "loopwright", "token")
    if not home:
        raise TokenError(
            "there is no place for the token: HOME is not set; set it, or name a file with "
            "--token-file"
        )
    return Path(home, ".config", "loopwright", "token")


def _read(path: Path) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise TokenError(
            f"the token in {path} cannot be read ({problem.strerror}); it must be a plain file "
            "of yours; fix that, or name another with --token-file"
        ) from problem
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise TokenError(
                f"{path} is not a plain file; move it away, and a new token is made there"
            )
        if found.st_mode & _OTHERS or found.st_uid not in (os.geteuid(), 0):
            raise TokenError(
                f"others may read the token in {path}: remove it, so that a new one is made, or "
                f"if nobody has seen it: chmod 600 {path}"
            )
        text = os.read(file, LONGEST + 1).decode("ascii", errors="replace")
    finally:
        os.close(file)
    return _checked(text.strip(), str(path))


def _checked(text: str, place: str) -> str:
    usable = text.isascii() and text.isprintable() and " " not in text
    if not usable or not SHORTEST <= len(text) <= LONGEST:
        raise TokenError(
            f"{place} does not hold a valid token: it takes {SHORTEST} to {LONGEST} printable "
            "ASCII characters without blanks, in one line"
        )
    return text


def _make(path: Path) -> str:
    """Write a fresh token; if several processes do so at once, one wins and all use its token."""
    fresh = path.with_name(f".token.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(fresh, flags, 0o600)
        try:
            os.write(file, secrets.token_urlsafe(32).encode() + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
        try:
            with suppress(FileExistsError):
                path.hardlink_to(fresh)
        finally:
            fresh.unlink()
        return _read(path)
    except OSError as problem:
        raise TokenError(
            f"no token can be made in {path} ({problem.strerror}); fix that folder, or name "
            "another file with --token-file"
        ) from problem
