"""`loopwright agents`: which agent programs there are, whether one fits, how a run of it ended."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.commands import agents_test
from orchestrator.control.agents import Recorded, install_of, judged, left_out, look
from orchestrator.terminal.options import CommandLineParser, UsageError, seconds
from orchestrator.terminal.text import instant, now, one_line, say, table, to_json
from runtime.agents.catalogue import adapter, adapters
from runtime.agents.outcome import PUBLIC
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from typing import Any

    from orchestrator.control.agents import Installed
    from runtime.agents.outcome import RunOutcome

ACTIONS = ("list", "outcome", "test")
HEADS = ("AGENT", "INSTALLED", "TESTED WITH", "WHERE")
_MORE = """\
outcome reads what a run wrote and tells how it ended: completed, rate_limit, quota, billing, auth,
overloaded, network, context_overflow, model, refused, denied, max_turns, budget, loop, hang,
timeout, crash, killed or error. The program's own events count first, then its exit code, then
standard error of a failed run. What a loop calls by a finer name (environment, waiting, limit) is
told beside it. A signal is a negative exit code, or 128 more than its number. A
time of day without a date is read as seen from now.

test starts a program many times, in throw-away repositories, and tells whether it can be run
in a loop: each case is pass, fail or not provoked. With a real model that costs money, so it asks
before. Exit code 0 when nothing failed, 6 when something did."""
_TEST_ONLY = ("command", "model", "timeout")
_TEST_FLAGS = ("only", "passes", "yes", "private")


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "List the agent programs that can be run, test one, or judge a recorded run of one.",
        example=(
            f"loopwright {name}\n"
            f"loopwright {name} outcome claude --stdout run.jsonl --exit-code 1 --json\n"
            f"loopwright {name} test codex --yes\n"
            f"loopwright {name} test --command './my-agent --once' --yes --json"
        ),
        more=_MORE,
    )
    made.with_action(ACTIONS)
    made.add_argument("adapter", nargs="?", metavar="NAME", help="the adapter's name")
    made.add_argument("--stdout", metavar="FILE", help="outcome: what it wrote to standard output")
    made.add_argument("--stderr", metavar="FILE", help="outcome: what it wrote to standard error")
    made.add_argument("--exit-code", type=int, metavar="N", help="outcome: how its process ended")
    _add_test_options(made)
    return made.with_json()


def _add_test_options(made: CommandLineParser) -> None:
    made.add_argument("--command", metavar="'CMD ARG'", help="test: a program without an adapter")
    made.add_argument("--model", metavar="M", help="test: the model it is to use")
    made.add_argument(
        "--only", metavar="CASE", action="append", default=[], help="test: only this case; repeat"
    )
    made.add_argument(
        "--timeout", metavar="S", type=seconds, help="test: seconds for one run; by default 180"
    )
    made.add_argument(
        "--pass",
        metavar="NAME",
        dest="passes",
        action="append",
        default=[],
        help="test: a variable it gets too, such as its key; repeat",
    )
    made.add_argument(
        "--private", action="store_true", help="test: keep your settings and login of it out"
    )
    made.add_argument("--yes", action="store_true", help="test: agree to what it costs")


def run(name: str, args: list[str]) -> int:
    """List or judge."""
    options = parser(name).parse_args(args)
    given = (options.adapter, options.stdout, options.stderr, options.exit_code)
    if options.action != "test" and _test_options(options):
        raise UsageError(f"{_test_options(options)} belongs to `loopwright {name} test`")
    if options.action == "test":
        if given[1:] != (None, None, None):
            raise UsageError("a recorded run is judged by `outcome`; test starts the program")
        return agents_test.run(name, options)
    if options.action == "outcome":
        if options.adapter is None or options.stdout is None or options.exit_code is None:
            raise UsageError("outcome needs the adapter's NAME, --stdout FILE and --exit-code N")
        return _outcome(options)
    if any(each is not None for each in given):
        raise UsageError(f"a name and files belong to `loopwright {name} outcome`")
    return _list(as_json=options.json)


def _test_options(options: Any) -> str:
    """Name the options of `test` that were given."""
    given = [each for each in _TEST_ONLY if getattr(options, each) is not None]
    given += [each for each in _TEST_FLAGS if getattr(options, each)]
    return ", ".join("--pass" if each == "passes" else f"--{each}" for each in given)


def _list(*, as_json: bool) -> int:
    known = adapters(left_out)
    with scratch("agents") as folder:
        found = asyncio.run(look(known.values(), os.environ, folder))
    if as_json:
        say(to_json([each.to_json() for each in found]))
    else:
        say(table(HEADS, [_row(each) for each in found]))
    return 0


def _row(each: Installed) -> tuple[str, ...]:
    adapter = each.adapter
    if not adapter.programs:
        return adapter.name, "any program", "", "--command 'PROGRAM ARG'"
    if not each.path:
        return adapter.name, "no", ", ".join(adapter.tested), install_of(adapter)
    where = f"{each.path} ({each.problem})" if each.problem else each.path
    version = each.version or "yes"
    if each.version and adapter.tested and not each.tested:
        version += " (not tested)"
    return adapter.name, version, ", ".join(adapter.tested), where


def _outcome(options: Any) -> int:
    recorded = Recorded(
        Path(options.stdout),
        options.exit_code,
        None if options.stderr is None else Path(options.stderr),
    )
    present = now()
    found = judged(adapter(options.adapter), recorded, lambda: present)
    # The promised names are coarser than those of a loop; both are shown.
    public, ending = str(PUBLIC.get(found.outcome, found.outcome)), str(found.outcome)
    shown = found.to_json() | {"outcome": public, "in_a_loop": ending}
    if options.json:
        say(to_json(shown))
        return 0
    words = public if public == ending else f"{public} (in a loop: {ending})"
    for line in _told(found, words, present):
        say(line)
    return 0


def _told(found: RunOutcome, outcome: str, present: float) -> list[str]:
    usage = found.usage
    reset = "" if found.reset_at is None else instant(found.reset_at, present)
    tokens = "" if usage is None else f"{usage.total} (in {usage.input}, out {usage.output})"
    rows = (
        ("outcome", outcome),
        ("why", one_line(found.detail)),
        ("what to do", found.what_to_do),
        ("limit ends", reset),
        ("session", one_line(found.session_id)),
        ("model", one_line(found.model)),
        ("tokens", tokens),
        ("cost", "" if found.cost_usd is None else f"{found.cost_usd:.4f} USD"),
        ("tool calls", str(found.tool_calls)),
        ("denied", one_line(", ".join(found.denied))),
        ("last words", one_line(found.last_words, 300)),
    )
    return [f"{head:<11} {value}" for head, value in rows if value]
