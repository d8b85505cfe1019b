"""Hostile words of agents reach a terminal only with their control characters escaped."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from typing import TYPE_CHECKING

import pytest

from lifecycle.mask_values import HIDDEN, masked, with_secrets, without_secrets
from lifecycle.plan import Agent, Task
from lifecycle.settings import Settings
from orchestrator.cli.main import main
from orchestrator.wording.live_view import PlainView
from runtime.errors import SpawnError
from runtime.masking.masker import Masker
from tests.orchestrator.filled import loop_of
from tests.orchestrator.loopkit import World
from tests.safety.corpus import HOSTILE

if TYPE_CHECKING:
    from pathlib import Path

RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e007f]"
)
STORABLE = [
    text.replace("\0", "").encode("utf-8", "replace").decode()
    for text in HOSTILE
    if len(text) < 400
]


class Terminal(io.TextIOWrapper):
    """A terminal that keeps what it is shown."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")

    def isatty(self) -> bool:
        return True

    def shown(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


def seen(repo: Path, *args: str) -> str:
    """Return what a terminal is shown by a command."""
    out, err = Terminal(), Terminal()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main([*args, "--repo", str(repo)])
    return out.shown() + err.shown()


def test_no_command_shows_them_raw(
    tmp_path: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del clean_home
    monkeypatch.setenv("NO_COLOR", "1")
    world = World(tmp_path)
    told = "\n".join(STORABLE)
    steps = [
        *({"say": text} for text in STORABLE),
        {"write": {"path": "red \x1b[31m\u202etxt\x07", "text": "x"}},
        {"commit": "subject \x1b]52;c;AAAA\x07 \u202etxt"},
        {"breakpoint": {"type": "task_complete", "summary": told}},
    ]
    command = tuple(world.script("hostile", steps).split())
    agent = Agent(agent_id="agent-T001", command=command)
    task = Task(id="T001", title="\x1b[31mA title\u202e", verify=("cat $(ls | tail -1); exit 1",))
    short = Settings(max_retries=1, retry_interval=0.01, baseline=False)
    view = Terminal()
    plain = PlainView(view)
    loop = loop_of(world.repo, settings=short, observers=(plain.news,))
    asyncio.run(loop.run_agent_loop(agent, task))
    plain.note(told, "agent-T001")
    pages = {"view": view.shown()}
    for args in (
        ("show", "agent-T001", "--why"),
        ("events", "agent-T001"),
        ("events", "agent-T001", "--json"),
        ("logs", "agent-T001", "--attempt", "1"),
        ("summary", "agent-T001"),
        ("ps", "--all"),
        ("audit",),
        ("export", "--json"),
    ):
        pages[" ".join(args)] = seen(world.repo, *args)
    for name, page in pages.items():
        assert page, name
        found = RAW.search(page.replace("\r\n", "\n"))
        assert found is None, f"{name}: {page[max(0, found.start() - 80) : found.end() + 20]!r}"
    raw = (world.repo / ".loopwright/logs/agent-T001/1.log").read_text(errors="replace")
    assert RAW.search(raw)


def test_values_are_masked_wherever_they_stand_and_else_left_alone() -> None:
    masker = Masker({"API_KEY": "zx81-spectrum-48k"})
    task = Task(id="T001", title="use zx81-spectrum-48k", verify=("a", "b zx81-spectrum-48k"))
    told = masked({"task": task, "list": [1, ("zx81-spectrum-48k",)]}, masker)
    assert told["task"] == Task(
        id="T001", title="use ***API_KEY***", verify=("a", "b ***API_KEY***")
    )
    assert told["list"] == [1, ("***API_KEY***",)]
    clean = {"task": Task(id="T001"), "list": [1, ("x",)], "none": None}
    assert masked(clean, masker) is clean
    assert masked(task, Masker()) is task


def test_a_secret_that_was_not_stored_is_asked_for_again() -> None:
    env = {"API_KEY": "zx81-spectrum-48k", "MODE": "fast"}
    kept = without_secrets(env, Masker())
    assert kept == {"API_KEY": HIDDEN, "MODE": "fast"}
    agent = Agent(agent_id="a", command=("x",), env=kept)
    with pytest.raises(SpawnError, match=r"API_KEY.*pass_env"):
        with_secrets(agent, ())
    assert with_secrets(agent, ("API_KEY",)) == {"MODE": "fast"}
