"""`loopwright add`: one more task, for the runner that is alive or the next one."""

from __future__ import annotations

from orchestrator.cli.options import Parser, UsageError, find_repo, user

_MORE = """\
A live `loopwright up` takes it up within a second; else the next one does. At most 25 lifecycles
that are not over can be added to. `loopwright reject AGENT` removes one again."""


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "Add one more task with an agent of its own, also while others run.",
        example='loopwright add "Add a --version option" --agent claude --verify "make test"',
        more=_MORE,
    )
    made.add_argument("text", metavar="TEXT", help="what is to be done")
    made.add_argument("--name", metavar="AGENT", help="the agent's id; _1, _2 follow when taken")
    who = made.add_mutually_exclusive_group()
    who.add_argument("--agent", metavar="NAME", help="a known agent program, such as claude")
    who.add_argument("--command", metavar="'CMD ARG'", help="any program that reads its prompt")
    made.add_argument(
        "--verify",
        action="append",
        default=[],
        metavar="CMD",
        help="must succeed on the committed work before it counts as complete; may be repeated",
    )
    made.add_argument("--base", metavar="B", help="branch to start from and merge into")
    made.add_argument("--by", metavar="NAME", help="who says so; by default you")
    return made.with_json("print what was added as JSON").with_repo()


def run(name: str, args: list[str]) -> int:
    """Add it."""
    options = parser(name).parse_args(args)
    if not options.text.strip():
        raise UsageError('say what is to be done: loopwright add "TEXT" (see --help)')
    repo = find_repo(options.repo)
    import asyncio  # noqa: PLC0415  # only now it is clear that something is added
    import os  # noqa: PLC0415  # as above

    from orchestrator import members  # noqa: PLC0415  # as above
    from orchestrator.cli.text import say, tell, to_json  # noqa: PLC0415  # as above
    from orchestrator.config import load_settings  # noqa: PLC0415  # as above
    from orchestrator.fitness import exempted, require_tools  # noqa: PLC0415  # as above
    from orchestrator.peopleonly import require_person  # noqa: PLC0415  # as above
    from orchestrator.plans import chosen_agent  # noqa: PLC0415  # as above
    from orchestrator.steering import RUNS_ALL  # noqa: PLC0415  # as above
    from runtime.git import inspect_repository  # noqa: PLC0415  # as above
    from runtime.ownership import exclude_own_files  # noqa: PLC0415  # as above

    require_person(repo, "add a task")
    facts = inspect_repository(repo)
    facts.require_usable()
    exclude_own_files(facts.common_dir)
    addition = members.Addition(
        text=options.text.strip(),
        name=options.name,
        adapter=options.agent,
        command=options.command,
        verify=tuple(options.verify),
        base=options.base,
        by=options.by or user(),
    )
    settings = load_settings(repo, environ=os.environ)
    require_tools(settings)
    added = asyncio.run(members.add(repo, addition, settings))
    agent = chosen_agent(
        added.task_id, settings, adapter=addition.adapter, command=addition.command
    )
    for line in exempted(agent, settings):
        tell(line)
    runs = added.runner.startswith(RUNS_ALL)
    if options.json:
        say(to_json({"agent_id": added.agent_id, "task_id": added.task_id, "runner": added.runner}))
    else:
        then = "the live runner takes it up" if runs else "start it with: loopwright up"
        say(f"{added.agent_id}: added with task {added.task_id}; {then}")
    return 0
