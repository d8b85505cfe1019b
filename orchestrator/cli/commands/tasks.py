"""`loopwright tasks import SOURCE`: a plan made of tasks from where they are kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.plan import Plan
from orchestrator.approval.restricting_values import PLAN_FILES
from orchestrator.cli.loop_options import with_source
from orchestrator.cli.task_source import read_source
from orchestrator.config.plans import find_plan
from orchestrator.config.settings import load_settings
from orchestrator.control.people_only import require_person
from orchestrator.tasks.plan_file import form_of_task, not_there, require_agents, write_plan
from orchestrator.tasks.sources import is_plan
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo
from orchestrator.terminal.text import one_line, say, table, tell, terminal_width, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.plan import Task
    from orchestrator.tasks.planned import PlannedTasks

ACTIONS = ("import",)
_HEADS = ("TASK", "LINE", "AFTER", "WHAT")
_MORE = """\
SOURCE is a prd.json, Markdown with boxes (PRD.md, fix_plan.md, tasks.md of spec-kit), the
tasks.json of Taskmaster, the .jsonl of beads, a folder with one of these, github:label=NAME
(also gitlab:, gitea:; github:12,13 and github:search=WORDS too), or command:CMD, which prints a
plan as JSON. What is ticked there is left out, and said.

It writes loopwright.plan.toml, which `loopwright up` runs; `loopwright up SOURCE` needs no plan.
Once the work on a task is accepted, its box is ticked where it came from (tick_tasks)."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Make a plan of tasks from where they are kept.",
        example=f"loopwright {name} import PRD.md --dry-run\n"
        f"loopwright {name} import github:label=ready --append",
        more=_MORE,
    )
    made.add_argument("action", choices=ACTIONS, metavar="import", help="what to do with them")
    made.add_argument("source", metavar="SOURCE", help="where the tasks are")
    made.add_argument("--dry-run", action="store_true", help="only show the tasks")
    made.add_argument("--append", action="store_true", help="add to a plan what is not in it yet")
    made.add_argument("--output", metavar="FILE", help=f"the plan; by default {PLAN_FILES[0]}")
    return with_source(made).with_json("print the tasks as JSON").with_repo()


def run(name: str, args: list[str]) -> int:
    """Import them."""
    options = parser(name).parse_args(args)
    repo = find_repo(options.repo)
    require_person(repo, f"{name} import")
    if is_plan(options.source):
        raise UsageError(f"{options.source} is a plan already: loopwright up {options.source}")
    path = Path(options.output) if options.output else find_plan(repo) or repo / PLAN_FILES[0]
    if path.suffix not in (".toml", ".json"):
        raise UsageError(f"--output {path}: a plan is a .toml or .json file")
    if path.exists() and not (options.append or options.dry_run):
        raise UsageError(
            f"{path} is there: add to it with --append, or give another file with --output"
        )
    settings = load_settings(repo, environ=os.environ)
    read = read_source(
        options.source, repo, settings, os.environ, base=options.base, in_order=options.in_order
    )
    tasks: Sequence[Task] = read.plan.tasks
    known: tuple[str, ...] = ()
    append = options.append and path.exists()
    if append:
        tasks, known = not_there(path, tasks)
    else:
        require_agents(path, tasks, Plan(tasks=()))
    if tasks and not options.dry_run:
        write_plan(path, tasks, head=_head(options.source, read), append=append)
    if options.json:
        say(
            to_json(
                {
                    "dry_run": options.dry_run,
                    "form": read.form,
                    "branch": read.branch,
                    "plan": str(path),
                    "tasks": [form_of_task(each) for each in tasks],
                    "known": list(known),
                    "left_out": dict(read.left_out),
                }
            )
        )
        return exits.COMPLETE
    tell(one_line(f"{options.source}: {read.form}, {read.said}"))
    if tasks:
        say(shown(tasks, read))
    written = "this was a dry run" if options.dry_run else "there is nothing to add"
    _tell_next(path, read, known, written="yes" if tasks and not options.dry_run else written)
    return exits.COMPLETE


def shown(tasks: Sequence[Task], read: PlannedTasks) -> str:
    """Return the tasks as a table."""
    lines = read.lines or {}
    rows = [
        (each.id, str(lines.get(each.id) or ""), ", ".join(each.dependencies), each.title)
        for each in tasks
    ]
    return table(_HEADS, rows, width=terminal_width(sys.stdout, os.environ))


def _head(source: str, read: PlannedTasks) -> list[str]:
    named = [f"It names the branch {read.branch}."] if read.branch else []
    return [one_line(f"Tasks of {source} ({read.form})."), *map(one_line, named)]


def _tell_next(path: Path, read: PlannedTasks, known: Sequence[str], *, written: str) -> None:
    if known:
        tell(f"{len(known)} of them in {path} already: not added again.")
    if read.branch:
        tell(one_line(f"It names the branch {read.branch}; --base takes a branch to merge into."))
    if written == "yes":
        more = "" if path.name in PLAN_FILES else f" {path}"
        tell(f"Written to {path}. Next: loopwright up{more}")
    else:
        tell(f"Nothing was written: {written}.")
