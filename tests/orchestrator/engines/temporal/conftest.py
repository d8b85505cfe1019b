"""One development server, and one stage, for all tests of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.begun import begun
from tests.lifecycle.world import World
from tests.orchestrator.engines.temporal.dev_server import dev_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.orchestrator.engines.temporal.stage import Stage


@pytest.fixture
def world(tmp_path: Path) -> World:
    begun(tmp_path / "repo", {"a.txt": "a\n"})
    return World(tmp_path)


@pytest.fixture(scope="session")
def temporal_address(clean_home: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    del clean_home  # made first, so that what is begun here is nobody's leftover
    # Else it has each client change its connection every five minutes, under whatever test runs.
    lasting = ("--dynamic-config-value", 'frontend.keepAliveMaxConnectionAge="24h"')
    with dev_server(tmp_path_factory.mktemp("temporal"), *lasting) as address:
        yield address


@pytest.fixture(scope="session")
def sdk(clean_home: object) -> None:
    """Have the SDK open what it keeps open, so that no test is blamed for it."""
    from temporalio.runtime import Runtime  # noqa: PLC0415  # as heavy

    del clean_home
    Runtime.default()


@pytest.fixture(scope="session")
def stage(temporal_address: str) -> Iterator[Stage]:
    from tests.orchestrator.engines.temporal.stage import Stage  # noqa: PLC0415  # loads the SDK

    made = Stage(temporal_address)
    yield made
    made.close()
