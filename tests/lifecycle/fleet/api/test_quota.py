"""What each tier allows, who may do what, and what is said when it may not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from lifecycle.fleet.api.authorization import LOCAL, Action, Actor, Role, RoleAuthorizer
from lifecycle.fleet.api.options import AgentSpawnOptions, IsolationLevel
from lifecycle.fleet.api.queries import UNLIMITED, GetInstancesFilter
from lifecycle.fleet.api.quota import QUOTAS, Tier, check_options, check_room, quota_of
from lifecycle.fleet.errors import AuthorizationError, LicenseError
from tests.lifecycle.fleet.spawner_world import staged

if TYPE_CHECKING:
    from pathlib import Path

ANN = Actor("ann", Role.OPERATOR, UUID(int=1))
BOB = Actor("bob", Role.OPERATOR, UUID(int=2))
EYE = Actor("eye", Role.VIEWER, UUID(int=1))
ROOT = Actor("root", Role.ADMIN, UUID(int=9))


def held(tier: str, options: dict[str, Any]) -> bool:
    made = AgentSpawnOptions.model_validate(options)
    try:
        check_options(quota_of(tier), made)
    except LicenseError:
        return False
    return True


def tiers(**options: Any) -> list[str]:
    return [tier for tier in Tier if held(tier, options)]


def test_tiers_hold_what_is_documented() -> None:
    assert [QUOTAS[tier].max_concurrent for tier in Tier] == [2, 5, 20, None, None]
    higher = ["teams", "enterprise", "local"]
    assert tiers(isolation_level="none") == ["core", "writer_pro", *higher]
    assert tiers(isolation_level="thread") == ["core", "writer_pro", *higher]
    assert tiers(isolation_level="process") == higher
    assert tiers(isolation_level="container") == ["enterprise", "local"]
    assert tiers(restart_policy={"type": "immediate"}) == ["core", "writer_pro", *higher]
    assert tiers(restart_policy={"type": "linear"}) == ["writer_pro", *higher]
    assert tiers(restart_policy={"type": "exponential"}) == higher
    assert tiers(health_check={"check": "deep"}) == ["writer_pro", *higher]
    assert tiers(health_check={"interval": 9}) == ["core", "writer_pro", *higher]
    assert tiers(priority=3) == ["enterprise", "local"]


def test_a_refusal_says_which_limit_and_how_to_change_it() -> None:
    container = AgentSpawnOptions(isolation_level=IsolationLevel.CONTAINER)
    with pytest.raises(LicenseError, match=r"core.*container.*choose the tier enterprise"):
        check_options(quota_of("core"), container)
    with pytest.raises(LicenseError, match=r"5 agents at once.*teams, enterprise, local"):
        check_room(quota_of("writer_pro"), 5)
    with pytest.raises(LicenseError, match="known: core, writer_pro"):
        quota_of("platinum")


def test_the_local_user_is_not_limited() -> None:
    check_room(quota_of("local"), 10_000)
    assert quota_of("local").max_or_unlimited == UNLIMITED


async def refused(actor: Actor, action: Action, owner: UUID | None) -> bool:
    return bool(await RoleAuthorizer().refusal(actor, action, owner))


async def test_roles_may_do_what_is_documented() -> None:
    for action in Action:
        assert not await refused(ANN, action, ANN.user_id)
        assert await refused(ANN, action, BOB.user_id)
        assert await refused(ANN, action, None)
        assert not await refused(ROOT, action, BOB.user_id)
        assert not await refused(LOCAL, action, None)
        assert await refused(EYE, action, EYE.user_id) is (action is not Action.VIEW)


async def test_unauthorized_users_cannot_spawn_agents(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        with pytest.raises(AuthorizationError, match="eye has the role viewer"):
            await stage.spawner.spawn(stage.request(), actor=EYE)

        assert stage.log == []
        assert stage.told.audit[0][:4] == (
            "spawn", "eye", str(stage.puppet.definition_id), "refused",
        )  # fmt: skip
        assert "authorization_refused" in stage.told.names()


async def test_nobody_but_an_admin_sees_or_ends_agents_of_others(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        spawner = stage.spawner
        theirs = await spawner.spawn(stage.request(), actor=ANN)

        assert await spawner.get_active_instances(actor=BOB) == ()
        for attempt in (
            spawner.get_instance(theirs.instance_id, actor=BOB),
            spawner.terminate(theirs.instance_id, actor=BOB),
            spawner.suspend(theirs.instance_id, actor=BOB),
            spawner.resume(theirs.instance_id, actor=BOB),
            spawner.process(theirs.instance_id, "x", actor=BOB),
            spawner.get_events(theirs.instance_id, actor=BOB),
            spawner.get_active_instances(GetInstancesFilter(owner_id=ANN.user_id), actor=BOB),
            spawner.get_active_instances(GetInstancesFilter(all_owners=True), actor=BOB),
            anext(spawner.observe(theirs.instance_id, actor=BOB)),
        ):
            with pytest.raises(AuthorizationError):
                await attempt

        assert len(await spawner.get_active_instances(actor=EYE)) == 1
        everybody = GetInstancesFilter(all_owners=True)
        assert len(await spawner.get_active_instances(everybody, actor=ROOT)) == 1
        assert (await spawner.terminate(theirs.instance_id, actor=ROOT)).success
        done = [entry for entry in stage.told.audit if entry[3] == "refused"]
        assert {entry[0] for entry in done} == {"terminate", "suspend", "resume"}


async def test_instances_of_all_owners_share_the_limit(tmp_path: Path) -> None:
    async with staged(tmp_path, tier="core") as stage:
        await stage.spawner.spawn(stage.request(), actor=ANN)
        await stage.spawner.spawn(stage.request(), actor=BOB)

        with pytest.raises(LicenseError):
            await stage.spawner.spawn(stage.request(), actor=ROOT)
