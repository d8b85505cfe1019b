"""`loopwright add`: one more task, for the runner that is alive or the next one."""

from __future__ import annotations

import asyncio
import os

from orchestrator.cli.loop_options import with_model, with_task
from orchestrator.config.plans import budget_of, chosen_agent
from orchestrator.config.settings import load_settings
from orchestrator.control.commands import RUNS_ALL
from orchestrator.control.people_only import require_person
from orchestrator.runner import add_task
from orchestrator.runner.preflight import exempted, require_tools
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo, user
from orchestrator.terminal.text import say, tell, to_json
from runtime.git.git import inspect_repository
from runtime.git.ownership import exclude_own_files

_MORE = """\
A live `loopwright up` starts it within a second; otherwise the next one does. Any number can be
added; how many agents work at once is max_live_agents. `loopwright reject AGENT` removes one."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Add one more task with an agent of its own, also while others run.",
        example='loopwright add "Add a --version option" --agent claude --verify "make test"',
        more=_MORE,
    )
    made.add_argument("text", metavar="TEXT", help="what is to be done")
    made.add_argument("--name", metavar="AGENT", help="the agent's id; _1, _2 follow when taken")
    with_task(made)
    made.with_by()
    return made.with_json("print what was added as JSON").with_repo()


def run(name: str, args: list[str]) -> int:
    """Add it."""
    options = parser(name).parse_args(args)
    if not options.text.strip():
        raise UsageError('say what is to be done: loopwright add "TEXT" (see --help)')
    repo = find_repo(options.repo)
    require_person(repo, "add a task")
    facts = inspect_repository(repo)
    facts.require_usable()
    exclude_own_files(facts.common_dir)
    settings = load_settings(repo, environ=os.environ)
    addition = add_task.Addition(
        text=options.text.strip(),
        name=options.name,
        adapter=with_model(options.agent, options.model, settings),
        command=options.command,
        verify=tuple(options.verify),
        setup=tuple(options.setup),
        budget=budget_of(options.budget_usd, options.max_attempts),
        base=options.base,
        issue=options.issue or "",
        by=options.by or user(),
    )
    require_tools(settings)
    added = asyncio.run(add_task.add(repo, addition, settings))
    agent = chosen_agent(
        added.task_id, settings, adapter=addition.adapter, command=addition.command
    )
    for line in exempted(agent, settings, addition.budget):
        tell(line)
    runs = added.runner.startswith(RUNS_ALL)
    if options.json:
        say(to_json({"agent_id": added.agent_id, "task_id": added.task_id, "runner": added.runner}))
    else:
        then = "the live runner starts it" if runs else "start it with: loopwright up"
        say(f"{added.agent_id}: added with task {added.task_id}; {then}")
    return 0
