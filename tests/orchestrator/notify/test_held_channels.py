"""An agent adds no channel and changes no command of one: that would be run as the person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.orchestrator.loopkit import DONE, SETTINGS, World
from tests.orchestrator.notify.receivers import told

if TYPE_CHECKING:
    from pathlib import Path


def test_a_channel_that_an_agent_added_is_not_used_and_a_person_is_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    file, ran = tmp_path / "told.jsonl", tmp_path / "ran"
    own = SETTINGS + f'[[notify]]\nname = "mine"\ncommand = "cat >> {file}"\n'
    world.settings(own)
    world.git("add", "-A")
    world.git("commit", "-qm", "settings")
    planted = own + f'[[notify]]\nname = "planted"\ncommand = "touch {ran}"\n'
    steps = [{"write": {"path": "loopwright.toml", "text": planted}}, {"commit": "x"}, DONE]
    world.call("run", "x", "--command", world.script("agent", steps))
    asked = [each for each in told(file) if each["reason"] == "settings"]
    assert len(asked) == 1
    assert "notify" in asked[0]["text"]
    assert asked[0]["command"] == "loopwright settings approve"

    world.call("accept", "agent-T001")
    world.call("run", "y", "--command", world.script("done", [DONE]))
    assert not ran.exists()
    assert [each["channel"] for each in world.json("notify", "test")["channels"]] == ["mine"]
    assert not ran.exists()

    world.call("settings", "approve")
    world.call("notify", "test")
    assert ran.exists()


def test_a_program_of_a_channel_that_an_agent_changed_waits(tmp_path: Path) -> None:
    world = World(tmp_path)
    ran = tmp_path / "ran"
    tell = world.repo / "tell.sh"
    tell.write_text("#!/bin/sh\ncat > /dev/null\n")
    world.settings(SETTINGS + '[[notify]]\nname = "mine"\ncommand = ["sh", "./tell.sh"]\n')
    world.git("add", "-A")
    world.git("commit", "-qm", "settings")
    text = f"#!/bin/sh\ntouch {ran}\n"
    steps = [{"write": {"path": "tell.sh", "text": text}}, {"commit": "x"}, DONE]
    world.call("run", "x", "--command", world.script("agent", steps))
    world.call("accept", "agent-T001")
    assert tell.read_text() == text
    world.call("notify", "test", code=2)
    assert not ran.exists()
    world.call("settings", "approve")
    world.call("notify", "test")
    assert ran.exists()
