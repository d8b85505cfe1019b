"""Which engine a command runs lifecycles by, and what that lacks on this machine.

Loads nothing of an engine that was not chosen.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lifecycle.settings import TEMPORAL
from orchestrator.errors import ConfigError
from orchestrator.extras import how_to_install

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from lifecycle.engine.owners import Owners
    from lifecycle.perform.performer import Performer
    from lifecycle.services import MachineServices
    from lifecycle.settings import EngineSettings, Settings

    MakeOwners = Callable[[MachineServices, Performer], Owners]

PACKAGE = "temporalio"


def require_engine(settings: EngineSettings, environ: Mapping[str, str]) -> None:
    """Refuse an engine that cannot run here; ConfigError says what lacks."""
    lacks = lacking(settings, environ)
    if lacks:
        raise ConfigError(lacks)


@asynccontextmanager
async def owners_for(
    repo: Path,
    settings: Settings,
    environ: Mapping[str, str],
    *,
    local: bool,
    header: Callable[[], Awaitable[Mapping[str, str]]] | None = None,
) -> AsyncIterator[MakeOwners | None]:
    """Have who owns lifecycles, by the engine that is chosen; None are those of this process.

    `local` commands run what they run in this process, whatever is chosen for others; `header`
    signs in at the remote.
    """
    if local or settings.engine != TEMPORAL:
        yield None
        return
    from orchestrator.engines.temporal.joined import remote_owners  # noqa: PLC0415  # loads its SDK

    async with remote_owners(repo, settings, environ, header) as owners:
        yield owners


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
            'engine = "temporal" needs the Temporal SDK, which is not installed: '
            f"{how_to_install('temporal')}"
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
