"""The real programs, started as their adapters say, signal by the tool that they are handed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from communication.mailbox import Mailbox, ReadingKind
from communication.mcp_tools import SERVER, passed_on
from runtime.agents.adapter import McpServer, Request, plan
from runtime.agents.catalogue import built_in
from tests.models.clis import NAMES, Run, _end, order
from tests.models.script import Call, Say
from tests.tools.agents.installed import program, search_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.agents.adapter import Launch
    from tests.models.conversation import Conversation
    from tests.models.server import ModelServer

MODELS = {"codex": "gpt-5.1-codex", "gemini": "gemini-2.5-pro", "opencode": "scripted/m1"}
TOOL_SERVER = (str(Path(sys.executable).parent / "loopwright"), "mcp")
BLOCKED = {"type": "blocked", "blocked_on": ["T002"], "reason": "no key"}


@pytest.mark.parametrize("name", NAMES)
def test_a_breakpoint_by_tool_is_in_the_mailbox(
    model_server: ModelServer, tmp_path: Path, name: str
) -> None:
    played = model_server.play(
        Call("get_context"),
        Call("report_breakpoint", {"type": "blocked"}),
        Call("report_breakpoint", BLOCKED),
        Say("I stop."),
    )
    (tmp_path / "summary.md").write_text("Attempt 1 found the door locked.")
    attempt = {
        "LOOPWRIGHT_AGENT_ID": "agent-T001",
        "LOOPWRIGHT_TASK_ID": "T001",
        "LOOPWRIGHT_ATTEMPT": "2",
        "LOOPWRIGHT_SPAWN_ID": f"by-tool-{uuid.uuid4()}",
        "LOOPWRIGHT_COMM_FILE": str(tmp_path / "communications.json"),
        "LOOPWRIGHT_SUMMARY_FILE": str(tmp_path / "summary.md"),
    }
    with launched(name, played, tmp_path, attempt) as run:
        assert run.wait() == 0, run.told()
        assert run.left() == {}
    assert played.problems == [], run.told()
    form = built_in(name).mcp
    assert form is not None
    offered = {each.replace(".", "__") for each in played.turns[0].offered}
    assert form.tool_name(SERVER, "report_breakpoint") in offered
    assert "found the door locked" in played.turns[1].words
    assert "set 'blocked_on'" in played.turns[2].words
    assert "Stop now" in played.turns[3].words
    mailbox = Mailbox(tmp_path / "communications.json")
    mark = attempt["LOOPWRIGHT_SPAWN_ID"]
    reading = mailbox.load().reading("agent-T001", spawn_id=mark, task_id="T001")
    assert reading.kind is ReadingKind.SIGNAL, reading.problem
    assert reading.breakpoint is not None
    assert (reading.breakpoint.spawn_id, reading.breakpoint.seq) == (mark, 1)
    assert (reading.breakpoint.blocked_on, reading.breakpoint.reason) == (("T002",), "no key")


@contextlib.contextmanager
def launched(
    name: str, played: Conversation, folder: Path, attempt: dict[str, str]
) -> Iterator[Run]:
    """Start a program by its adapter, as one attempt; all of it is gone afterwards."""
    home, work, scratch, config = (folder / each for each in ("home", "work", "tmp", "config"))
    for each in (home, work, scratch, config):
        each.mkdir(mode=0o700)
    launch, known = _launch(name, played, config, attempt), order(name, played.url, played.key)
    for path, text in [*_known_files(name, known.env), *known.files.items()]:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    for file in launch.files:
        Path(file.path).parent.mkdir(parents=True, exist_ok=True)
        Path(file.path).write_text(file.text)
    own = {"HOME": str(home), "TMPDIR": str(scratch), "PATH": search_path(), "LANG": "C.UTF-8"}
    (folder / "prompt").write_text("Report how it goes.")
    out, err = folder / "stdout", folder / "stderr"
    with (folder / "prompt").open() as stdin, out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            launch.argv,
            cwd=work,
            env={**own, **attempt, **launch.environment({}, known.env), **launch.env},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    run = Run(process, attempt["LOOPWRIGHT_SPAWN_ID"], out, err, time.monotonic())
    try:
        yield run
    finally:
        _end(run)


def _launch(name: str, played: Conversation, config: Path, attempt: dict[str, str]) -> Launch:
    known = order(name, played.url, played.key)
    settings = known.argv[known.argv.index("-c") : -1] if name == "codex" else ()
    return plan(
        built_in(name),
        Request(
            program=str(program(name)),
            model=MODELS.get(name, ""),
            config_folder=str(config),
            as_root=os.geteuid() == 0,
            # It reads a tool server from its own home, or from where root alone may write.
            private_config=name == "gemini",
            mcp=McpServer(SERVER, TOOL_SERVER, passed_on(attempt)),
            # Only what leads to the scripted model; all else is the adapter's.
            passes=tuple(each for each in known.env if each != "OPENCODE_CONFIG_CONTENT"),
            extra=settings,
        ),
    )


def _known_files(name: str, env: object) -> list[tuple[str, str]]:
    """Return the settings that a user would have, where the adapter's own variable holds others."""
    if name != "opencode" or not isinstance(env, dict):
        return []
    settings = json.loads(env["OPENCODE_CONFIG_CONTENT"])
    return [(".config/opencode/opencode.json", json.dumps({"provider": settings["provider"]}))]
