"""The real programs go through the whole conformance kit, against a scripted model."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.conformance import prompts
from orchestrator.conformance.cases import CASES
from orchestrator.conformance.kit import conduct
from orchestrator.conformance.subject import AgentUnderTest, Bounds
from orchestrator.conformance.verdict import Mark
from runtime.agents.adapter import LaunchRequest as Wanted
from runtime.agents.catalogue import built_in
from tests.models.clis import NAMES, order
from tests.models.real.faults import DENYING
from tests.models.script import Say, Shell, answer
from tests.tools.agents.installed import program, search_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.models.conversation import Conversation, Request
    from tests.models.script import Answer, Part
    from tests.models.server import ModelServer

BOUNDS = Bounds(timeout=60, idle=6)
MODELS = {"codex": "gpt-5.1-codex", "gemini": "gemini-2.5-pro", "opencode": "scripted/m1"}
NOT_PROVOKED = {
    "claude": frozenset[str](),
    # Its model is set in a file, which no variable overrules.
    "codex": frozenset({"hang", "config"}),
    # It does not offer its shell at all.
    "gemini": frozenset({"denied"}),
    # The settings of this test permit everything; it has no variable for a model's address.
    "opencode": frozenset({"denied", "hang", "config"}),
}
"""Cases that a program does not show, and why."""
SIGNAL = (
    """loopwright signal task_complete --summary READY || printf """
    """'{"%s":{"breakpoint":{"type":"task_complete","spawn_id":"%s"}}}' """
    """"$LOOPWRIGHT_AGENT_ID" "$LOOPWRIGHT_SPAWN_ID" > "$LOOPWRIGHT_COMM_FILE" """
)
"""A login shell, such as codex has, may not find our command; the prompt names the file too."""


@dataclass
class Model:
    """A model that does what the kit's prompts ask for, in one call of a tool."""

    asked: dict[str, int] = field(default_factory=dict)

    def __call__(self, request: Request) -> Part | Answer:
        if len(request.words) > BOUNDS.prompt // 2:
            # No model answers a megabyte at once; a program may end before its echo is read then.
            return answer("READY", every=1.0)
        for mark, command in COMMANDS.items():
            if mark in request.words:
                self.asked[mark] = self.asked.get(mark, 0) + 1
                if self.asked[mark] == 1:
                    return Shell(command)
                return Say("word " * 80_000 if mark == "head -c" else "READY")
        return Say("READY")


def _line(prompt: str) -> str:
    found = re.search(r"\n {4}(.+)\n", prompt)
    assert found is not None
    return found[1]


COMMANDS: Mapping[str, str] = {
    "Signal at once": SIGNAL,
    prompts.STARTED: _line(prompts.stop(600)),
    prompts.PROBE: _line(prompts.denied()),
    prompts.LEFT: _line(prompts.leftovers(600)),
    "head -c": _line(prompts.flood(20 * BOUNDS.log_cap)),
}


def _subject(name: str, played: Conversation, home: Path) -> AgentUnderTest:
    by_hand = order(name, played.url, played.key)
    files = {**by_hand.files, **DENYING[name]}
    own = {key: value for key, value in by_hand.env.items() if key != "OPENCODE_CONFIG_CONTENT"}
    if name == "opencode":
        files[".config/opencode/opencode.json"] = by_hand.env["OPENCODE_CONFIG_CONTENT"]
    if name == "codex":
        settings = "\n".join(word for word in by_hand.argv if word.startswith("model_provider"))
        files[".codex/config.toml"] = settings + "\n" + files[".codex/config.toml"]
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    path = f"{search_path()}:{Path(sys.executable).parent}"
    return AgentUnderTest(
        adapter=built_in(name),
        request=Wanted(program=str(program(name)), model=MODELS.get(name, ""), passes=tuple(own)),
        environ={"HOME": str(home), "TMPDIR": str(home), "PATH": path, "LANG": "C.UTF-8", **own},
        now=time.time,  # noqa: TID251  # what a real program says is about the real time
        bounds=BOUNDS,
    )


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", NAMES)
async def test_a_real_program_fails_no_case(
    model_server: ModelServer, tmp_path: Path, name: str
) -> None:
    home, bench = tmp_path / "home", tmp_path / "bench"
    for each in (home, bench):
        each.mkdir(mode=0o700)
    played = model_server.play(again=Model())
    report = await conduct(_subject(name, played, home), bench)
    found = {each.case: f"{each.verdict.mark}: {each.verdict.why}" for each in report.results}
    told = json.dumps(report.to_json(), indent=1)
    assert report.conforms, told
    assert set(found) == {case.name for case in CASES}
    quiet = {each.case for each in report.results if each.verdict.mark is Mark.NOT_PROVOKED}
    assert quiet == NOT_PROVOKED[name], told
    assert played.key not in told
