"""Every claim of a sandbox, each with the attack that works outside of it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.isolation.proof.attacks import ATTACKS, Stage, run_attack, run_attacks
from tests.runtime.isolation.inside import given

if TYPE_CHECKING:
    from runtime.isolation.proof.attacks import Attack

DEFAULT_ROUTE = "\t00000000\t"


def works_here(attempt: str) -> bool:
    """Tell whether an attack can work on this machine at all, found out without it."""
    if attempt == "kernel":
        return os.access("/proc/sys/kernel/core_pattern", os.W_OK)
    if attempt == "privileges":
        return "\nNoNewPrivs:\t0\n" in Path("/proc/self/status").read_text()
    if attempt == "network":
        return DEFAULT_ROUTE in Path("/proc/net/route").read_text()
    return True


@pytest.mark.parametrize("attack", ATTACKS, ids=[each.claim for each in ATTACKS])
def test_in_a_sandbox_an_agent(attack: Attack, tmp_path: Path) -> None:
    choice = given()
    if choice is None:
        return
    stage = Stage(tmp_path)
    with contextlib.closing(stage):
        finding = run_attack(attack, stage, stage.sandbox(choice))
    assert not finding.inside
    assert finding.outside is works_here(attack.attempt), finding.detail


def test_without_a_network_a_plain_process_reaches_nothing_either() -> None:
    choice = given("process")
    if choice is None:
        return
    findings = {each.claim: each for each in run_attacks(choice)}
    assert set(findings) == {each.claim for each in ATTACKS if not each.only_closed}
    assert not any(each.inside for each in findings.values())
    assert findings["cannot reach loopback services"].outside
    assert findings["cannot reach abstract sockets"].outside


def test_with_the_network_the_attack_on_it_works_inside_too(tmp_path: Path) -> None:
    choice = given(network=True)
    if choice is None:
        return
    stage = Stage(tmp_path)
    [attack] = [each for each in ATTACKS if each.attempt == "loopback"]
    with contextlib.closing(stage):
        assert run_attack(attack, stage, stage.sandbox(choice)).inside
