"""`loopwright logs` of a program that reports as JSON: words for people, its lines with --raw."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from tests.orchestrator.loopkit import BIN
from tests.orchestrator.web.browser import programs as p

if TYPE_CHECKING:
    import pytest

    from tests.orchestrator.loopkit import World

STEPS = [
    p.claude_begins(),
    p.claude_calls("Bash", command="npm test"),
    p.claude_says("All tests pass."),
    p.claude_ends(100),
    p.done("Done."),
]


def test_a_pipe_gets_words_and_with_raw_the_lines_as_they_came(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = p.install(world.folder, {"T001": STEPS})
    monkeypatch.setenv("PATH", f"{played}{os.pathsep}{os.environ['PATH']}")
    world.call("run", "x", "--agent", "claude")
    for more in ((), ("--follow",), ("--words",)):
        words = _piped(world, "T001", *more)
        assert "$ npm test" in words
        assert "All tests pass." in words
        assert '{"type"' not in words
        assert "\x1b" not in words
    assert [json.loads(line)["type"] for line in _piped(world, "T001", "--raw").splitlines()] == [
        "system", "assistant", "assistant", "result",
    ]  # fmt: skip


def _piped(world: World, *args: str) -> str:
    done = subprocess.run(
        [str(BIN / "loopwright"), "logs", *args],
        cwd=world.repo,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout
