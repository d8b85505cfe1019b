"""GitHub as emulate serves it, and as a small server plays it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from tests.ci.forge_server import forge_server
from tests.ci.github.github_served import Served
from tests.ci.github.github_world import EmulatedWorld
from tests.tools.github_api import fault_of
from tests.tools.github_graphql import answer_fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.ci.forge_server import Asked
    from tests.ci.github.emulated import Emulated


def told(asked: Asked) -> tuple[str, str, dict[str, str], Any]:
    # GitHub Enterprise has the same API below a path of its own.
    path = re.sub("^/api(/v3)?(?=/)", "", unquote(asked.path))
    return asked.method, path, asked.query, asked.json() if asked.body else None


def misplayed(asked: Asked) -> str:
    """Return in which fields our own answer to a GraphQL query is not of its form."""
    return answer_fault(asked.json()["query"], json.loads(asked.told or b"null"))


@pytest.fixture
async def world(tmp_path: Path, emulated: Emulated) -> AsyncIterator[EmulatedWorld]:
    async with EmulatedWorld.running(tmp_path, emulated) as world:
        yield world


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with forge_server() as server:
        served = Served(server)
        yield served
        await served.forge.aclose()
        faults = {fault_of(*told(each)) for each in server.requests}
        faults |= {misplayed(each) for each in server.requests if each.path.endswith("/graphql")}
        assert not faults - {""}, "\n".join(sorted(faults))
