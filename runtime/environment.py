"""The environment a child process gets: an allow-list of the runner's, plus what it is given.

It owns the list and nothing else. Secrets never pass by default: no token, key or password
variable, nothing of git, Python, ssh or a cloud tool; an agent that needs one is given it by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALLOWED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP"),
        *("LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    }
)
_ALLOWED_PREFIXES = ("LC_", "XDG_")
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy"})


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """Select what a child may inherit.

    A proxy passes, because without it many machines reach nothing, but not one whose address
    holds a user name and a password.
    """
    return {name: value for name, value in environ.items() if _may_pass(name, value)}


def _may_pass(name: str, value: str) -> bool:
    if name.lower() in _PROXIES:
        return "@" not in value
    return name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)
