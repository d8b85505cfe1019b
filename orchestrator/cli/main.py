"""The `loopwright` command: finds the sub-command, runs it, turns errors into messages.

Imports nothing heavy: `loopwright --help` must start as fast as Python allows. Each command is a
module with `run(name, args) -> int`.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Start",
        (
            ("demo", "demo", "watch a whole loop with a scripted agent: no key, no network"),
            ("init", "init", "prepare a repository: ask three things, write loopwright.toml"),
            ("settings", "settings", "list settings by group; approve changes that agents made"),
            (
                "doctor",
                "doctor",
                "try what a run needs, and say whether it would work",
            ),
            ("plan", "plan", "have an agent draft a plan; written on your yes"),
            ("run", "run", "run one task in a loop, in the foreground"),
            ("up", "up", "run one loop per task of a plan"),
            ("serve", "serve", "run loops, API and webhooks until stopped"),
            ("down", "down", "end what runs here, with its work saved"),
            ("service", "service", "have the system start loops: at login, after a crash"),
            ("worker", "worker", "run agents of a repository coordinated on another machine"),
            ("add", "add", "add one more task, also while others run"),
            ("tasks", "tasks", "make a plan of a prd.json, a checklist or issues"),
        ),
    ),
    (
        "Look",
        (
            ("ps", "ps", "list lifecycles"),
            ("instances", "instances", "list agent processes: state, health, use; end one"),
            ("show", "show", "show one lifecycle; --why tells what led to its state"),
            ("diff", "diff", "show what the work of a lifecycle changed, flagged files first"),
            ("events", "events", "print the journal of a lifecycle"),
            ("logs", "logs", "print what an attempt's agent printed"),
            ("summary", "summary", "show, compare, edit or approve the summary of an attempt"),
            ("agents", "agents", "list agent programs, test one, judge a recorded run"),
            ("costs", "costs", "what attempts used, and how much of each budget is left"),
            ("notify", "notify", "what people were told; test the channels"),
            ("audit", "audit", "who did what to whom and why, and whether that record is intact"),
        ),
    ),
    (
        "Steer",
        (
            ("pause", "steer", "start no new attempt after the current one"),
            ("resume", "steer", "continue a paused, stopped or given-up lifecycle"),
            ("stop", "steer", "end the current attempt now, keep its work, hold the lifecycle"),
            ("guide", "steer", "tell the next attempt something"),
            ("unblock", "steer", "say that a blocker is gone"),
            ("answer", "steer", "answer an agent's question"),
            ("review", "review", "walk through what waits for your decision, with its diff"),
            ("accept", "accept", "merge completed work into its base, one or many"),
            ("reject", "steer", "end a lifecycle; its work stays under a saved ref"),
            ("pr", "pr", "list, merge or close pull requests"),
            ("hooks", "hooks", "list webhook deliveries, show or replay one, listen for them"),
        ),
    ),
    (
        "Programs",
        (
            ("signal", "signal", "write a breakpoint (called by the agent itself)"),
            ("mcp", "mcp", "offer tools: an agent's to signal with, or with --operator yours"),
            ("export", "export", "write lifecycles as JSON, or as one static page"),
            ("import", "import_file", "go on with lifecycles that were exported elsewhere"),
            (
                "schema",
                "schema",
                "print the JSON schemas of plan, settings and communications.json",
            ),
            ("completion", "completion", "print the completion script for a shell"),
        ),
    ),
)

COMMANDS: dict[str, str] = {name: module for _, commands in GROUPS for name, module, _ in commands}

FIRST = ("init", "doctor", "run", "up", "ps", "review", "accept", "demo")
"""What somebody new needs, in the order in which it is needed."""
ALL = "all"
COLUMNS = 80
USAGE_ERROR = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Without arguments this is the whole program."""
    if argv is not None:
        return _main(list(argv))
    gc.disable()  # until a command is loaded, nothing is worth collecting
    # Else it reads the entry points of every installed package, and loads the plugins of others.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    try:
        return _main(sys.argv[1:])
    except KeyboardInterrupt:  # before what a command does about it was loaded
        return INTERRUPTED
    finally:
        gc.freeze()  # nor when it ends, and the interpreter looks through all of it then


def _main(args: list[str]) -> int:
    _fill_closed()
    if not args or args[0] in ("-h", "--help", "help"):
        about = args[1] if args[:1] == ["help"] and args[1:] else ""
        if about in COMMANDS:
            return _run(about, ["--help"])
        if about not in ("", ALL):
            return _unknown(about)
        sys.stdout.write(_all_help() if about else _help())
        return 0
    if args[0] in ("-V", "--version"):
        from orchestrator.version import __version__  # noqa: PLC0415  # only this needs it

        sys.stdout.write(f"loopwright {__version__}\n")
        return 0
    if args[0] not in COMMANDS:
        return _unknown(args[0])
    return _run(args[0], args[1:])


def _fill_closed() -> None:
    """Replace closed standard streams by /dev/null, so that no file takes their number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # In this order each gets the number that is its own: the lowest that is free.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123  # until the program ends


def _run(name: str, args: list[str]) -> int:
    from importlib import import_module  # noqa: PLC0415  # not needed for --help

    from orchestrator.cli.error_boundary import guarded  # noqa: PLC0415  # as above

    def run(name: str, args: list[str]) -> int:
        # In here, so that a failing import is reported like any other error.
        module = import_module(f"orchestrator.cli.commands.{COMMANDS[name]}")
        if not gc.isenabled() and COMMANDS[name] != "steer":  # an order ends before any garbage
            gc.freeze()
            gc.enable()
        return int(module.run(name, args))

    return guarded(run, name, args)


def _help() -> str:
    """Return what fits a small screen: the commands of a first day in words, the others by name."""
    texts = {name: text for _, commands in GROUPS for name, _, text in commands}
    lines = [
        "usage: loopwright COMMAND [OPTIONS]   (COMMAND --help shows an example)",
        "",
        "Runs coding agents in loops: a fresh process per attempt, until all is done.",
        "",
        *(f"  {name:<11} {texts[name]}" for name in FIRST),
    ]
    lines.append("")
    for title, commands in GROUPS:
        lines += _wrapped(title, [name for name, _, _ in commands if name not in FIRST])
    return "\n".join((*lines, "", "`loopwright help all` says what each of them does.", ""))


def _wrapped(title: str, names: list[str]) -> list[str]:
    lines = [f"  {title:<11}"]
    for name in names:
        if len(lines[-1]) + 1 + len(name) > COLUMNS:
            lines.append(" " * 13)
        lines[-1] += f" {name}"
    return lines


def _all_help() -> str:
    lines = ["usage: loopwright COMMAND [OPTIONS]"]
    for title, commands in GROUPS:
        lines += ["", f"{title}:", *(f"  {name:<11} {text}" for name, _, text in commands)]
    return "\n".join((*lines, "", "Every command has --help with an example.", ""))


def _unknown(name: str) -> int:
    from difflib import get_close_matches  # noqa: PLC0415  # only for mistakes

    near = get_close_matches(name, COMMANDS, n=1)
    hint = f"; did you mean `loopwright {near[0]}`?" if near else "; see `loopwright --help`"
    sys.stderr.write(f"loopwright: there is no command {name!r}{hint}\n")
    return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
