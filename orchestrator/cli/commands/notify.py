"""`loopwright notify`: what people were told, how each channel does, and a test of them."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from orchestrator.config.settings import load_settings
from orchestrator.control import notifications
from orchestrator.control.people_only import require_person
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, UsageError, count, find_repo, positive
from orchestrator.terminal.text import (
    blocks,
    instant,
    now,
    one_line,
    say,
    tell,
    terminal_width,
    to_json,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from orchestrator.notify.forms import ChannelForm, NotificationForm

ACTIONS = ("list", "test")
_PAGE = 999
_MORE = """\
actions:
  list            what was told and what waits, the newest first, and how each channel does
  test            send one message through every channel, or through --channel NAME

Channels are [[notify]] entries of the settings; docs/how-to/notifications.md has recipes."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Show what people were told, and test the channels.",
        example=f"loopwright {name} test\nloopwright {name} test --channel phone\n"
        f"loopwright {name} list",
        more=_MORE,
    )
    made.with_action(ACTIONS)
    made.add_argument("--channel", metavar="NAME", help="test only this one")
    made.add_argument("--limit", type=positive, metavar="N", help="notifications to list (20)")
    made.add_argument("--before", type=count, metavar="NO", help="list only older ones than this")
    return made.with_json("print one JSON object").with_repo()


def run(name: str, args: list[str]) -> int:
    """Do it."""
    made = parser(name)
    options = made.parse_args(args)
    others = ("limit", "before") if options.action == "test" else ("channel",)
    for option in others:
        if getattr(options, option) is not None:
            made.error(f"`{name} {options.action}` takes no --{option}")
    repo = find_repo(options.repo)
    return _test(repo, options) if options.action == "test" else _list(repo, options)


def _test(repo: Path, options: Namespace) -> int:
    require_person(repo, "notify test")
    settings = load_settings(repo, environ=os.environ)
    try:
        tested = asyncio.run(notifications.test(repo, settings, only=options.channel))
    except notifications.NotifyError as problem:
        raise UsageError(str(problem)) from problem
    failed = [each for each in tested if not each["ok"]]
    if options.json:
        say(to_json({"channels": tested}))
    else:
        for each in tested:
            end = "sent" if each["ok"] else f"failed: {one_line(each['problem'])}"
            say(f"{each['channel']} ({each['kind']}): {end}")
    return exits.USAGE if failed else exits.COMPLETE


def _list(repo: Path, options: Namespace) -> int:
    settings = load_settings(repo, environ=os.environ)
    limit = min(options.limit or 20, _PAGE)
    found = asyncio.run(notifications.page(repo, settings, before=options.before, limit=limit))
    if options.json:
        say(to_json(found))
        return exits.COMPLETE
    present = now()
    rows = [_row(each, present) for each in found["items"]]
    heads = ("NO", "WHEN", "WHAT", "CHANNELS", "TEXT")
    if rows:
        say("\n".join(blocks(heads, rows, width=terminal_width(sys.stdout, os.environ))))
    else:
        say("Nobody was told anything yet.")
    if found["next"] is not None:
        tell(f"There are more: add --before {found['next']}")
    if not found["channels"]:
        tell("No channel is configured; docs/how-to/notifications.md shows how.")
    for each in found["channels"]:
        say(one_line(_channel(each, present)))
    return exits.COMPLETE


def _row(each: NotificationForm, present: float) -> tuple[str, ...]:
    ways = ", ".join(f"{send['channel']}: {send['state']}" for send in each["sends"])
    kind = f"{each['type']}.{each['reason']}" if each["reason"] else each["type"]
    when = instant(each["at"], present)
    return str(each["cursor"]), when, kind, ways or "none", one_line(each["text"], 400)


def _channel(each: ChannelForm, present: float) -> str:
    head = f"{each['name']} ({each['kind']}): {each['sent']} sent, {each['waiting']} waiting"
    if each["failing_since"] is None:
        return head
    again = f"; next try {instant(each['next_at'], present)}" if each["next_at"] else ""
    since = instant(each["failing_since"], present)
    return f"{head}; failing since {since}: {each['problem']}{again}"
