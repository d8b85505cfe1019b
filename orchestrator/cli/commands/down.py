"""`loopwright down`: ends the runner of a repository, with its work saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from orchestrator.background.ending import end, live_runner
from orchestrator.control.people_only import require_person
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo, seconds
from orchestrator.terminal.text import say, tell, to_json

if TYPE_CHECKING:
    from orchestrator.background.ending import LiveRunner

_MORE = """\
It does what Ctrl-C does in the terminal of the runner: agents are asked to end, their work is
saved, and every lifecycle stays resumable: `loopwright up` goes on with them. With --now it does
what the second Ctrl-C does: agents are killed at once, and what is being saved is still finished.

It ends what `up`, `serve` or `run` started, in the background or in a terminal, and what a service
runs (`loopwright service`); the system starts that again at the next login.

Exit code: 0 ended, or nothing was running; 2 it cannot be ended from here; 4 with --wait, it is
still ending."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "End the runner of this repository with its work saved, and wait until it has ended.",
        example="loopwright down\nloopwright down --now",
        more=_MORE,
    )
    made.add_argument("--now", action="store_true", help="kill the agents at once")
    made.add_argument(
        "--wait", type=seconds, metavar="S", help="wait at most so long; by default until its end"
    )
    made.add_argument(
        "--all",
        action="store_true",
        help="also where it serves other repositories, which ends them all",
    )
    return made.with_json("print what was ended as JSON").with_repo()


def run(name: str, args: list[str]) -> int:
    """End it."""
    options = parser(name).parse_args(args)
    repo = find_repo(options.repo)
    require_person(repo, "end the runner")
    runner = live_runner(Paths.of(repo).root)
    if runner is None:
        if options.json:
            say(to_json({"runner": None, "ended": False}, compact=True))
        else:
            say(f"nothing is running in {repo}")
        return exits.COMPLETE
    if runner.repositories > 1 and not options.all:
        raise UsageError(
            f"{runner.name} serves {runner.repositories} repositories, and ends for all of them; "
            "if you mean that: loopwright down --all"
        )
    tell(f"ending {runner.name}: {'agents are killed' if options.now else 'work is saved'}")
    try:
        ended = end(runner, at_once=options.now, wait_s=options.wait)
    except KeyboardInterrupt:
        tell(f"{runner.name} goes on ending; `loopwright down --now` kills its agents")
        raise
    return _told(runner, ended=ended, json=options.json)


def _told(runner: LiveRunner, *, ended: bool, json: bool) -> int:
    if json:
        say(to_json({"runner": dict(runner.said), "ended": ended}, compact=True))
    elif ended:
        say(f"ended: {runner.name}; `loopwright up` goes on where it was")
    else:
        say(f"still ending: {runner.name}; `loopwright down --now` kills its agents")
    return exits.COMPLETE if ended else exits.WAITING_OUTSIDE
