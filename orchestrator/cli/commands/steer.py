"""The operator commands: pause resume stop guide unblock answer reject.

Works on a live runner and on a stopped repository alike. Prints the result, never just "done".
"""

from __future__ import annotations

import asyncio

from orchestrator.control import commands
from orchestrator.control.people_only import require_person
from orchestrator.terminal.options import (
    CommandLineParser,
    UsageError,
    find_repo,
    positive,
    seconds,
    user,
)
from orchestrator.terminal.text import one_line, say, tell, to_json

_WORDS = {
    "pause": (
        "Start no new attempt after the current one; its timers pause until `resume`.",
        "loopwright pause agent-T001 --turns 5\nloopwright pause agent-T001 --now",
    ),
    "resume": (
        "Continue a paused, stopped or given-up lifecycle; it moves once a runner is alive.",
        "loopwright resume agent-T001",
    ),
    "stop": (
        "End the current attempt now, keep its work, and hold the lifecycle until `resume`.",
        'loopwright stop agent-T001 --why "The plan has changed"',
    ),
    "guide": (
        "Tell the next attempt something. Completed work goes back to a fresh attempt with it.",
        'loopwright guide agent-T001 "Keep the old flag working"',
    ),
    "unblock": (
        "Say that what the agent waits for is settled; a fresh attempt starts.",
        'loopwright unblock agent-T001 "The key is in place now"',
    ),
    "answer": (
        "Answer the agent's question; a fresh attempt starts with the answer.",
        'loopwright answer agent-T001 "Take the second option"',
    ),
    "reject": (
        """End a lifecycle and remove its workspace and branch. Repeating is safe.
Unmerged work stays under saved refs, which are named.""",
        'loopwright reject agent-T001 --why "No longer wanted"',
    ),
}
_TEXT = {"guide": None, "answer": None, "unblock": "?"}
"""Commands that take a text: required or, with `?`, optional."""
_WITH_REASON = ("pause", "resume", "stop", "unblock", "reject")


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    text, example = _WORDS[name]
    made = CommandLineParser(name, text, example=example).with_agent()
    if name in _TEXT:
        made.add_argument("text", nargs=_TEXT[name], metavar="TEXT", help="what to say")
    if name in _WITH_REASON:
        made.with_reason()
    if name == "pause":
        made.add_argument(
            "--turns", type=positive, metavar="N",
            help="resume after N turns of its runner: attempts that it started",
        )  # fmt: skip
        made.add_argument(
            "--now", action="store_true",
            help="also freeze the agent's processes; their timers pause until `resume`",
        )  # fmt: skip
    made.with_by()
    made.add_argument(
        "--wait", type=seconds, default=10.0, metavar="S",
        help="seconds to wait for a live runner (10)",
    )  # fmt: skip
    return made.with_json("print the result as JSON").with_repo()


def run(name: str, args: list[str]) -> int:
    """Ask for it and print the result."""
    options = parser(name).parse_args(args)
    if name in ("guide", "answer") and not options.text.strip():
        raise UsageError(f'say something: loopwright {name} {options.agent} "TEXT"')
    repo = find_repo(options.repo)
    require_person(repo, f"{name} {options.agent}", options.agent)
    command = commands.OperatorCommand(
        verb=name,
        agent_id=options.agent,
        text=(getattr(options, "text", None) or "").strip(),
        by=options.by or user(),
        why=getattr(options, "why", "").strip(),
        wait_s=options.wait,
        now=name == "pause" and options.now,
        turns=(options.turns or 0) if name == "pause" else 0,
    )
    outcome = asyncio.run(commands.steer(repo, command))
    if options.json:
        say(to_json(outcome.to_json()))
    else:
        say(one_line(f"{options.agent}: {outcome.text}"))
        if outcome.hint:
            tell(one_line(outcome.hint))
    return outcome.exit_code
