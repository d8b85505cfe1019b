"""The webhooks of a forge that are ours, and what it remembers of their deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci.errors import ForbiddenError
from ci.forge.hooks import ForgeHook, KnownHooks, KnowsHooks, SentDelivery, is_for_us
from ci.forge.rest import Connection
from ci.gitea.forge import GiteaForge
from ci.github.forge import GitHubForge
from ci.gitlab.forge import GitLabForge
from tests.ci.forge_server import answers, fails, forge_server
from tests.ci.github.github_served import check_requests, sign

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.ci.forge_server import ForgeServer

OURS = "https://loops.example/hooks"


@pytest.fixture
async def server() -> AsyncIterator[ForgeServer]:
    async with forge_server() as running:
        yield running


def at(server: ForgeServer, repo: str = "team/app") -> Connection:
    return Connection(
        repo=repo, api=server.url, web_url="https://f.test", sign=sign, now=lambda: 0.0
    )


async def closing(forge: Any) -> None:
    await forge.aclose()


async def known(forge: Any) -> KnownHooks:
    try:
        assert isinstance(forge, KnowsHooks)
        return await forge.hooks()
    finally:
        await closing(forge)


async def told(forge: Any) -> tuple[ForgeHook, ...]:
    return (await known(forge)).hooks


async def test_github_tells_those_of_the_repository_and_of_its_organisation(
    server: ForgeServer,
) -> None:
    ours = {"id": 1, "active": True, "config": {"url": f"{OURS}/github"}}
    other = {"id": 2, "active": True, "config": {"url": "https://else.example/"}}
    of_all = {"id": 3, "active": False, "config": {"url": f"{OURS}/github"}}
    sent = {
        "guid": "72d3", "event": "check_run", "action": "completed", "status_code": 502,
        "status": "Bad Gateway", "delivered_at": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    server.route("GET", "/repos/team/app/hooks", answers([ours, other]))
    server.route("GET", "/repos/team/app/hooks/1/deliveries", answers([sent]))
    server.route("GET", "/orgs/team/hooks", answers([of_all]))
    server.route("GET", "/orgs/team/hooks/3/deliveries", answers([]))
    of_repo, of_team = await told(GitHubForge(at(server)))
    assert of_repo.deliveries == (
        SentDelivery(
            id="72d3", event="check_run.completed", at=1_767_225_600.0, answer="502 Bad Gateway"
        ),
    )
    found = (of_repo.of, of_team.of, of_team.active)
    assert found == ("team/app", "the organisation team", False)
    check_requests(server)


async def test_gitlab_tells_them_with_the_headers_that_were_sent(server: ForgeServer) -> None:
    hook = {"id": 7, "url": f"{OURS}/gitlab", "alert_status": "disabled"}
    headers = {"Idempotency-Key": "k1", "X-Gitlab-Event": "Push Hook"}
    sent = {"trigger": "push_hooks", "request_headers": headers, "response_status": "502"}
    server.route("GET", "/projects/team%2Fapp/hooks", answers([hook]))
    server.route("GET", "/projects/team%2Fapp/hooks/7/events", answers([sent]))
    (found,) = await told(GitLabForge(at(server)))
    assert not found.active
    assert found.deliveries == (SentDelivery(id="k1", event="push_hooks", answer="502"),)
    server.route("GET", "/projects/team%2Fapp/hooks/7/events", fails(404))
    (found,) = await told(GitLabForge(at(server)))
    assert found.deliveries is None


async def test_gitlab_tells_those_of_each_group_that_the_project_is_in(
    server: ForgeServer,
) -> None:
    hook = {"id": 7, "url": f"{OURS}/gitlab", "alert_status": "executable"}
    sent = {"trigger": "push_hooks", "request_headers": {"Idempotency-Key": "k1"}}
    old = {"trigger": "push_hooks", "request_headers": {"X-Gitlab-Event-UUID": "u1"}}
    project = "/projects/team%2Ftools%2Fapp"
    server.route("GET", project, answers({"namespace": {"kind": "group"}}))
    server.route("GET", f"{project}/hooks", answers([]))
    server.route("GET", "/groups/team%2Ftools/hooks", fails(403, "Forbidden"))
    server.route("GET", "/groups/team/hooks", answers([hook]))
    server.route("GET", "/groups/team/hooks/7/events", answers([sent]))
    found = await known(GitLabForge(at(server, "team/tools/app")))
    (of_group,) = found.hooks
    assert (of_group.of, of_group.active) == ("the group team", True)
    assert of_group.deliveries == (SentDelivery(id="k1", event="push_hooks"),)
    (unasked,) = found.unasked
    assert unasked.startswith("the group team/tools: ")
    server.route("GET", "/groups/team/hooks/7/events", answers([old]))
    (of_group,) = await told(GitLabForge(at(server, "team/tools/app")))
    assert of_group.deliveries is None, "nothing tells whether that one came"


async def test_gitea_tells_those_of_the_organisation_too(server: ForgeServer) -> None:
    hook = {"id": 7, "active": True, "config": {"url": f"{OURS}/gitea"}}
    server.route("GET", "/repos/team/app/hooks", answers([]))
    server.route("GET", "/orgs/team", answers({"username": "team"}))
    server.route("GET", "/orgs/team/hooks", answers([hook]))
    (found,) = await told(GiteaForge(at(server)))
    assert found == ForgeHook(url=f"{OURS}/gitea", of="the organisation team")
    server.route("GET", "/orgs/team/hooks", fails(403))
    assert [each.split(":")[0] for each in (await known(GiteaForge(at(server)))).unasked] == [
        "the organisation team"
    ]


async def test_gitea_may_hide_whether_the_owner_is_an_organisation(server: ForgeServer) -> None:
    server.route("GET", "/repos/team/app/hooks", answers([]))
    lacks = "token does not have at least one of required scope(s): [read:organization]"
    for path in ("/orgs/team", "/orgs/team/hooks"):
        server.route("GET", path, fails(403, lacks))
    (unasked,) = (await known(GiteaForge(at(server)))).unasked
    assert unasked.startswith("the organisation team: ")
    assert "read:organization" in unasked


async def test_what_belongs_to_a_person_has_hooks_of_its_own_only(server: ForgeServer) -> None:
    server.route("GET", "/repos/team/app/hooks", answers([]))
    server.route("GET", "/projects/team%2Fapp/hooks", answers([]))
    server.route("GET", "/users/team", answers({"type": "User"}))
    server.route("GET", "/projects/team%2Fapp", answers({"namespace": {"kind": "user"}}))
    for kind in (GitHubForge, GiteaForge, GitLabForge):
        assert await known(kind(at(server))) == KnownHooks()


@pytest.mark.parametrize("kind", [GitHubForge, GiteaForge, GitLabForge])
async def test_where_only_the_organisation_may_be_asked_its_hook_is_told(
    server: ForgeServer, kind: Any
) -> None:
    hook = {
        "id": 7, "active": True, "url": f"{OURS}/gitlab",
        "config": {"url": f"{OURS}/{kind.name}"},
    }  # fmt: skip
    for place in ("/repos/team/app", "/projects/team%2Fapp"):
        server.route("GET", f"{place}/hooks", fails(403))
    server.route("GET", "/orgs/team", answers({"username": "team"}))
    for place in ("/orgs/team", "/groups/team"):
        server.route("GET", f"{place}/hooks", answers([hook]))
        server.route("GET", f"{place}/hooks/7/{'deliveries' if 'org' in place else 'events'}",
                     answers([]))  # fmt: skip
    found = await known(kind(at(server)))
    assert [each.of.rpartition(" ")[2] for each in found.hooks] == ["team"]
    assert [each.split(":")[0] for each in found.unasked] == ["team/app"]
    if kind is GitHubForge:
        check_requests(server)


async def test_gitea_tells_that_there_is_one(server: ForgeServer) -> None:
    hook = {"id": 7, "active": True, "config": {"url": f"{OURS}/gitea"}}
    server.route("GET", "/repos/team/app/hooks", answers([hook]))
    (found,) = await told(GiteaForge(at(server)))
    assert found == ForgeHook(url=f"{OURS}/gitea", of="team/app")


@pytest.mark.parametrize("kind", [GitHubForge, GiteaForge, GitLabForge])
async def test_a_token_that_may_not_see_them_is_told(server: ForgeServer, kind: Any) -> None:
    for path in ("/repos/team/app/hooks", "/projects/team%2Fapp/hooks"):
        server.route("GET", path, fails(403))
    with pytest.raises(ForbiddenError):
        await told(kind(at(server)))


def test_a_hook_is_ours_by_the_end_of_its_address() -> None:
    assert is_for_us("https://x.example/behind/hooks/github/?a=b", "github")
    assert not is_for_us("https://x.example/hooks/gitea", "github")
