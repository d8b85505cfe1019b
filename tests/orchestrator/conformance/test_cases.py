"""A good agent passes all cases, and for each case there is a bad one that fails it alone."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.conformance.cases import CASES
from orchestrator.conformance.kit import conduct
from orchestrator.conformance.subject import AgentUnderTest
from orchestrator.conformance.verdict import Mark
from runtime.agents.adapter import LaunchRequest
from runtime.agents.catalogue import built_in
from tests.orchestrator.conformance.subjects import ADAPTER, BAD, BOUNDS, NOW, Agent

if TYPE_CHECKING:
    from orchestrator.conformance.verdict import ConformanceReport

GOOD_SCRIPT = Path(__file__).with_name("good.json")
PLAIN_TURN = ("version", "turn", "environment", "config", "lines", "outcome")
"""Cases that look at the first turn, or at none."""
SCRIPTED = (sys.executable, "-P", "-m", "runtime.agents.scripted")


async def put_to_test(subject: AgentUnderTest, tmp_path: Path, *only: str) -> ConformanceReport:
    bench = tmp_path / "bench"
    bench.mkdir(mode=0o700)
    report = await conduct(subject, bench, only=only)
    json.dumps(report.to_json())
    return report


def marked(report: ConformanceReport, mark: Mark) -> dict[str, str]:
    return {each.case: each.verdict.why for each in report.results if each.verdict.mark is mark}


async def test_a_good_agent_passes_every_case(tmp_path: Path) -> None:
    report = await put_to_test(Agent().subject(tmp_path, os.environ["PATH"]), tmp_path)
    assert [each.case for each in report.results] == [case.name for case in CASES]
    assert marked(report, Mark.FAIL) == {}
    assert marked(report, Mark.NOT_PROVOKED) == {}
    assert (report.conforms, report.version) == (True, "1.2.3")


@pytest.mark.parametrize("bad", BAD)
async def test_a_bad_agent_fails_its_case_and_no_other(tmp_path: Path, bad: str) -> None:
    case, agent = BAD[bad]
    if case != "hang":
        agent = replace(agent, bounds=replace(agent.bounds, idle=0.1))  # it is not about waiting
    # Where only one of its turns is bad, the others are those of the good one.
    only = () if agent.adapter is not ADAPTER else {*PLAIN_TURN, case}
    report = await put_to_test(agent.subject(tmp_path, os.environ["PATH"]), tmp_path, *only)
    assert list(marked(report, Mark.FAIL)) == [case], marked(report, Mark.FAIL)
    assert not report.conforms


def test_every_case_has_an_agent_that_fails_it() -> None:
    assert {case for case, _ in BAD.values()} == {case.name for case in CASES}


async def test_the_scripted_agent_passes_all_that_a_command_can_show(tmp_path: Path) -> None:
    subject = AgentUnderTest(
        adapter=built_in("command"),
        request=LaunchRequest(command=(*SCRIPTED, str(GOOD_SCRIPT))),
        environ=os.environ,
        now=lambda: NOW,
        bounds=BOUNDS,
    )
    report = await put_to_test(subject, tmp_path)
    assert marked(report, Mark.FAIL) == {}
    assert set(marked(report, Mark.NOT_PROVOKED)) == {"version", "denied", "config"}
