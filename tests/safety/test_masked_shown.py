"""What is made readable is masked once more: pages, logs that are shown; settings that are kept."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.audit import Audit
from lifecycle.context.snapshot import ContextBuilder
from lifecycle.plan import Agent, Task
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.runner.settings_audit import SEEN, SettingsAudit
from orchestrator.wording.program_output import ReadableOutput
from runtime.agents.catalogue import built_in
from runtime.masking.masker import Masker
from templates.renderer import Renderer
from tests.lifecycle import reporting
from tests.orchestrator.filled import loop_of
from tests.orchestrator.loopkit import DONE, World
from tests.safety.test_terminal import seen

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "Zx9Qw/ErTy+UiOp8a=SdF7gHjK"  # noqa: S105  # nobody's
COLOURED = f"{SECRET[:5]}\x1b[1;31m{SECRET[5:11]}\x1b[0m{SECRET[11:]}"
MASKER = Masker({"GITHUB_TOKEN": SECRET})
MARK = "***GITHUB_TOKEN***"
ROOT = Path(__file__).resolve().parents[2]


# --- pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mask", "told"), [(str, SECRET), (MASKER.mask, MARK)])
def test_a_page_is_masked_when_all_in_it_is_clean(mask: Callable[[str], str], told: str) -> None:
    """First the attack: nothing masks what cleaning brought about."""
    builder = ContextBuilder(Renderer(mask=mask))
    task = Task(id="T001", title="A task", description=f"mind\n{COLOURED}")
    snapshot = builder.capture(
        task=task, agent_id="a", captured_at=1.0, attempt=1, last_words=f"saw {COLOURED}, so\nwent"
    )
    handed = builder.handout(snapshot, comm_file="/c.json", summary_file="/s.md", spawn_id="s1")
    for page in handed:
        assert page.count(told) == 2
        assert (SECRET in page) is (told == SECRET)


@pytest.mark.parametrize(("mask", "told"), [(str, SECRET), (MASKER.mask, MARK)])
def test_a_summary_of_a_person_is_masked_too(mask: Callable[[str], str], told: str) -> None:
    builder = ContextBuilder(Renderer(mask=mask))
    snapshot = builder.capture(
        task=Task(id="T001"), agent_id="a", captured_at=1.0, person_summary=f"Mind {SECRET}!"
    )
    assert builder.render(snapshot) == f"Mind {told}!\n"


# --- logs that are shown ------------------------------------------------------------------------


@pytest.fixture
def logged(tmp_path: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a repository in which an agent printed a secret that nobody knew then."""
    del clean_home
    monkeypatch.setenv("NO_COLOR", "1")
    world = World(tmp_path)
    steps = [
        reporting.starts(),
        {"say": f"plain {COLOURED}"},
        reporting.finishes(f"coloured {COLOURED}"),
        DONE,
    ]
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "script.json").write_text(json.dumps(steps))
    program = programs / "claude"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -S -P -m runtime.agents.scripted "
        f"{tmp_path / 'script.json'}\n"
    )
    program.chmod(0o755)
    with monkeypatch.context() as then:
        then.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        loop = loop_of(
            world.repo,
            settings=Settings(retry_interval=0.01, baseline=False, tool_server="off"),
        )
        agent = Agent(agent_id="agent-T001", adapter="claude")
        asyncio.run(loop.run_agent_loop(agent, Task(id="T001")))
    return world


LOGS = ("logs", "agent-T001", "1")


