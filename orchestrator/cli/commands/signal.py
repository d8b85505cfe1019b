"""`loopwright signal`: how an agent ends its attempt. Starts fast; agents call it."""

from __future__ import annotations

import os

from communication.signal import signal
from communication.words import shown
from orchestrator.terminal.options import CommandLineParser, UsageError
from orchestrator.terminal.text import safe, tell

TYPES = ("task_complete", "blocked", "pr_created", "question")


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Write the breakpoint that ends this attempt. Agents call it as their last act.",
        example=(
            f'loopwright {name} task_complete --summary "What was done and how it was checked"\n'
            f'loopwright {name} blocked --blocked-on T002 --reason "Why"\n'
            f'loopwright {name} pr_created --pr-url URL --summary "What it contains"\n'
            f'loopwright {name} pr_created --reply r3k7m="Done: it is called add now"\n'
            f'loopwright {name} question --question "What must be decided"'
        ),
        more="Needs the LOOPWRIGHT_* variables that Loopwright sets for the agents it starts.",
    )
    made.add_argument("type", metavar="TYPE", help=f"one of {', '.join(TYPES)}")
    made.add_argument("--summary", default="", metavar="TEXT", help="what was done")
    made.add_argument(
        "--blocked-on",
        nargs="+",
        action="extend",
        default=[],
        metavar="X",
        help="task ids or free words; may be repeated",
    )
    made.add_argument("--reason", default="", metavar="TEXT", help="why it is blocked")
    made.add_argument("--pr-url", metavar="URL", help="the pull request that was opened")
    made.add_argument(
        "--reply",
        action="append",
        default=[],
        metavar="ID=TEXT",
        help="an answer to a reviewer's remark, by the id in the summary; may be repeated",
    )
    made.add_argument("--question", default="", metavar="TEXT", help="what a person must answer")
    return made


def _reply(given: str) -> tuple[str, str]:
    remark, equals, text = given.partition("=")
    if not equals:
        raise UsageError(f"--reply {shown(given)} names no remark: write --reply ID=TEXT")
    return remark, text


def run(name: str, args: list[str]) -> int:
    """Write it."""
    options = parser(name).parse_args(args)
    path = signal(
        os.environ,
        options.type,
        summary=options.summary,
        blocked_on=options.blocked_on,
        reason=options.reason,
        pr_url=options.pr_url,
        question=options.question,
        replies=[_reply(each) for each in options.reply],
    )
    agent, task = os.environ["LOOPWRIGHT_AGENT_ID"], os.environ["LOOPWRIGHT_TASK_ID"]
    tell(safe(f"{options.type} of {agent} on {task} is written to {path}; stop now."))
    return 0
