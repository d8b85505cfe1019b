"""One fleet for all faults: each begins again what the one before killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.engines.temporal.faults.story import RemoteFleet, Story, fleet_in

if TYPE_CHECKING:
    from collections.abc import Iterator

LEASE = 4.0


@pytest.fixture(scope="session")
def fleet(clean_home: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteFleet]:
    del clean_home  # made first, so that what is begun here is nobody's leftover
    with fleet_in(tmp_path_factory.mktemp("fleet"), LEASE) as begun:
        yield begun


@pytest.fixture
def story(fleet: RemoteFleet) -> Story:
    fleet("begin")
    number = len([each for each in fleet.folder.iterdir() if each.name.startswith("T")]) + 1
    begun = Story(fleet, f"T{number:03}")
    begun.begin()
    return begun
