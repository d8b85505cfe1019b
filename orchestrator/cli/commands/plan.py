"""`loopwright plan "GOAL"`: an agent drafts a plan; a person reads, changes and writes it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from orchestrator.cli.draft_lifecycle import DraftFailedError
from orchestrator.cli.draft_rounds import DraftRounds
from orchestrator.cli.loop_options import isolation, with_looping
from orchestrator.cli.plan_dialog import PlanDialog
from orchestrator.cli.run_loops import CommandContext
from orchestrator.terminal.options import (
    CommandLineParser,
    UsageError,
    find_repo,
    positive,
    seconds,
)
from orchestrator.terminal.text import one_line, short_count, span, tell

ROUNDS = 5
TIMEOUT = 1200.0
_MORE = """\
The agent works in a workspace of its own, in the same sandbox and under the same budgets as an
attempt. Nothing of its work is merged; only its draft is read. The draft is checked: its form,
ids, cycles, and whether the program of each verify command is there. What is wrong is told to the
next draft, at most --rounds drafts altogether.

Then you write it ([y]), open it in $EDITOR ([e]), say in a sentence what should be different and
get another draft ([g]), or leave it ([n]). The newest draft is kept in .loopwright/drafts/.

Exit code: 0 written (with --json: a good draft), 2 usage, 3 no yes was given, or the agent asks
something and nobody can answer, 5 a limit was reached, 6 no usable draft, 75 another runner is at
work here, 130/143 ended by a signal."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Have an agent draft a plan for a goal; show it, and write it on your yes.",
        example=f'loopwright {name} "Port the parser to Python 3.13" --agent claude\n'
        f'loopwright {name} "Add a REST API" --yes --output api.toml && loopwright up api.toml',
        more=_MORE,
    )
    made.add_argument("goal", metavar="GOAL", help="what is to be reached")
    who = made.add_mutually_exclusive_group()
    who.add_argument("--agent", metavar="NAME", help="a known agent program, such as claude")
    who.add_argument("--command", metavar="'CMD ARG'", help="any program that reads its prompt")
    made.add_argument("--output", metavar="FILE", help="by default plan.toml in the repository")
    made.add_argument(
        "--rounds", type=positive, default=ROUNDS, metavar="N", help=f"drafts, by default {ROUNDS}"
    )
    made.add_argument(
        "--timeout",
        type=seconds,
        default=TIMEOUT,
        metavar="S",
        help=f"seconds for one draft, by default {TIMEOUT:g}; 0 for no limit",
    )
    made.add_argument("--yes", action="store_true", help="write a good draft without asking")
    with_looping(made)
    return made.with_json("print the draft as JSON; writes it only with --yes").with_repo()


def run(name: str, args: list[str]) -> int:
    """Draft, ask, write."""
    options = parser(name).parse_args(args)
    goal = options.goal.strip()
    if not goal:
        raise UsageError('say what is to be reached: loopwright plan "GOAL" (see --help)')
    confined = isolation(options.isolation, allow_weaker=options.allow_weaker)
    repo = find_repo(options.repo)
    output = _output(options.output, repo, replaces=not options.yes)
    context = CommandContext.of(repo, stay_for_people=False, **confined)
    rounds = DraftRounds(
        context, options.agent, options.command, timeout=options.timeout, plain=options.plain
    )
    dialog = PlanDialog(
        rounds,
        output,
        goal,
        most=options.rounds,
        asks=not (options.yes or options.json),
        writes=options.yes or not options.json,
        prints_json=options.json,
    )
    try:
        return dialog.run()
    except DraftFailedError as problem:
        tell(f"loopwright {name}: {one_line(str(problem))}")
        return problem.code
    finally:
        with suppress(BrokenPipeError):
            _tell_usage(rounds)


def _output(given: str | None, repo: Path, *, replaces: bool) -> Path:
    """Return the file to write; one that cannot be written is refused before money is spent."""
    path = Path(given).absolute() if given is not None else repo / "plan.toml"
    if path.suffix != ".toml":
        raise UsageError(f"--output {given}: a plan is written as a .toml file")
    if not path.parent.is_dir():
        raise UsageError(f"--output {given}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--output {given}: nothing can be written to {path.parent}")
    if os.path.lexists(path) and not (replaces and path.is_file()):
        raise UsageError(f"{path} exists; name another file with --output, or remove it")
    return path


def _tell_usage(rounds: DraftRounds) -> None:
    used = rounds.used
    if not used.attempts:
        return
    drafts = "1 draft" if used.attempts == 1 else f"{used.attempts} drafts"
    tokens = f", {short_count(used.tokens)} tokens" if used.tokens else ""
    cost = "cost unknown" if used.cost_usd is None else f"{used.cost_usd:.2f} USD"
    tell(f"Used: {drafts} in {span(used.seconds)}{tokens}, {cost} (see `loopwright costs`)")
