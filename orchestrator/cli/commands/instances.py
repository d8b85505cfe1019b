"""`loopwright instances`: lists agent processes with state and health; ends one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic import ValidationError

from lifecycle.fleet.api.authorization import Actor
from lifecycle.fleet.api.instances import AgentHealthStatus, InstanceState
from lifecycle.fleet.api.queries import GetInstancesFilter, TerminationOptions
from orchestrator.control.instances import fleet_of, in_use, left_alone, named
from orchestrator.control.people_only import require_person
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo, positive, user
from orchestrator.terminal.text import instant, now, say, span, table, to_json

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from lifecycle.fleet.api.instances import AgentInstance
    from orchestrator.control.instances import ResourceUse

ACTIONS = ("list", "terminate", "suspend", "resume")
STATES = tuple(map(str, InstanceState))
HEADS = ("INSTANCE", "NAME", "STATE", "HEALTH", "SINCE", "PROCESSES", "MEMORY", "CPU", "WHAT")
_MORE = """\
An instance is one agent process with all it starts: an attempt of a loop, or a program spawned
through the library. Terminating an attempt stops its loop: the whole tree is ended, its work saved,
and no other attempt starts until `loopwright resume`.

Exit code of terminate: 0 no process of it is left, 1 some are."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "List the agent processes that are alive, or terminate, suspend or resume one.",
        example="loopwright instances\nloopwright instances terminate agent-T001 --reason 'enough'",
        more=_MORE,
    )
    made.with_action(ACTIONS)
    made.add_argument(
        "instance",
        nargs="?",
        metavar="INSTANCE",
        help="its id, the end of it, or its agent or task",
    )
    made.add_argument("--all", action="store_true", help="also those that ended, newest first")
    made.add_argument("--state", choices=STATES, help="only those in this state")
    made.add_argument("--tag", metavar="TAG", help="only those with this tag")
    made.add_argument("--name", metavar="PATTERN", help="only those named so; * is any text")
    made.add_argument("--limit", type=positive, default=100, metavar="N", help="at most (100)")
    made.add_argument("--reason", default="", metavar="TEXT", help="why, for the record")
    made.with_by()
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """List, or act."""
    options = parser(name).parse_args(args)
    repo = find_repo(options.repo)
    if options.action != "list" and options.instance is None:
        raise UsageError(f"name one: loopwright instances {options.action} INSTANCE")
    if options.action == "list" and options.instance is not None:
        raise UsageError("list takes no INSTANCE; use --name to look for one")
    if options.action == "list":
        return asyncio.run(_list(repo, options))
    require_person(repo, f"instances {options.action} {options.instance}", options.instance)
    return asyncio.run(_act(repo, options))


async def _list(repo: Path, options: Any) -> int:
    try:
        which = GetInstancesFilter(
            state=InstanceState(options.state) if options.state else None,
            tag=options.tag,
            name_pattern=options.name,
            include_terminated=options.all,
            limit=options.limit,
        )
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UsageError(f"--{first['loc'][-1]}: {first['msg']}".replace("_pattern", "")) from None
    async with fleet_of(repo) as spawner:
        found = await spawner.get_active_instances(which)
    used = in_use(found)
    lost = left_alone(repo, found, used)
    found = tuple(_as_lost(each) if each.instance_id in lost else each for each in found)
    if options.json:
        say(to_json([_as_json(each, used.get(each.instance_id)) for each in found]))
    elif found:
        say(table(HEADS, [_row(each, used.get(each.instance_id)) for each in found]))
    else:
        say("No instance is alive." if not options.all else "There is no such instance.")
    return 0


async def _act(repo: Path, options: Any) -> int:
    actor = Actor(name=options.by or user())
    async with fleet_of(repo) as spawner:
        instance = await named(spawner, options.instance)
        told: dict[str, Any] = {"instance_id": str(instance.instance_id), "name": instance.name}
        if options.action == "terminate":
            asked = TerminationOptions(reason=options.reason or None)
            result = await spawner.terminate(instance.instance_id, asked, actor=actor)
            seconds = result.duration.total_seconds()
            told |= {"success": result.success, "seconds": seconds, "error": result.error_message}
            text = f"{instance.name} is ended, no process of it is left ({span(seconds)})"
            if not result.success:
                text = f"{instance.name} is not ended: {result.error_message}"
        else:
            act = spawner.suspend if options.action == "suspend" else spawner.resume
            await act(instance.instance_id, actor=actor)
            told["success"] = True
            text = (
                f"{instance.name} {'is suspended' if options.action == 'suspend' else 'is resumed'}"
            )
    say(to_json(told) if options.json else text)
    return 0 if told["success"] else 1


def _as_lost(each: AgentInstance) -> AgentInstance:
    """Mark an instance as lost: it died with its runner, which is not recorded yet."""
    gone = "its process and its runner are gone; the next `loopwright up` continues it"
    return each.model_copy(
        update={"health": AgentHealthStatus(details=gone), "error_message": gone}
    )


def _row(each: AgentInstance, use: ResourceUse | None) -> tuple[str, ...]:
    what = each.error_message or each.health.details or each.containment
    if "attempt" in each.details:
        what = _attempt(each)
    return (
        str(each.instance_id)[-12:],
        each.name or "",
        str(each.state),
        str(each.health.state),
        instant(each.created_at.timestamp(), now(), seconds=True),
        str(use.processes) if use else "",
        f"{use.memory_bytes / 2**20:.0f} MB" if use else "",
        f"{use.cpu_seconds:.1f} s" if use else "",
        what,
    )


def _attempt(each: AgentInstance) -> str:
    """Say what an attempt runs, and what became of it."""
    details = each.details
    program = str(details.get("program") or "")
    text = f"attempt {details['attempt']} of {details.get('task_id') or details['agent_id']}"
    runs = f"{program}, {text}" if program else text
    problem = each.error_message or each.health.details
    return f"{runs}: {problem}" if problem else runs


def _as_json(each: AgentInstance, use: ResourceUse | None) -> dict[str, Any]:
    return {**each.model_dump(mode="json"), "use": use._asdict() if use else None}
