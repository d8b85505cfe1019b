"""Makes sure that the packages we import are ours and not others of the same name.

Cheap enough for the start of every loop: it imports nothing that is not imported anyway.
"""

from __future__ import annotations

import importlib.util
import os
import sys

from orchestrator.errors import OrchestratorError

PACKAGES = ("lifecycle", "runtime", "ci", "communication", "templates", "orchestrator")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # noqa: PTH120  # pathlib costs start-up time
"""The folder that holds our packages."""


class ShadowedPackageError(OrchestratorError):
    """A package of ours is hidden by another of the same name."""


def check_own_packages() -> None:
    """Raise ShadowedPackageError if any of our packages would come from elsewhere."""
    for name in PACKAGES:
        found = origin(name)
        if found is None or home(found) != ROOT:
            raise ShadowedPackageError(explain(name, found))


def origin(name: str) -> str | None:
    """Return the file a package is, or would be, loaded from."""
    loaded = sys.modules.get(name)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(name)
    return spec.origin if spec is not None else None


def home(path: str) -> str:
    """Return the folder that holds the package of this `__init__.py`."""
    return os.path.dirname(os.path.dirname(os.path.realpath(path)))  # noqa: PTH120  # as above


def explain(name: str, found: str | None) -> str:
    """Say what hides a package, and how to get rid of it."""
    if found is None:
        return (
            f"the package {name} of this installation is gone (it should be in {ROOT}); "
            "install loopwright again: `uv tool install --reinstall loopwright`"
        )
    return (
        f"the package {name} would be loaded from {found}, which is not ours ({ROOT}); use the "
        "`loopwright` command instead of `python -m`, take the folder out of PYTHONPATH, or "
        "install loopwright in an environment of its own: `uv tool install loopwright`"
    )
