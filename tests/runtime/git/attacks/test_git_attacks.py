"""No program that an agent planted is run by the git of the runner, whatever it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runtime.git.attacks.attacks import ATTACKS, Attack
from tests.runtime.git.attacks.bed import everything, new_bed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_a_planted_program_runs_with_plain_git_and_not_with_ours(
    attack: Attack, tmp_path: Path, template: Path
) -> None:
    careless = await new_bed(tmp_path / "careless", template)
    attack.plant(careless)
    careless.dirty()
    careless.mark.unlink(missing_ok=True)
    attack.control(careless)
    assert careless.fired, "the attack does not work at all, so this would prove nothing"

    ours = await new_bed(tmp_path / "ours", template)
    attack.plant(ours)
    ours.dirty()
    ours.mark.unlink(missing_ok=True)
    await everything(ours, told=attack.told, refused=attack.refused)
    assert not ours.fired, ours.mark.read_text()
