"""An adapter may be anybody's: where its code fails, attempts end, are told and are limited."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lifecycle.attempt.output_monitor import LINGERS_AFTER, Monitor
from lifecycle.clock import SteppedClock
from lifecycle.result import LoopResultType
from runtime.agents.adapters import claude
from runtime.agents.outcome import Ending
from tests.lifecycle import reporting
from tests.lifecycle.reporting import Programs, agent
from tests.lifecycle.world import DONE, HANG, PATIENCE, World
from tests.runtime.agents.turns import result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lifecycle.machine.events import AgentReport
    from runtime.agents.adapter import Adapter
    from runtime.agents.outcome import RunOutcome
    from runtime.agents.parsing.parser import Events

BAD = {"type": "worse"}
OVER = result(5, 1.5)


class CannotRead(claude.ClaudeParser):
    """Fails at one kind of line."""

    def feed(self, line: bytes) -> Events:
        if b"worse" in line:
            raise OverflowError("integer too large")
        return super().feed(line)


class CannotJudge(CannotRead):
    """Fails at the end, too."""

    def finish(
        self,
        exit_code: int | None,
        signal: int | None = None,
        stderr_tail: str = "",
        our_reason: Ending | None = None,
    ) -> RunOutcome:
        raise KeyError(exit_code, signal, stderr_tail, our_reason)


class Pretends(claude.ClaudeParser):
    """Says what only the runner can know."""

    def finish(
        self,
        exit_code: int | None,
        signal: int | None = None,
        stderr_tail: str = "",
        our_reason: Ending | None = None,
    ) -> RunOutcome:
        plain = super().finish(exit_code, signal, stderr_tail, our_reason)
        return replace(plain, outcome=Ending.INTERRUPTED)


def cannot_begin(*given: object, **more: object) -> CannotRead:
    raise TypeError(f"no parser for {given} {more}")


def offered(parser: object) -> Adapter:
    return replace(claude.ADAPTER, name="theirs", parser=parser)  # type: ignore[arg-type]  # wrong on purpose


def monitor(folder: Path, parser: object, *said: object) -> tuple[Monitor, SteppedClock]:
    log, clock = folder / "log", SteppedClock()
    log.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in said))
    return Monitor(offered(parser), log, 0, clock.now), clock


def judged(reading: Monitor, code: int | None, signal: int | None = None) -> AgentReport:
    report = reading.finish(code, signal, None, spoke=False)
    assert report is not None
    return report


def test_a_line_that_cannot_be_read_is_passed_by(tmp_path: Path) -> None:
    with pytest.raises(OverflowError):
        CannotRead(SteppedClock().now).feed(json.dumps(BAD).encode())
    reading, _ = monitor(tmp_path, CannotRead, BAD, OVER, BAD)
    assert reading.listen() is None
    report = judged(reading, 0)
    assert (report.ended, report.tokens, report.cost_usd) == (Ending.NO_BREAKPOINT, 5, 1.5)


@pytest.mark.parametrize(
    ("code", "signal", "ended"),
    [
        (0, None, Ending.NO_BREAKPOINT),
        (1, None, Ending.ERROR),
        (127, None, Ending.ENVIRONMENT),
        (None, 9, Ending.KILLED),
        (None, 11, Ending.CRASH),
    ],
)
def test_an_end_that_cannot_be_judged_is_judged_by_exit_code(
    tmp_path: Path, code: int | None, signal: int | None, ended: Ending
) -> None:
    reading, _ = monitor(tmp_path, CannotJudge, BAD, OVER)
    report = judged(reading, code, signal)
    assert report.ended is ended
    assert "its adapter failed to judge its output (KeyError)" in report.detail


def test_no_adapter_gets_attempts_for_nothing_by_calling_them_interrupted(tmp_path: Path) -> None:
    reading, _ = monitor(tmp_path, Pretends, OVER)
    assert judged(reading, 0).ended is Ending.ERROR


def test_what_it_used_is_known_all_the_same(tmp_path: Path) -> None:
    reading, _ = monitor(tmp_path, CannotJudge, OVER)
    report = judged(reading, 1)
    assert (report.tokens, report.input_tokens, report.cost_usd) == (5, 5, 1.5)


def test_one_that_lingers_is_ended_all_the_same(tmp_path: Path) -> None:
    reading, clock = monitor(tmp_path, CannotJudge, OVER)
    assert reading.listen() is None
    clock.advance(LINGERS_AFTER)
    end_now = reading.listen()
    reading.close()
    assert end_now is not None
    assert end_now.ended is Ending.NO_BREAKPOINT


def test_a_program_without_a_reader_is_judged_by_its_end(tmp_path: Path) -> None:
    reading, _ = monitor(tmp_path, cannot_begin, OVER)
    assert reading.listen() is None
    assert judged(reading, 3).ended is Ending.ERROR


# --- in a loop --------------------------------------------------------------------------------


@pytest.fixture
def programs(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    """Install an adapter whose reader fails at every look, and at the end."""
    folder = tmp_path / "site"
    info = folder / "plug_theirs-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug_theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[loopwright.adapters]\ntheirs = plug_theirs:ADAPTER\n")
    (folder / "plug_theirs.py").write_text(
        "from dataclasses import replace\n"
        "from runtime.agents.adapters import claude\n"
        "class Faulty(claude.ClaudeParser):\n"
        "    @property\n"
        "    def trouble(self):\n"
        "        raise RuntimeError('at a look')\n"
        "    def passed_over(self, lines):\n"
        "        raise RuntimeError('at the end')\n"
        "ADAPTER = replace(claude.ADAPTER, name='theirs', programs=('theirs',), parser=Faulty)\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    yield Programs(world, monkeypatch)
    sys.modules.pop("plug_theirs", None)


async def test_the_end_of_an_attempt_is_told_though_its_report_failed(
    world: World, programs: Programs
) -> None:
    programs.plays("theirs", [reporting.starts(), DONE, reporting.finishes()])
    world.settings.update({"tool_server": "off"})
    done = world.loop().run_agent_loop(agent("theirs"), world.task())
    result = await asyncio.wait_for(done, PATIENCE)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 1)
    [attempt] = await world.attempts()
    assert attempt.report is None


async def test_a_fault_in_one_loop_keeps_the_limits_of_no_other_from_holding(
    world: World, programs: Programs
) -> None:
    programs.plays("theirs", {1: [reporting.starts(), HANG], 2: [DONE]})
    quiet = world.agent({1: [HANG], 2: [DONE]}, "agent-T002")
    world.settings.update({"tool_server": "off", "idle_limit": 0.6})
    async with world.loop().opened() as engine:
        both = (
            engine.run(agent("theirs"), world.task()),
            engine.run(quiet, world.task("T002")),
        )
        results = await asyncio.wait_for(asyncio.gather(*both), PATIENCE)
    told = [(each.result_type, each.spawn_count) for each in results]
    assert told == [(LoopResultType.TASK_COMPLETE, 2)] * 2
