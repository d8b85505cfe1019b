"""`loopwright doctor --isolation`: what it shows, and that it judges what it saw."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from orchestrator.cli.main import main
from orchestrator.doctor import isolation
from orchestrator.doctor.machine import BAD, OK, WARN
from runtime.isolation.proof.attacks import ATTACKS, AttackResult
from tests.runtime.isolation.inside import given

if TYPE_CHECKING:
    from pathlib import Path


def test_every_claim_is_shown_with_the_attack_that_was_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["doctor", "--isolation", "--json"])
    checks = {each["what"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert code == 0
    assert {"bubblewrap", "podman", "docker"} <= set(checks)
    assert all(bool(each["mend"]) is (each["level"] != "ok") for each in checks.values())
    if given() is None:
        assert checks["level container without a network"]["found"].startswith("refused: ")
        return
    assert {f"container: {each.claim}" for each in ATTACKS} <= set(checks)
    state = checks["container: cannot read the runner's state"]
    assert state["found"] == "the attack works outside, and failed inside"


@pytest.mark.parametrize(
    ("outside", "inside", "level"),
    [(True, False, OK), (True, True, BAD), (False, True, BAD), (False, False, WARN)],
)
def test_a_claim_holds_only_if_its_attack_fails_inside_and_works_outside(
    *, outside: bool, inside: bool, level: str
) -> None:
    finding = AttackResult("cannot do harm", outside, inside, "because")
    assert isolation._verdict("container", finding).level == level
