"""Each real program goes through a whole loop: blocked, a pull request, complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ci.local.provider import LocalCIProvider
from communication.mcp.tools import SERVER
from lifecycle.result import LoopResult, LoopResultType
from runtime.agents.catalogue import built_in
from runtime.agents.outcome import Ending
from tests.lifecycle.world import AGENT
from tests.models.clis import NAMES
from tests.models.real.loops import PROGRAMS, ByAttempt, Real, real_loop
from tests.models.script import Call, Say, Shell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.models.script import Turn
    from tests.models.server import ModelServer


def _commit(name: str) -> str:
    return f"echo {name} > {name} && git add {name} && git commit -qm 'add {name}'"


BLOCKED_BY_HAND = (
    """printf '{"%s":{"breakpoint":{"type":"blocked","blocked_on":["ci"],"reason":"needs CI","""
    """"spawn_id":"%s"}}}' "$LOOPWRIGHT_AGENT_ID" "$LOOPWRIGHT_SPAWN_ID" """
    """> "$LOOPWRIGHT_COMM_FILE" """
)
LAST_WORDS = {1: "I wait for CI.", 2: "The branch is ready.", 3: "All is done."}
BY_FILE: Mapping[int, Sequence[Turn]] = {
    1: (Shell(f"{_commit('one.txt')} && {BLOCKED_BY_HAND}"), Say(LAST_WORDS[1])),
    2: (
        Shell(f"{_commit('two.txt')} && loopwright signal pr_created --summary 'two files'"),
        Say(LAST_WORDS[2]),
    ),
    3: (Shell("loopwright signal task_complete --summary 'both are there'"), Say(LAST_WORDS[3])),
}
BY_TOOL: Mapping[int, Sequence[Turn]] = {
    1: (
        Shell(_commit("one.txt")),
        Call("report_breakpoint", {"type": "blocked"}),
        Call("report_breakpoint", {"type": "blocked", "blocked_on": ["ci"], "reason": "needs CI"}),
        Say(LAST_WORDS[1]),
    ),
    2: (
        Shell(_commit("two.txt")),
        Call("get_context"),
        Call("report_breakpoint", {"type": "pr_created", "summary": "two files"}),
        Say(LAST_WORDS[2]),
    ),
    3: (
        Call("report_breakpoint", {"type": "task_complete", "summary": "both are there"}),
        Say(LAST_WORDS[3]),
    ),
}
TELLS_ITS_COST = frozenset({"claude", "opencode"})
MODELS = {
    "claude": "claude-",
    "codex": "gpt-5.1-codex",
    "gemini": "gemini-2.5-pro",
    "opencode": "scripted/m1",
}
PER_TURN = 1234
"""Tokens of each answer of the scripted model."""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", NAMES)
async def test_a_whole_loop_by_file(model_server: ModelServer, tmp_path: Path, name: str) -> None:
    model = ByAttempt(BY_FILE)
    async with real_loop(name, tmp_path, model_server.play(again=model)) as real:
        await _whole_loop(real, model, turns=(2, 2, 2))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", NAMES)
async def test_a_whole_loop_by_tool(model_server: ModelServer, tmp_path: Path, name: str) -> None:
    """Gemini takes our tool server only with settings of its own: its folder is in /tmp here."""
    model, own = ByAttempt(BY_TOOL), name == "gemini"
    settings: dict[str, Any] = {"tool_server": "on", "private_config": own}
    async with real_loop(name, tmp_path, model_server.play(again=model), **settings) as real:
        await _whole_loop(real, model, turns=(4, 4, 2))
    form = built_in(name).mcp
    assert form is not None
    offered = {each.replace(".", "__") for each in model.asked[1][0].offered}
    assert form.tool_name(SERVER, "report_breakpoint") in offered
    assert "set 'blocked_on'" in model.asked[1][2].words
    assert "Stop now" in model.asked[1][3].words
    before, after = (each.words.count("needs CI") for each in model.asked[2][1:3])
    assert after > before, "what the tool tells of the past came to the model"


async def _whole_loop(real: Real, model: ByAttempt, turns: tuple[int, ...]) -> None:
    before = real.of_the_user()
    ci = LocalCIProvider(real.repo, test_command="test -f one.txt", auto_merge=True)
    result = await real.run(real.task(verify=["test -f two.txt"]), ci)
    assert result == LoopResult(
        result_type=LoopResultType.TASK_COMPLETE,
        task_id="T001",
        agent_id=AGENT,
        summary="both are there",
        spawn_count=3,
    ), real.told()
    assert real.played.problems == []
    assert all(each.own_key for each in real.played.requests)
    await _ledger_is_right(real, turns)
    _prompts_were_read(model, turns)
    # Both files came to the user's branch with the pull request, and nothing else did.
    assert real.git("status", "--porcelain") == ""
    assert real.git("diff", "--name-only", "HEAD~1").split() == ["one.txt", "two.txt"]
    assert real.of_the_user() == before
    assert real.alive() == []
    assert real.played.key not in "".join(real.told(each) for each in (1, 2, 3))
    assert "attempt 3 signalled `task_complete`" in await real.why()


async def _ledger_is_right(real: Real, turns: tuple[int, ...]) -> None:
    rows = await real.attempts()
    assert [row.outcome for row in rows] == ["blocked", "pr_created", "task_complete"]
    assert [row.commits for row in rows] == [1, 1, 0]
    for row, asked in zip(rows, turns, strict=True):
        report = row.report
        assert report is not None
        assert (row.error, row.program, row.swept) == ("", PROGRAMS[real.name], 0)
        assert report.ended is Ending.BREAKPOINT
        assert report.model.startswith(MODELS[real.name])
        assert report.session_id
        assert report.tool_calls == asked - 1
        assert report.last_words == LAST_WORDS[row.attempt]
        assert report.tokens == asked * PER_TURN
        assert (report.cost_usd is not None) == (real.name in TELLS_ITS_COST)
    booked = await real.store.spendings()
    assert [(each.attempt, each.tokens, each.model) for each in booked] == [
        (row.attempt, row.used.tokens, row.report.model) for row in rows if row.report
    ]
    assert all((each.cost_usd or 0) > 0 for each in booked) == (real.name in TELLS_ITS_COST)


def _prompts_were_read(model: ByAttempt, turns: tuple[int, ...]) -> None:
    assert tuple(len(model.asked[attempt]) for attempt in (1, 2, 3)) == turns
    second, third = model.asked[2][0].words, model.asked[3][0].words
    assert "nobody has worked on the task yet" in model.asked[1][0].words
    assert "needs CI" in second
    calls = "1 tool call" if turns[0] == 2 else f"{turns[0] - 1} tool calls"
    assert f"with {calls} and {turns[0] * PER_TURN} tokens" in second
    assert "The pull request was merged" in third
    assert "two files" in third
