"""`[[notify]]` entries: what they may say, and how one that is wrong is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lifecycle.notify.channel import NotifyChannel, with_names
from lifecycle.notify.message import Notification
from orchestrator.config.settings import explain_settings, load_settings
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

ASKS = Notification(id="msg_1", at=1.0, type="needs_you", reason="question")
DONE = Notification(id="msg_2", at=1.0, type="all_done")


def read(folder: Path, text: str) -> tuple[NotifyChannel, ...]:
    (folder / "loopwright.toml").write_text(text)
    return load_settings(folder, environ={}).notify


def test_each_entry_is_a_channel(tmp_path: Path) -> None:
    text = """
[[notify]]
command = ["./tell", "me now"]
events = ["needs_you", "budget.100"]

[[notify]]
webhook = "https://example.org/hook"
secret = "env:HOOK_SECRET"
quiet = "22:00-07:00"

[[notify]]
name = "phone"
url = "env:PHONE"
"""
    command, webhook, phone = read(tmp_path, text)

    assert command.command_line == "./tell 'me now'"
    assert command.takes(ASKS)
    assert not command.takes(DONE)
    assert webhook.quiet_span == (22 * 60, 7 * 60)
    assert list(with_names((command, webhook, phone))) == ["command", "webhook", "phone"]
    rows = {row.name: row for row in explain_settings(tmp_path, environ={})}
    assert rows["notify"].value[2] == {"name": "phone", "url": "env:PHONE"}
    assert "line 2" in rows["notify"].source


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[[notify]]\nbell = true\n\n[[notify]]\nbell = true\nevens = []\n", 6, "'events'"),
        ("[[notify]]\n\n", 1, "names one of command, webhook, url, desktop, bell"),
        ("[[notify]]\nbell = true\ndesktop = true\n", 1, "desktop and bell"),
        ("[[notify]]\nwebhook = 'ftp://x'\nsecret = 'env:X'\n", 2, "http:// or https://"),
        ("[[notify]]\nwebhook = 'https://x'\n", 1, "env:NAME"),
        ("[[notify]]\nwebhook = 'https://x'\nsecret = 'hunter2'\n", 3, "no settings file"),
        ("[[notify]]\nbell = true\nquiet = '22-7'\n", 3, "22:00-07:00"),
        ("[[notify]]\nbell = true\nevents = ['needs_you.questions']\n", 3, "needs_you.question"),
        ("[[notify]]\nbell = true\nmost_per_hour = 0\n", 3, "most_per_hour"),
        ("[[notify]]\nurl = 'nonsense'\n", 2, "Apprise"),
        ('[[notify]]\ncommand = "a \'b"\n', 2, "no command line"),
        ("notify = ['bell']\n", 1, "[[notify]]"),
        ("notify = 'bell'\n", 1, "[[notify]]"),
        ("[[notify]]\nname='x'\nbell=true\n[[notify]]\nname='x'\ndesktop=true\n", 1, "'x'"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        read(tmp_path, text)
    assert f"loopwright.toml, line {line}: " in str(refusal.value)
    assert said in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


def test_channels_can_come_from_a_variable() -> None:
    entry = json.dumps([{"name": "a", "command": "cat"}])
    (found,) = load_settings(_nowhere(), environ={"LOOPWRIGHT_NOTIFY": entry}).notify
    assert found.command_line == "cat"


def _nowhere() -> Path:
    from pathlib import Path as Folder  # noqa: PLC0415  # only here at run time

    return Folder("/nonexistent")


def test_names_are_given_by_kind_and_number() -> None:
    bell = NotifyChannel(bell=True)
    named = NotifyChannel(name="bell", bell=True)
    assert list(with_names((bell, named, bell))) == ["bell-2", "bell", "bell-3"]
    assert bell.takes(ASKS)
    assert not bell.is_urgent(ASKS)
