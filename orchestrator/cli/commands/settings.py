"""`loopwright settings`: every setting and its origin, and what of them waits for a person."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from orchestrator.control import approve_settings
from orchestrator.control.people_only import require_person
from orchestrator.terminal.options import (
    CommandLineParser,
    UsageError,
    find_repo,
    split_positional,
    user,
)
from orchestrator.terminal.text import one_line, say, table, tell, to_json

if TYPE_CHECKING:
    from orchestrator.approval.approvals import Approvals
    from orchestrator.config.settings import SettingRow
    from orchestrator.control.approve_settings import Refusals

HEADS = ("SETTING", "VALUE", "FROM")
_MORE = """\
loopwright settings approve [--by NAME] [--json]   put the changes that agents made into force
loopwright settings refuse [NAME...] [--why TEXT]  leave them out of force for good

What an agent changed of the settings that restrict it (in loopwright.toml, in [tool.loopwright] of
pyproject.toml, in the plan, or in a file that a setting names) is not in force before that."""


def parser(name: str) -> CommandLineParser:
    """Return the options of listing; `approve` and `refuse` have their own."""
    return (
        CommandLineParser(
            name,
            "List every setting with its value and origin, and the changes that wait.",
            example=f"loopwright {name}\nloopwright {name} approve\n"
            f"loopwright {name} refuse wall_limit --why 'too long'",
            more=_MORE,
        )
        .with_json()
        .with_repo()
    )


def run(name: str, args: list[str]) -> int:
    """List, approve or refuse."""
    word, rest = split_positional(args, ("approve", "refuse"))
    if word:
        return _approve(rest) if word == "approve" else _refuse(rest)
    options = parser(name).parse_args(args)
    repo = find_repo(options.repo)
    rows, approvals = approve_settings.read(repo, os.environ)
    if options.json:
        settings = [{"name": row.name, "value": row.value, "source": row.source} for row in rows]
        held = [each.to_json() for each in approvals.held.values()]
        say(to_json({"settings": settings, "held": held}))
    else:
        _print(rows, approvals, approve_settings.refused_in(repo))
    return 0


def _approve(args: list[str]) -> int:
    made = CommandLineParser(
        "settings approve",
        "Put the changes that agents made to the settings that restrict them into force.",
        example="loopwright settings approve --by Ada",
    )
    made.with_by()
    options = made.with_json("print what was approved as JSON").with_repo().parse_args(args)
    repo = find_repo(options.repo)
    require_person(repo, "settings approve")
    _, approvals = approve_settings.read(repo, os.environ)
    waited = list(approvals.held.values())
    if waited:
        asyncio.run(approve_settings.approve(repo, approvals, options.by or user(), approvals.held))
    if options.json:
        say(to_json({"approved": [each.to_json() for each in waited]}))
        return 0
    for each in waited:
        say(one_line(f"{each.name}: {approve_settings.change_of(each)}"))
    if waited:
        tell("Approved; a live runner uses it from its next attempt on.")
    else:
        say("No change by an agent waits for approval.")
    return 0


def _refuse(args: list[str]) -> int:
    made = CommandLineParser(
        "settings refuse",
        "Leave changes that agents made out of force for good; they are not named as waiting "
        "any more. The files stay as they are.",
        example="loopwright settings refuse\nloopwright settings refuse wall_limit --why no",
    )
    made.add_argument("names", nargs="*", metavar="NAME", help="only these; by default all")
    made.with_by().with_reason()
    options = made.with_json("print what was refused as JSON").with_repo().parse_args(args)
    repo = find_repo(options.repo)
    require_person(repo, "settings refuse")
    _, approvals = approve_settings.read(repo, os.environ)
    waits = approve_settings.undecided(approvals, approve_settings.refused_in(repo))
    names = {each.name for each in waits.values()}
    if unknown := [name for name in options.names if name not in names]:
        raise UsageError(
            f"no change of {unknown[0]} waits; `loopwright settings` lists those that do"
        )
    chosen = {cell: each for cell, each in waits.items() if each.name in (options.names or names)}
    if chosen:
        by, why = options.by or user(), options.why.strip()
        asyncio.run(approve_settings.leave_out(repo, approvals, chosen, by, why))
    if options.json:
        say(to_json({"refused": [each.to_json() for each in chosen.values()]}))
        return 0
    for each in chosen.values():
        say(one_line(f"{each.name}: stays {approve_settings.shown(each.approved)}"))
    if chosen:
        tell("Refused; `loopwright settings approve` can still put it into force.")
    else:
        say("No change by an agent waits for a decision.")
    return 0


def _print(rows: list[SettingRow], approvals: Approvals, refused: Refusals) -> None:
    say(table(HEADS, [(row.name, approve_settings.shown(row.value), row.source) for row in rows]))
    for each in approvals.held.values():
        no = refused.get(approve_settings.id_of(each))
        how = "Waits" if no is None else f"Refused by {no['by']}"
        say(one_line(f"{how}: {approve_settings.sentence(each)}"))
    if approve_settings.undecided(approvals, refused):
        tell(
            "Look at these changes; `loopwright settings approve` puts them into force, "
            "`loopwright settings refuse` leaves them out."
        )
