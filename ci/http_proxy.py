"""Which proxy, if any, the environment names for an address. Pure: the environment is passed in."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def proxy_for(scheme: str, host: str, env: Mapping[str, str]) -> str:
    """Return the proxy's address; "" if the host is asked directly, as this machine always is."""
    if _is_here(host) or any(_names(each, host) for each in _value("no_proxy", env).split(",")):
        return ""
    proxy = _value(f"{scheme}_proxy", env) or _value("all_proxy", env)
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names(entry: str, host: str) -> bool:
    """Say whether an entry of no_proxy means the host: `*`, the host, or a domain it is in."""
    name = entry.strip().lower().lstrip(".")
    return name == "*" or (name != "" and (host == name or host.endswith(f".{name}")))


def _value(name: str, env: Mapping[str, str]) -> str:
    return (env.get(name) or env.get(name.upper()) or "").strip()
