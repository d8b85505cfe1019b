"""Which engine a command runs lifecycles by, and what that lacks on this machine.

Loads nothing of an engine that was not chosen.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from lifecycle.settings import TEMPORAL
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifecycle.settings import EngineSettings

PACKAGE = "temporalio"
RUNS_TEMPORAL = False
"""Whether `up` and `serve` can run lifecycles by workflows yet."""


def require_engine(settings: EngineSettings, environ: Mapping[str, str]) -> None:
    """Refuse an engine that cannot run here; ConfigError says what lacks."""
    lacks = lacking(settings, environ)
    if lacks:
        raise ConfigError(lacks)
    if settings.engine == TEMPORAL and not RUNS_TEMPORAL:
        raise ConfigError(
            'engine = "temporal" does not run lifecycles in this version yet: use engine = "local"'
        )


def lacking(settings: EngineSettings, environ: Mapping[str, str]) -> str:
    """Say what lacks for the engine that is chosen, and what to do; empty if nothing does."""
    if settings.engine != TEMPORAL:
        return ""
    if setting := _unset(settings):
        return f'engine = "temporal" needs {setting}: set it in loopwright.toml or the user file'
    variable = settings.temporal_api_key_env
    if variable and not environ.get(variable):
        return (
            f"temporal_api_key_env names {variable}, which is not set here: set it to the API key "
            "of the server"
        )
    if find_spec(PACKAGE) is None:
        return (
            'engine = "temporal" needs the Temporal SDK, which is not installed: install '
            "`loopwright[temporal]`"
        )
    return ""


def _unset(settings: EngineSettings) -> str:
    """Say which setting lacks; empty if none does."""
    if not settings.temporal_address:
        return "temporal_address, the HOST:PORT of the server"
    if not settings.temporal_namespace:
        return "temporal_namespace, the namespace on the server"
    if bool(settings.temporal_tls_cert) != bool(settings.temporal_tls_key):
        missing = "key" if settings.temporal_tls_cert else "cert"
        other = "cert" if settings.temporal_tls_cert else "key"
        return f"temporal_tls_{missing}, which goes with temporal_tls_{other}"
    return ""
