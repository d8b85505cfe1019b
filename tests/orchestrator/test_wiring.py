"""The parts of a loop are made once and shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.settings import Settings
from orchestrator import wiring
from runtime.masking.masker import Masker

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World


async def test_what_the_loop_learns_of_secrets_is_masked_by_who_made_it_too(world: World) -> None:
    masker = Masker()
    assert not masker  # it knows no secret yet
    loop = wiring.build(world.repo, settings=Settings, who="test", environ={}, masker=masker)
    async with loop.opened() as engine:
        engine.shared.masker.learn_from({"API_TOKEN": "tok-1f8c27ab90d34e"})
    assert "1f8c27ab" not in masker.mask("the token is tok-1f8c27ab90d34e")
