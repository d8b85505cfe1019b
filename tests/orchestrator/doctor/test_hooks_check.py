"""`loopwright hooks check`: what a forge sent is compared with what came here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci.webhook_delivery import Delivery
from lifecycle.clock import SystemClock
from lifecycle.paths import Paths
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.control.webhooks import HooksError
from orchestrator.doctor import hooks_check
from tests.ci.conftest import described
from tests.ci.forge_server import answers, fails, forge_server
from tests.ci.github.github_served import check_requests
from tests.ci.ports import git

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from orchestrator.doctor.hooks_check import HooksReport
    from tests.ci.forge_server import ForgeServer

__all__ = ["described"]

ENVIRON = {"LOOPWRIGHT_GITHUB_TOKEN": "t", "LOOPWRIGHT_GITHUB_HOOK_SECRET": "s"}
AT = "/repos/team/app/hooks"
HOOK = {"id": 1, "active": True, "config": {"url": "https://loops.example/hooks/github"}}


@pytest.fixture
async def server() -> AsyncIterator[ForgeServer]:
    async with forge_server() as running:
        running.route("GET", AT, answers([HOOK]))
        running.route("GET", f"{AT}/1/deliveries", answers([sent("a1"), sent("b2")]))
        yield running
        check_requests(running)


@pytest.fixture
async def repo(tmp_path: Path, server: ForgeServer) -> Path:
    repo = tmp_path / "r"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "loopwright.toml").write_text(
        f'providers = ["github"]\nforge_url = "{server.url}"\nforge_repo = "team/app"\n'
    )
    database = Paths.of(repo).database
    database.parent.mkdir(parents=True)
    async with await SqliteStore.open(database) as store:
        await store.deliveries.add(
            Delivery(
                key="github:a1", provider="github", event="push", received_at=9.0, headers={},
                body=b"{}",
            )
        )  # fmt: skip
    return repo


def sent(key: str) -> dict[str, object]:
    return {"guid": key, "event": "push", "status_code": 502, "status": "Bad Gateway"}


async def checked(repo: Path, **environ: str) -> HooksReport:
    return await hooks_check.check(repo, environ={**ENVIRON, **environ}, now=SystemClock().now)


def said(report: HooksReport) -> list[str]:
    return list(hooks_check.lines(report, when=lambda at: f"{at:g}"))


async def test_a_delivery_that_did_not_come_is_named(repo: Path) -> None:
    report = await checked(repo)
    assert not hooks_check.is_well(report)
    assert said(report) == [
        "https://loops.example/hooks/github of team/app: active; 1 of its last 2 are here",
        "  not here: push, b2, answered with 502 Bad Gateway",
        "a delivery of github came here last: at 9",
    ]
    (hook,) = hooks_check.form(report)["hooks"]
    assert [each["id"] for each in hook["missing"]] == ["b2"]


async def test_all_is_well_where_everything_came(repo: Path, server: ForgeServer) -> None:
    server.route("GET", f"{AT}/1/deliveries", answers([sent("a1")]))
    assert hooks_check.is_well(await checked(repo))


async def test_a_missing_secret_and_a_missing_hook_are_told(
    repo: Path, server: ForgeServer
) -> None:
    server.route("GET", AT, answers([]))
    report = await checked(repo, LOOPWRIGHT_GITHUB_HOOK_SECRET="")
    assert not hooks_check.is_well(report)
    assert said(report)[0].startswith("LOOPWRIGHT_GITHUB_HOOK_SECRET is not set here")
    assert "has no hook that ends in /hooks/github" in said(report)[1]


async def test_where_the_repository_has_none_that_of_the_organisation_is_compared(
    repo: Path, server: ForgeServer
) -> None:
    server.route("GET", AT, answers([]))
    server.route("GET", "/orgs/team/hooks", answers([HOOK]))
    server.route("GET", "/orgs/team/hooks/1/deliveries", answers([sent("a1")]))
    report = await checked(repo)
    assert hooks_check.is_well(report)
    here = "https://loops.example/hooks/github of the organisation team: active; 1 of its last 1"
    assert said(report)[0] == f"{here} are here"
    server.route("GET", "/orgs/team/hooks", fails(403))
    report = await checked(repo)
    assert not hooks_check.is_well(report)
    assert "that the token may not see, of the organisation team: " in said(report)[1]
    assert len(hooks_check.form(report)["unasked"]) == 1


async def test_the_hook_of_another_runner_is_named_and_missed_by_nobody(
    repo: Path, server: ForgeServer
) -> None:
    theirs = {**HOOK, "id": 2, "config": {"url": "https://other.example/hooks/github"}}
    server.route("GET", AT, answers([HOOK]))
    server.route("GET", f"{AT}/1/deliveries", answers([sent("a1")]))
    server.route("GET", "/orgs/team/hooks", answers([theirs]))
    server.route("GET", "/orgs/team/hooks/2/deliveries", answers([sent("c3"), sent("d4")]))
    report = await checked(repo)
    assert hooks_check.is_well(report)
    assert [each["elsewhere"] for each in hooks_check.form(report)["hooks"]] == [False, True]
    assert said(report)[1] == (
        "https://other.example/hooks/github of the organisation team: active; none of its last 2 "
        "came here, so it seems to be for another runner"
    )
    # A second one for the same address is for this runner.
    server.route("GET", "/orgs/team/hooks", answers([{**HOOK, "id": 2}]))
    assert not hooks_check.is_well(await checked(repo))
    # Where nothing came at all, nothing tells which of them is for this runner.
    server.route("GET", "/orgs/team/hooks", answers([theirs]))
    server.route("GET", f"{AT}/1/deliveries", answers([sent("b2")]))
    assert not hooks_check.is_well(await checked(repo))


async def test_a_token_that_may_not_see_hooks_and_no_forge_are_refused_with_what_to_do(
    repo: Path, server: ForgeServer
) -> None:
    server.route("GET", AT, fails(403))
    with pytest.raises(HooksError, match="admin:repo_hook"):
        await checked(repo)
    (repo / "loopwright.toml").write_text("")
    with pytest.raises(HooksError, match="there is no forge to ask"):
        await checked(repo)
