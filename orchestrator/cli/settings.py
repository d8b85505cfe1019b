"""`loopwright settings`: every setting and its origin, and what of them waits for a person."""

from __future__ import annotations

from orchestrator.cli.options import Parser, find_repo, split_positional, user

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.approval.approvals import Approvals
    from orchestrator.config import SettingRow

HEADS = ("SETTING", "VALUE", "FROM")
_MORE = """\
loopwright settings approve [--by NAME] [--json]   let what agents changed count from now on

What an agent changed of the settings that hold it (in loopwright.toml, in [tool.loopwright] of
pyproject.toml, in the plan, or in a file that a setting names) does not count before that."""


def parser(name: str) -> Parser:
    """Return the options of listing; `approve` has its own."""
    return (
        Parser(
            name,
            "List every setting with its value and origin, and the changes that wait.",
            example=f"loopwright {name}\nloopwright {name} approve",
            more=_MORE,
        )
        .with_json()
        .with_repo()
    )


def run(name: str, args: list[str]) -> int:
    """List, or approve."""
    word, rest = split_positional(args, ("approve",))
    if word:
        return _approve(rest)
    options = parser(name).parse_args(args)
    rows, approvals = _read(find_repo(options.repo))
    from orchestrator.cli.text import say, to_json  # noqa: PLC0415  # not for --help

    if options.json:
        settings = [{"name": row.name, "value": row.value, "source": row.source} for row in rows]
        held = [each.to_json() for each in approvals.held.values()]
        say(to_json({"settings": settings, "held": held}))
    else:
        _print(rows, approvals)
    return 0


def _approve(args: list[str]) -> int:
    made = Parser(
        "settings approve",
        "Let what agents changed of the settings that hold them count from now on.",
        example="loopwright settings approve --by Ada",
    )
    made.add_argument("--by", metavar="NAME", help="who says so; by default you")
    options = made.with_json("print what was approved as JSON").with_repo().parse_args(args)
    import asyncio  # noqa: PLC0415  # not for --help

    from orchestrator.approval import approving  # noqa: PLC0415  # as above
    from orchestrator.cli.text import one_line, say, tell, to_json  # noqa: PLC0415  # as above
    from orchestrator.peopleonly import require_person  # noqa: PLC0415  # as above

    repo = find_repo(options.repo)
    require_person(repo, "settings approve")
    _, approvals = _read(repo)
    waited = list(approvals.held.values())
    if waited:
        asyncio.run(approving.approve(repo, approvals, options.by or user()))
    if options.json:
        say(to_json({"approved": [each.to_json() for each in waited]}))
        return 0
    for each in waited:
        say(one_line(f"{each.name}: {_change(each.approved, each.value)}"))
    if waited:
        tell("Approved; a live runner goes by it from its next attempt on.")
    else:
        say("No change of an agent waits for approval: nothing waits.")
    return 0


def _read(repo: Path) -> tuple[list[SettingRow], Approvals]:
    import os  # noqa: PLC0415  # not for --help

    from orchestrator.approval import approving  # noqa: PLC0415  # as above

    return approving.read(repo, os.environ)


def _print(rows: list[SettingRow], approvals: Approvals) -> None:
    from orchestrator.cli.text import one_line, say, table, tell  # noqa: PLC0415  # as above

    say(table(HEADS, [(row.name, _shown(row.value), row.source) for row in rows]))
    for each in approvals.held.values():
        place = each.cell.rpartition("#")[0]
        change = _change(each.approved, each.value)
        say(
            one_line(
                f"Waits: {each.name} in {place}, changed by the work of {each.agent_id}: {change}"
            )
        )
    if approvals.held:
        tell("Look at these changes; `loopwright settings approve` lets them count.")


def _change(before: object, after: object) -> str:
    if isinstance(before, list) and before and isinstance(after, list) and _is_text(after):
        return "another content"
    return f"{_shown(before)} becomes {_shown(after)}"


def _is_text(value: list[object]) -> bool:
    digits = 16
    return all(isinstance(each, str) and len(each) == digits for each in value)


def _shown(value: object) -> str:
    import json  # noqa: PLC0415  # as above

    return "(not set)" if value is None else json.dumps(value, default=str)
