"""The optional parts of the package: how somebody installs one that is missing."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Say how to install an extra."""
    package = f"'loopwright[{extra}]'"
    return f"`uv tool install {package}` or `pip install {package}`"
