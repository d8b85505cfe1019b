"""`loopwright instances`: which agent processes are alive, how they do, and their end."""

from __future__ import annotations

from orchestrator.cli.options import Parser, UsageError, find_repo, positive, user

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from lifecycle.fleet.instances import AgentInstance
    from orchestrator.fleet import Use

ACTIONS = ("list", "terminate", "suspend", "resume")
STATES = (
    "initializing", "ready", "processing", "waiting", "suspended", "terminating", "terminated",
    "failed",
)  # fmt: skip
HEADS = ("INSTANCE", "NAME", "STATE", "HEALTH", "SINCE", "PROCESSES", "MEMORY", "CPU", "WHAT")
_MORE = """\
An instance is one agent process with all it starts: an attempt of a loop, or a program spawned
through the library. Terminating an attempt stops its loop: the whole tree is ended, its work saved,
and no other attempt starts until `loopwright resume`.

Exit code of terminate: 0 nothing of it is alive, 1 something is."""


def parser(name: str) -> Parser:
    """Return the options."""
    made = Parser(
        name,
        "List the agent processes that are alive, or end, freeze or thaw one.",
        example="loopwright instances\nloopwright instances terminate agent-T001 --reason 'enough'",
        more=_MORE,
    )
    made.add_argument("action", nargs="?", choices=ACTIONS, default="list", help="by default list")
    made.add_argument(
        "instance", nargs="?", metavar="INSTANCE", help="its id, the end of it, or its agent"
    )
    made.add_argument("--all", action="store_true", help="also those that ended, newest first")
    made.add_argument("--state", choices=STATES, help="only those in this state")
    made.add_argument("--tag", metavar="TAG", help="only those with this tag")
    made.add_argument("--name", metavar="PATTERN", help="only those named so; * is any text")
    made.add_argument("--limit", type=positive, default=100, metavar="N", help="at most (100)")
    made.add_argument("--reason", default="", metavar="TEXT", help="why, for the record")
    made.add_argument("--by", metavar="NAME", help="who says so; by default you")
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """List, or act."""
    options = parser(name).parse_args(args)
    repo = find_repo(options.repo)
    if options.action != "list" and options.instance is None:
        raise UsageError(f"name one: loopwright instances {options.action} INSTANCE")
    if options.action == "list" and options.instance is not None:
        raise UsageError("list takes no INSTANCE; use --name to look for one")
    import asyncio  # noqa: PLC0415  # only now it is clear that something is asked

    if options.action == "list":
        return asyncio.run(_list(repo, options))
    from orchestrator.peopleonly import require_person  # noqa: PLC0415  # as above

    require_person(repo, f"instances {options.action} {options.instance}", options.instance)
    return asyncio.run(_act(repo, options))


async def _list(repo: Path, options: Any) -> int:
    from pydantic import ValidationError  # noqa: PLC0415  # as above

    from lifecycle.fleet.instances import AgentState  # noqa: PLC0415  # as above
    from lifecycle.fleet.queries import GetInstancesFilter  # noqa: PLC0415  # as above
    from orchestrator.cli.text import say, table, to_json  # noqa: PLC0415  # as above
    from orchestrator.fleet import fleet_of, in_use, left_alone  # noqa: PLC0415  # as above

    try:
        which = GetInstancesFilter(
            state=AgentState(options.state) if options.state else None,
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
    from lifecycle.fleet.authorize import Actor  # noqa: PLC0415  # as above
    from lifecycle.fleet.queries import TerminationOptions  # noqa: PLC0415  # as above
    from orchestrator.cli.text import say, span, to_json  # noqa: PLC0415  # as above
    from orchestrator.fleet import fleet_of, named  # noqa: PLC0415  # as above

    actor = Actor(name=options.by or user())
    async with fleet_of(repo) as spawner:
        instance = await named(spawner, options.instance)
        told: dict[str, Any] = {"instance_id": str(instance.instance_id), "name": instance.name}
        if options.action == "terminate":
            asked = TerminationOptions(reason=options.reason or None)
            result = await spawner.terminate(instance.instance_id, asked, actor=actor)
            seconds = result.duration.total_seconds()
            told |= {"success": result.success, "seconds": seconds, "error": result.error_message}
            text = f"{instance.name} is ended, nothing of it is alive ({span(seconds)})"
            if not result.success:
                text = f"{instance.name} is not ended: {result.error_message}"
        else:
            act = spawner.suspend if options.action == "suspend" else spawner.resume
            await act(instance.instance_id, actor=actor)
            told["success"] = True
            text = f"{instance.name} {'rests' if options.action == 'suspend' else 'goes on'}"
    say(to_json(told) if options.json else text)
    return 0 if told["success"] else 1


def _as_lost(each: AgentInstance) -> AgentInstance:
    """Do not call healthy what died with its runner and was not recorded as ended yet."""
    from lifecycle.fleet.instances import AgentHealthStatus  # noqa: PLC0415  # as above

    gone = "its process and its runner are gone; the next `loopwright up` goes on"
    return each.model_copy(
        update={"health": AgentHealthStatus(details=gone), "error_message": gone}
    )


def _row(each: AgentInstance, use: Use | None) -> tuple[str, ...]:
    from orchestrator.cli.text import instant, now  # noqa: PLC0415  # as above

    what = each.error_message or each.containment or each.health.details
    if "attempt" in each.details:
        what = f"attempt {each.details['attempt']}" + (f": {what}" if what else "")
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


def _as_json(each: AgentInstance, use: Use | None) -> dict[str, Any]:
    return {**each.model_dump(mode="json"), "use": use._asdict() if use else None}