def test_a_log_that_is_shown_is_masked_after_it_was_made_readable(
    logged: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    for told in (seen(logged.repo, *LOGS, "--words"), seen(logged.repo, *LOGS)):
        assert told.count(SECRET) == 2  # the attack: this process does not know it either
    assert seen(logged.repo, *LOGS, "--raw").count(SECRET) == 1
    monkeypatch.setenv("GITHUB_TOKEN", SECRET)
    shown = (
        seen(logged.repo, *LOGS, "--words"),
        seen(logged.repo, *LOGS),
        seen(logged.repo, *LOGS, "--raw"),
        json.loads(logged.call(*LOGS, "--json").stdout)["text"],
    )
    for told in shown:
        assert told.count(MARK) == 2
        assert SECRET not in told
        assert SECRET[12:] not in told


# --- last words ---------------------------------------------------------------------------------


def result(words: str) -> bytes:
    line = {"type": "result", "subtype": "success", "is_error": False, "result": words}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def said(words: str) -> bytes:
    message = {"id": words, "content": [{"type": "text", "text": words}]}
    return (
        json.dumps({"type": "assistant", "message": message}, separators=(",", ":")).encode()
        + b"\n"
    )


BEGIN = b'{"type":"system","subtype":"init","session_id":"s","model":"m"}\n'


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([BEGIN, result("All done.")], ["[starts with m]", "All done."]),
        ([BEGIN, said("I look."), result("I look.")], ["[starts with m]", "I look."]),
        ([BEGIN, result("One."), BEGIN, result("Two.")],
         ["[starts with m]", "One.", "[starts with m]", "Two."]),
        ([BEGIN, said("One."), result("One."), BEGIN, result("")],
         ["[starts with m]", "One.", "[starts with m]"]),
        ([BEGIN, result("")], ["[starts with m]"]),
    ],
)  # fmt: skip
def test_words_that_only_the_end_of_a_turn_reports_are_told(
    lines: list[bytes], told: list[str]
) -> None:
    retelling = ReadableOutput(built_in("claude"), lambda: 0.0)
    text = "".join(map(retelling.take, lines)) + retelling.end()
    assert text.splitlines() == told


# --- settings -----------------------------------------------------------------------------------


class Held:
    """A trail of settings, and all that is kept of it."""

    def __init__(self) -> None:
        self.store, self.masker = SqliteStore.in_memory(), Masker()
        self.trail = self.store.trail
        self.settings = Settings()

    def trail_of(self) -> SettingsAudit:
        audit = Audit(self.trail, now=lambda: 1.0, masker=self.masker)
        return SettingsAudit(
            audit,
            self.store,
            lambda: self.settings,
            by="ada",
            masker=self.masker,
            now=float,
            tell=lambda _: None,
        )

    async def kept(self) -> tuple[dict[str, Any], list[str]]:
        entries = [entry.details for entry in await self.trail.entries()]
        return (await self.store.all(SEEN)).get(SEEN, {}), entries


async def test_settings_are_kept_without_the_secrets_in_them() -> None:
    held = Held()
    held.settings = Settings(verify=(f"curl -H 'Authorization: {SECRET}' x",))
    await held.trail_of().begin()
    assert SECRET in str(await held.kept())  # the attack: a runner that knows of no secret
    held.masker = MASKER
    trail = held.trail_of()
    await trail.begin()
    kept, entries = await held.kept()
    assert SECRET not in str(kept)
    assert kept["verify"] == [f"curl -H 'Authorization: {MARK}' x"]
    assert len(entries) == 1  # what is only masked has not changed
    held.settings = held.settings.model_copy(update={"max_retries": 7})
    await trail.look()
    kept, entries = await held.kept()
    assert SECRET not in str(kept)
    assert len(entries) == 2


async def test_a_secret_that_is_learnt_later_is_no_change_of_a_setting() -> None:
    held = Held()
    held.settings = Settings(verify=(f"check {SECRET}",))
    trail = held.trail_of()
    await trail.begin()
    held.masker.learn({"GITHUB_TOKEN": SECRET})
    held.settings = held.settings.model_copy(update={"max_retries": 7})
    await trail.look()
    kept, entries = await held.kept()
    assert SECRET not in str(kept)
    assert [sorted(json.loads(entry)["to"].__class__.__name__ for entry in entries)] == [
        ["int", "list"]
    ]
