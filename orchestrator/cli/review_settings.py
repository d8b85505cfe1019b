"""The last question of `loopwright review`: what agents changed of the settings that limit them.

Puts into force only the values that were shown.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from orchestrator.cli.review_screen import QUIT, SKIP
from orchestrator.config.known_secrets import masker_of
from orchestrator.control import approve_settings
from orchestrator.errors import ConfigError
from orchestrator.review import card
from orchestrator.terminal.keys import ask_key
from orchestrator.terminal.text import coloured, one_line, paint, say, tell, terminal_width, wrapped

if TYPE_CHECKING:
    from pathlib import Path

_KEYS = (("a", "put into force"), ("r", "refuse"), (SKIP, "skip"), (QUIT, "quit"))


def settings_are_decided(repo: Path, by: str, *, asked: bool) -> bool:
    """Ask about all of it at once, if it is to be asked; tell whether nothing waits any more."""
    try:
        _, approvals = approve_settings.read(repo, os.environ)
    except ConfigError:
        return True  # who runs something reports it
    held = approve_settings.undecided(approvals, approve_settings.refused_in(repo))
    if not (held and asked):
        return not held
    colours = coloured(sys.stdout, os.environ)
    say(paint("Settings that limit agents, changed by agents", "bold", wanted=colours))
    say(paint("not in force yet", "yellow", wanted=colours))
    masker = masker_of(os.environ)
    width = terminal_width(sys.stdout, os.environ)
    for each in held.values():
        line = masker.mask(one_line(approve_settings.sentence(each)))
        say("\n  ".join(wrapped(line, width - 2) if width else [line]))
    while True:
        key = ask_key(f"{card.menu(_KEYS, width)}\n> ", os.environ)
        match key:
            case "a":
                asyncio.run(approve_settings.approve(repo, approvals, by, held))
                say("Put into force; a live runner uses it from its next attempt on.")
                return True
            case "r":
                asyncio.run(approve_settings.leave_out(repo, approvals, held, by, ""))
                say("Refused; `loopwright settings approve` can still put it into force.")
                return True
            case "" | "q" | "k":
                return False
            case _:
                tell("That is none of the keys.")
