"""`--detach` of the commands that run loops: starts them in the background, and says where.

Decides nothing about lifecycles.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from orchestrator.background import detached
from orchestrator.background.ending import live_runner
from orchestrator.terminal import exits
from orchestrator.terminal.text import safe, say, tell, to_json
from runtime.git.git import inspect_repository

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from pathlib import Path

    from orchestrator.terminal.options import CommandLineParser

_NOT_PASSED_ON = ("--detach", "--json")


def with_detach(parser: CommandLineParser) -> CommandLineParser:
    """Add --detach."""
    parser.add_argument(
        "--detach",
        action="store_true",
        help="go on in the background; `loopwright down` ends it",
    )
    return parser


def start_detached(
    name: str, args: Sequence[str], repos: Sequence[Path], options: Namespace, *more: str
) -> int:
    """Start this command in the background for these repositories; `more` are further options."""
    for repo in repos:
        inspect_repository(repo).require_usable()
        if (runner := live_runner(Paths.of(repo).root)) is not None:
            tell(
                f"loopwright {name}: {runner.name} is at work in {repo} already; "
                "`loopwright ps` shows what it does, `loopwright down` ends it"
            )
            return exits.BUSY
    log = Paths.of(repos[0]).root / f"{name}.log"
    passed = [each for each in args if each not in _NOT_PASSED_ON]
    found = detached.start((name, *more, *passed), log, environ=os.environ)
    if found.exit_code is not None:
        shown = safe(found.output, lines=True)
        if found.exit_code == exits.COMPLETE:
            say(shown)
        else:
            tell(shown or f"loopwright {name}: it ended at once")
        return found.exit_code
    if options.json:
        told = {"pid": found.pid, "log": str(log), "ready": found.status is not None}
        say(to_json({**told, "url": found.status or None}, compact=True))
        return exits.COMPLETE
    served = f" at {found.status}" if found.status else ""
    say(f"loopwright {name} goes on in the background{served} (pid {found.pid})")
    say(f"log: {log}")
    if found.status is None:
        tell("It is not ready yet; its log says why.")
    tell("Next: loopwright ps   (loopwright down ends it)")
    return exits.COMPLETE
