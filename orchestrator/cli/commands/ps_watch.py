"""`loopwright ps --watch`: the list drawn again as it changes, with what working agents do."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from lifecycle.plan import Agent
from orchestrator.cli.commands.ps_table import listing, table_lines
from orchestrator.config.known_secrets import masker_of
from orchestrator.config.settings import load_settings
from orchestrator.terminal import exits
from orchestrator.terminal.live_area import LiveArea
from orchestrator.terminal.text import coloured, now, paint, say
from orchestrator.wording.last_output import LastOutput
from runtime.workspaces.worktrees_dir import worktrees_dir

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from orchestrator.wording.lifecycle_row import Columns

WATCH_EVERY = 1.0
"""Seconds between two looks."""


def watch(repo: Path, options: Namespace) -> int:
    """Print again as it changes; in place on a terminal. Ctrl-C ends it."""
    area = LiveArea(sys.stdout)
    in_place, wanted = sys.stdout.isatty(), coloured(sys.stdout, os.environ)
    before: object = None
    doing = _Doing(repo)

    def lines() -> list[str]:
        found, rows, _, _ = listing(repo, options)
        width = area.width if in_place else 0
        made = table_lines(found, rows, options, width, wanted=wanted, doing=doing.of)
        made = "\n".join(made).splitlines()
        room = area.height - 2
        if in_place and len(made) > room:
            made = [*made[: room - 1], f"... {len(made) - room + 1} lines more: loopwright ps"]
        return [*made, paint("Ctrl-C ends the list; nothing else ends.", "dim", wanted=wanted)]

    if in_place:
        area.open()
    try:
        while True:
            if in_place:
                area.show(lines)
            else:
                before = _told_anew(repo, options, before)
            time.sleep(WATCH_EVERY)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    finally:
        area.leave()


def _told_anew(repo: Path, options: Namespace, before: object) -> object:
    """Print the list where no terminal shows it, if a state changed; return what was told."""
    found, rows, _, _ = listing(repo, options)
    states = [(row["agent_id"], row["state"], row["attempt"]) for row in rows]
    if states != before:
        say("\n".join(table_lines(found, rows, options, 0, wanted=False)))
        sys.stdout.flush()
    return states


class _Doing:
    """What agents do, for a list that is watched; read off their logs."""

    def __init__(self, repo: Path) -> None:
        self._repo = repo
        settings = load_settings(repo, environ=os.environ)
        self._words = LastOutput(now, masker_of(os.environ, settings.pass_env))
        self._folder = worktrees_dir(repo, settings.worktrees_dir, os.environ)

    def of(self, columns: Columns) -> str:
        """Return what an agent does at the moment; nothing where it does not work."""
        if columns["work_kind"] not in ("Working", "Stopping") or columns["damaged"]:
            return ""
        tally = columns["work"].get("tally") or {}
        agent = Agent.model_validate((columns["facts"] or {}).get("agent"))
        attempt, program = columns["attempt"], str(tally.get("program") or "")
        log = Paths.of(self._repo).log(columns["agent_id"], attempt)
        folder = str(self._folder / columns["agent_id"])
        return self._words.of(agent, attempt, program, log, folder)
