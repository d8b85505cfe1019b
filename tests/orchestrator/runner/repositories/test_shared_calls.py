"""Repositories of one process that use one token: one budget of calls, one set of connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.errors import LimitedError
from ci.http.shared_clients import SharedClients
from lifecycle.settings import Settings
from orchestrator.runner.providers import ProviderInputs, make_providers
from tests.begun import begun
from tests.ci.forge_server import Allowance, answers, forge_server

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.runner.providers import Providers

LIMIT = 4


def present() -> float:
    return 1_700_000_000.0


def made(folder: Path, name: str, url: str, clients: SharedClients, token: str) -> Providers:
    repo = begun(folder / name, {"README.md": "x"})
    settings = Settings.model_validate(
        {"providers": ("gitea",), "forge_url": f"{url}/api/v1", "forge_repo": f"team/{name}"}
    )
    environ = {"LOOPWRIGHT_GITEA_TOKEN": token}
    inputs = ProviderInputs(repo, lambda: settings, environ, present, clients=clients)
    return make_providers(inputs)


async def test_what_one_uses_up_the_other_does_not_ask_for(tmp_path: Path) -> None:
    async with forge_server() as server:
        server.route("GET", "/api/v1/repos/team/{name}", lambda asked: answers(
            {"full_name": f"team/{asked.names['name']}"}
        ))  # fmt: skip
        server.allowance = Allowance(LIMIT, 600, present)
        clients = SharedClients()
        app, site, other = (
            made(tmp_path, name, server.url, clients, token).forge
            for name, token in (("app", "one"), ("site", "one"), ("other", "another"))
        )
        assert app is not None
        assert site is not None
        assert other is not None
        await app.called()
        await site.called()
        assert app.budget.remaining == site.budget.remaining == LIMIT - 2
        assert other.budget.remaining is None
        assert server.connections == 1

        for _ in range(LIMIT - 2):
            await app.called()
        with pytest.raises(LimitedError):
            await app.called()
        asked = len(server.requests)
        with pytest.raises(LimitedError, match="is not asked for another"):
            await site.called()
        assert len(server.requests) == asked, "the forge heard nothing of it"

        # Another token has a limit of its own: that it is not asked for would be a fault.
        with pytest.raises(LimitedError, match="API rate limit exceeded"):
            await other.called()
        assert len(server.requests) == asked + 1

        await app.aclose()
        assert server.open_connections > 0, "the other repository still uses it"
        await site.aclose()
        await other.aclose()
