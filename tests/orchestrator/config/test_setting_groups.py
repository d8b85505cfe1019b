"""`loopwright settings` lists every setting below its group."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from lifecycle.settings import Settings
from orchestrator.config.setting_groups import GROUPS

if TYPE_CHECKING:
    from tests.orchestrator.filled import Cli


def test_every_setting_stands_in_one_group() -> None:
    names = list(chain.from_iterable(GROUPS.values()))
    assert sorted(names) == sorted(Settings.model_fields)


def test_settings_are_listed_by_group_with_value_and_origin(empty: Cli) -> None:
    (empty.repo / "loopwright.toml").write_text('verify = ["make test"]\n')
    lines = empty("settings").splitlines()
    assert [line for line in lines if line in GROUPS] == list(GROUPS)
    below = lines[lines.index("What judges the work") + 1].split(maxsplit=3)
    assert below[:3] == ["verify", '["make', 'test"]']
    assert below[3].strip() == f"{empty.repo / 'loopwright.toml'}, line 1"
