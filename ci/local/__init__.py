"""CI and pull requests without a forge: gates run here, merges in the local repository."""

from ci.local.provider import LocalCIProvider

__all__ = ["LocalCIProvider"]
