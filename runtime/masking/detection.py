"""Which values are secrets, told by the names of variables and by the values themselves.

A value is masked if it has at least eight characters and is not trivial: no common word such as
`password` or `localhost`, no number, date or version, no path, not one or two characters repeated.
A short or common value would tear ordinary text apart and would be guessed anyway. Pure: it reads
no environment. It must not know how a secret is found again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runtime.masking.encodings import address_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHORTEST = 8
_NAME_PARTS = frozenset({
    "key", "keys", "apikey", "token", "tokens", "secret", "secrets", "pass", "passwd",
    "password", "passphrase", "pwd", "auth", "bearer", "credential", "credentials", "creds",
    "cookie", "cookies", "private", "dsn", "signature",
})  # fmt: skip
_NAME_INFIX = re.compile("token|secret|passw|passphrase|credential|apikey", re.IGNORECASE)
_NAME_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")
_HARMLESS_NAMES = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "TERM_SESSION_ID"})
_SECRET_VALUE = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}"
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|gl(?:pat|dt|rt|soat|cbt|ptt|ft)-[\w-]{12,}"
    r"|xox[a-z]-[\w-]{8,}|xapp-[\w-]{8,}|A[KS]IA[A-Z0-9]{12,}|AIza[\w-]{20,}|ya29\.[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.[\w.-]{8,}|hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{16,}"
    r"|dop_v1_[0-9a-f]{16,}|SG\.[\w-]{8,}\.[\w-]{8,})"
)
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|SECRET)[A-Z0-9 ]*-----")
_TRIVIAL = frozenset({
    "password", "passphrase", "changeme", "secret12", "username", "undefined", "disabled",
    "required", "optional", "localhost", "production", "development", "staging", "testing",
    "anonymous", "unlimited", "automatic", "interactive", "subscription", "oauth_token",
    "api_token", "api-token", "x-api-key", "authorization", "keychain", "keyring",
    "bearer_token", "none-needed", "not-needed", "not_needed", "redacted", "placeholder",
    "example12", "12345678", "123456789", "1234567890", "password1", "password123",
    "qwertyuiop", "abcdefgh",
})  # fmt: skip
_OPTION = re.compile(r"(?<![\w-])--?([A-Za-z][\w-]*)(?:=|\s+)[\"']?([^\s\"']+)")
_ASSIGNED = re.compile(r"(?<![\w-])([A-Za-z][\w-]*)[\"']?\s*[=:](?!//)\s*[\"']?([^\s\"'&,;]+)")
_SIGNED_IN = re.compile(r"\b(?:bearer|basic|token)\s+([^\s\"',;]+)", re.IGNORECASE)
_USER = re.compile(r"(?<![\w-])(?:-u|--user)(?:=|\s*)[\"']?[^\s:\"']+:([^\s\"']+)")
_ELSEWHERE = ("$", "<", "{", "env:", "file:")
"""How what stands for a value begins."""
_NUMBER = re.compile(r"[\d\s.,:+/TZ-]+")
_PATH = re.compile(r"(?:~|\.{1,2})?/(?:[^/\s]+/)*[^/\s]*|[A-Za-z]:[\\/][^\n]*")
_RANDOM_PART = re.compile(r"(?=[^/]*[a-z])(?=[^/]*[A-Z])(?=[^/]*[0-9])[^/]{16,}")


def _is_secret_name(name: str) -> bool:
    if name in _HARMLESS_NAMES or name.startswith("GIT_CONFIG_KEY_"):
        return False
    if _NAME_INFIX.search(name):
        return True
    return any(part.lower() in _NAME_PARTS for part in _NAME_SPLIT.split(name))


def holds_secret(name: str, value: str) -> bool:
    """Tell whether a variable holds a secret that can be masked: by the value itself, or its name.

    By itself: a known kind of token, a key, an address with a password.
    """
    return bool(
        _SECRET_VALUE.search(value)
        or _PEM.search(value)
        or any(map(counts, address_secrets(value)))
        or (_is_secret_name(name) and counts(value))
    )


def secrets_of(environ: Mapping[str, str], names: Iterable[str] | None = None) -> dict[str, str]:
    """Select the variables that hold secrets, of all or of these names."""
    wanted = environ if names is None else dict.fromkeys(names)
    return {
        name: environ[name]
        for name in wanted
        if name in environ and holds_secret(name, environ[name])
    }


def secrets_in(text: str) -> list[str]:
    """Return the secrets that stand in a text such as a command line, told as in variables."""
    named = [*_OPTION.findall(text), *_ASSIGNED.findall(text)]
    found = [
        *(token[0] for token in _SECRET_VALUE.finditer(text)),
        *address_secrets(text),
        *_SIGNED_IN.findall(text),
        *_USER.findall(text),
        *(value for name, value in named if _is_secret_name(name)),
    ]
    literal = (each for each in found if not each.startswith(_ELSEWHERE))
    return [each for each in dict.fromkeys(literal) if counts(each)]


def counts(value: str) -> bool:
    """Tell whether a value is long and special enough to be taken out of all text."""
    value = value.strip()
    if len(value) < SHORTEST or len(set(value)) < 3:  # noqa: PLR2004  # one or two characters repeated
        return False
    if value.lower() in _TRIVIAL or _NUMBER.fullmatch(value):
        return False
    return not (_PATH.fullmatch(value) and not _RANDOM_PART.search(value))
