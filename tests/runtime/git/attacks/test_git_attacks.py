"""No program that an agent planted is run by the git of the runner, whatever it does."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from runtime.workspace import WorkspaceManager
from tests.runtime.git.attacks.attacks import ATTACKS, Attack
from tests.runtime.git.attacks.bed import everything, new_bed

if TYPE_CHECKING:
    from pathlib import Path


def group_of(attack: Attack) -> str:
    return attack.beside or attack.name


GROUPS = {
    name: tuple(attacks) for name, attacks in groupby(sorted(ATTACKS, key=group_of), key=group_of)
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_a_planted_program_runs_with_plain_git(
    attack: Attack, tmp_path: Path, template: Path
) -> None:
    careless = await new_bed(tmp_path / "careless", template)
    attack.plant(careless)
    careless.dirty()
    careless.mark.unlink(missing_ok=True)
    attack.control(careless)
    assert careless.fired, "the attack does not work at all, so the next test would prove nothing"


@pytest.mark.parametrize("name", GROUPS)
async def test_no_planted_program_runs_with_ours(name: str, tmp_path: Path, template: Path) -> None:
    ours = await new_bed(tmp_path / "ours", template)
    manager, told = WorkspaceManager(ours.repo), list[tuple[str, ...]]()
    for attack in GROUPS[name]:
        attack.plant(ours)
        if len(GROUPS[name]) > 1:
            told.append(await manager.planted(ours.workspace))
    assert len({(), *told}) == len(told) + 1, "each of a group is told"
    ours.dirty()
    ours.mark.unlink(missing_ok=True)
    [(is_told, refused)] = {(attack.told, attack.refused) for attack in GROUPS[name]}
    await everything(ours, told=is_told, refused=refused)
    assert not ours.fired, ours.mark.read_text()
