"""Which programs are driven is pinned, and how they are started gives no key away."""

from __future__ import annotations

import json
import re

import pytest

from tests.models.clis import NAMES, order
from tests.tools.agents.installed import LINKED, PACKAGES, program
from tests.tools.npm_tools import NpmError

KEY = "sk-canary-0123456789"


def test_every_program_is_pinned_to_one_version() -> None:
    pinned = json.loads(PACKAGES.read_text())["dependencies"]
    assert len(pinned) == len(NAMES)
    assert set(LINKED) < set(pinned)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", each) for each in pinned.values())


def test_a_program_that_is_not_installed_is_refused() -> None:
    with pytest.raises(NpmError, match=r"'copilot' is not installed here; there are claude, .*"):
        program("copilot")


@pytest.mark.parametrize("name", NAMES)
def test_the_key_is_handed_over_by_the_environment_alone(name: str) -> None:
    plan = order(name, "http://127.0.0.1:9/s/1", KEY)
    assert KEY in "".join(plan.env.values())
    assert KEY not in " ".join(plan.argv) + "".join(plan.files.values())
