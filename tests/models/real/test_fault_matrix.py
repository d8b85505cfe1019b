"""Every fault of every real program, in a real loop: its name, who pays, what the user sees."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.attempt import output_monitor
from lifecycle.machine.events import StopRequested
from lifecycle.machine.states import BackingOff, Completed, Reason, Rejected, State, Suspended
from tests.models.clis import NAMES
from tests.models.real.faults import (
    ALL,
    CASES,
    DENYING,
    FORBIDDEN,
    PAID_BY,
    ROWS,
    TRIES,
    Pays,
    Row,
)
from tests.models.real.loops import ByAttempt, Real, real_loop
from tests.models.script import Fault, Say, Shell
from tests.models.server import refusing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.models.conversation import Conversation
    from tests.models.script import Turn
    from tests.models.server import ModelServer

BACK = 300.0
MARGIN = 1.0
WAITS: Mapping[str, Any] = {
    "retry_interval": BACK,
    "retry_interval_cap": BACK,
    "trouble_interval": BACK,
    "limit_interval": BACK,
    "limit_margin": MARGIN,
}
DONE: tuple[Turn, ...] = (Shell("loopwright signal task_complete --summary done"), Say("Done."))
SLEEPS = "echo $$ > tool.pid; sleep 300"
MEGABYTE = "word " * 200_000


def _turn(row: Row) -> Turn:
    """Return what the model does; a limit's end is an instant, so it is filled in now."""
    turn = row.turn
    if isinstance(turn, Fault) and row.resets is not None and turn.kind == "usage_limit":
        return replace(turn, resets_at=int(_now() + row.resets))
    return turn


def _now() -> float:
    return time.time()  # noqa: TID251  # what a real program says is about the real time


def _signed_in(name: str, case: str, played: Conversation) -> dict[str, str]:
    """Use a subscription where only that has limits that tell their end."""
    if (name, case) != ("claude", "limit_with_reset"):
        return {}
    return {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": played.key}


@pytest.mark.timeout(150)
@pytest.mark.parametrize(("name", "case"), CASES)
async def test_a_fault_is_called_by_its_name_and_paid_by_the_right_one(
    model_server: ModelServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    case: str,
) -> None:
    row = ROWS[name][case]
    for constant, seconds in row.patience.items():
        monkeypatch.setattr(output_monitor, constant, seconds)
    denied = case == "denied"
    turn = ByAttempt({1: TRIES}) if denied else _turn(row)
    played = model_server.play(again=turn)
    env = {**row.env, **_signed_in(name, case, played)}
    files = DENYING[name] if denied else {}
    with refusing() as nowhere:
        url = nowhere if row.unreachable else ""
        settings = {**WAITS, **row.settings}
        async with (
            real_loop(name, tmp_path, played, url=url, env=env, files=files, **settings) as real,
            real.running(),
        ):
            await real.until(real.settled)
            await _as_expected(real, row)
            assert real.alive() == []
    assert not (real.workspace / FORBIDDEN.split()[1]).exists()


async def _as_expected(real: Real, row: Row) -> None:
    [attempt] = await real.attempts()
    work, seen = await real.work(), await real.why()
    assert attempt.outcome == row.ended, real.told()
    assert re.search(row.told, seen), (attempt.error, seen)
    assert attempt.report is not None
    assert attempt.report.ended == row.ended
    paid = PAID_BY[row.ended]
    counted = {name: getattr(work.tally, name) for name in ("retry_count", "limits", "troubles")}
    assert counted == dict.fromkeys(counted, 0) | ({paid: 1} if paid else {})
    _waits_as_expected(work, row, attempt.ended_at or 0.0)
    if paid == Pays.NOBODY:
        assert "of something that only you can fix" in seen
    else:
        assert seen.startswith("Waiting until")
        assert f"{1 if paid == Pays.RETRY else 0} of 3 retries used" in seen


def _waits_as_expected(work: State, row: Row, ended_at: float) -> None:
    if PAID_BY[row.ended] == Pays.NOBODY:
        assert isinstance(work, Rejected)
        assert work.reason is Reason.ERROR
        assert "`loopwright resume`" in work.text
        return
    assert isinstance(work, BackingOff)
    after = work.until - ended_at
    if row.resets is None:
        assert BACK - 1 <= after <= BACK + 5
    else:
        # To the minute, and begun some seconds ago.
        assert row.resets - 90 <= after <= row.resets + 2 * MARGIN + 60


@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", NAMES)
async def test_it_goes_on_by_itself_when_a_limit_is_over(
    model_server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Codex tells the minute and opencode nothing, so these two wait the short span of ours."""
    ends = int(_now()) + 6
    limits = {
        "claude": Fault("usage_limit", resets_at=ends),
        "gemini": Fault("rate_limit", retry_after=2),
    }
    played = model_server.play(again=ByAttempt({1: limits.get(name, Fault("rate_limit")), 2: DONE}))
    env = _signed_in(name, "limit_with_reset", played)
    if name == "opencode":
        monkeypatch.setattr(output_monitor, "HOPELESS_AFTER", 2.0)
    settings: dict[str, Any] = {"limit_interval": 0.2, "limit_margin": 0.2}
    async with real_loop(name, tmp_path, played, env={**ALL, **env}, **settings) as real:
        result = await real.run()
        rows = await real.attempts()
        assert [row.outcome for row in rows] == ["rate_limit", "task_complete"], real.told()
        assert (result.spawn_count, result.retry_count) == (2, 0)
        if name == "claude":
            assert rows[1].started_at >= ends
        work = await real.work()
        assert isinstance(work, Completed)
        assert (work.tally.limits, work.tally.limited_since) == (0, None)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", NAMES)
async def test_a_stop_while_a_tool_runs_leaves_nothing_behind(
    model_server: ModelServer, tmp_path: Path, name: str
) -> None:
    played = model_server.play(again=ByAttempt({1: (Shell(SLEEPS),)}))
    async with real_loop(name, tmp_path, played) as real, real.running():
        await real.until((real.workspace / "tool.pid").exists)
        assert any("sleep 300" in each for each in real.alive())
        await real.ask(StopRequested, pause=True)
        await real.until(real.settled)
        [row] = await real.attempts()
        assert row.outcome == "interrupted", real.told()
        assert real.alive() == []
        work = await real.work()
        assert isinstance(work, Suspended)
        assert (work.tally.retry_count, work.tally.spawn_count) == (0, 1)
        assert "stopped since" in (await real.why()).lower()


@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", NAMES)
async def test_a_prompt_of_a_megabyte_arrives_whole(
    model_server: ModelServer, tmp_path: Path, name: str
) -> None:
    model = ByAttempt({1: DONE})
    async with real_loop(name, tmp_path, model_server.play(again=model)) as real:
        await real.run(real.task(description=f"{MEGABYTE}and the last word"))
        assert [row.outcome for row in await real.attempts()] == ["task_complete"], real.told()
    first = model.asked[1][0].words
    assert len(first) > len(MEGABYTE)
    assert "and the last word" in first
