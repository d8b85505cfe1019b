"""What people ask of a lifecycle: pause resume stop guide unblock answer reject.

Works on a live runner and on a stopped repository alike. Says what came of it, never just "done".
"""

from __future__ import annotations

from orchestrator.cli.options import Parser, UsageError, find_repo, positive, seconds, user

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from argparse import Namespace

_WORDS = {
    "pause": (
        "Start no new attempt after the present one; its clocks stand still until `resume`.",
        "loopwright pause agent-T001 --turns 5\nloopwright pause agent-T001 --now",
    ),
    "resume": (
        "Go on with a paused, stopped or given-up lifecycle; it moves once a runner is alive.",
        "loopwright resume agent-T001",
    ),
    "stop": (
        "End the present attempt now, keep its work, and hold the lifecycle until `resume`.",
        "loopwright stop agent-T001",
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
        """End a lifecycle and remove its workspace and branch. Twice is harmless.
Unmerged work stays under saved refs, which are named.""",
        'loopwright reject agent-T001 --why "Not wanted any more"',
    ),
}
_TEXT = {"guide": None, "answer": None, "unblock": "?"}
"""Commands that take words: required or, with `?`, welcome."""


def parser(name: str) -> Parser:
    """Return the options."""
    text, example = _WORDS[name]
    made = Parser(name, text, example=example).with_agent()
    if name in _TEXT:
        made.add_argument("text", nargs=_TEXT[name], metavar="TEXT", help="what to say")
    if name == "reject":
        made.add_argument("--why", default="", metavar="TEXT", help="the reason, for the record")
    if name == "pause":
        made.add_argument(
            "--turns", type=positive, metavar="N",
            help="go on by itself after so many turns of its runner: attempts started there",
        )  # fmt: skip
        made.add_argument(
            "--now", action="store_true",
            help="also freeze the agent's processes; their clocks stand still until `resume`",
        )  # fmt: skip
    made.add_argument("--by", metavar="NAME", help="who says so; by default you")
    made.add_argument(
        "--wait", type=seconds, default=10.0, metavar="S",
        help="seconds to wait for a live runner (10)",
    )  # fmt: skip
    return made.with_json("print what came of it as JSON").with_repo()


def run(name: str, args: list[str]) -> int:
    """Ask for it and say what came of it."""
    options = parser(name).parse_args(args)
    if name in ("guide", "answer") and not options.text.strip():
        raise UsageError(f'say something: loopwright {name} {options.agent} "TEXT"')
    repo = find_repo(options.repo)
    import asyncio  # noqa: PLC0415  # only now it is clear that something is asked

    from orchestrator.peopleonly import require_person  # noqa: PLC0415  # as above

    require_person(repo, f"{name} {options.agent}", options.agent)
    from orchestrator import steering  # noqa: PLC0415  # as above
    from orchestrator.cli.text import one_line, say, tell, to_json  # noqa: PLC0415  # as above

    wish = steering.Wish(
        verb=name,
        agent_id=options.agent,
        text=_text(name, options),
        by=options.by or user(),
        wait_s=options.wait,
        now=name == "pause" and options.now,
    )
    if name == "pause":
        from orchestrator import members  # noqa: PLC0415  # as above

        outcome = asyncio.run(members.pause_for(repo, wish, options.turns))
    else:
        outcome = asyncio.run(steering.steer(repo, wish))
    if options.json:
        say(to_json(outcome.to_json()))
    else:
        say(one_line(f"{options.agent}: {outcome.text}"))
        if outcome.hint:
            tell(one_line(outcome.hint))
    return outcome.exit_code


def _text(name: str, options: Namespace) -> str:
    words = options.why if name == "reject" else getattr(options, "text", None)
    return (words or "").strip()
