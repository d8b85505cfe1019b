"""`loopwright settings`: every setting and its origin, and what of them waits for a person."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from lifecycle.mask_values import masked
from orchestrator.config.setting_groups import GROUPS, OTHERS, group_of
from orchestrator.control import approve_settings
from orchestrator.control.people_only import require_person
from orchestrator.control.shown_settings import settings_masker
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
    from orchestrator.control.approve_settings import Refusals
    from runtime.masking.masker import Masker

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
            "List every setting by group with its value and origin, and the changes that wait.",
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
    settings: list[dict[str, Any]] = [
        {"name": row.name, "group": group_of(row.name), "value": row.value, "source": row.source}
        for row in rows
    ]
    held = [each.to_json() for each in approvals.held.values()]
    masker = settings_masker(repo, os.environ, (settings, held))
    if options.json:
        say(to_json(masked({"settings": settings, "held": held}, masker)))
    else:
        _print(masked(settings, masker), approvals, approve_settings.refused_in(repo), masker)
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
    masker = settings_masker(repo, os.environ, [each.to_json() for each in waited])
    if options.json:
        say(to_json(masked({"approved": [each.to_json() for each in waited]}, masker)))
        return 0
    for each in waited:
        say(one_line(masker.mask(f"{each.name}: {approve_settings.change_of(each)}")))
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
    masker = settings_masker(repo, os.environ, [each.to_json() for each in chosen.values()])
    if options.json:
        say(to_json(masked({"refused": [each.to_json() for each in chosen.values()]}, masker)))
        return 0
    for each in chosen.values():
        say(one_line(masker.mask(f"{each.name}: stays {approve_settings.shown(each.approved)}")))
    if chosen:
        tell("Refused; `loopwright settings approve` can still put it into force.")
    else:
        say("No change by an agent waits for a decision.")
    return 0


def _place(row: dict[str, Any]) -> tuple[int, int]:
    """Return where a setting stands in the list: by group, then in the order of the group."""
    titles = [*GROUPS, OTHERS]
    names = GROUPS.get(row["group"], ())
    place = names.index(row["name"]) if row["name"] in names else 0
    return titles.index(row["group"]), place


def _print(
    rows: list[dict[str, Any]], approvals: Approvals, refused: Refusals, masker: Masker
) -> None:
    by_group = sorted(rows, key=_place)
    cells = [(row["name"], approve_settings.shown(row["value"]), row["source"]) for row in by_group]
    head, *lines = table(HEADS, cells).splitlines()
    say(head)
    group = ""
    for row, line in zip(by_group, lines, strict=True):
        if row["group"] != group:
            group = row["group"]
            say(f"\n{group}")
        say(line)
    for each in approvals.held.values():
        no = refused.get(approve_settings.id_of(each))
        how = "Waits" if no is None else f"Refused by {no['by']}"
        say(one_line(masker.mask(f"{how}: {approve_settings.sentence(each)}")))
    if approve_settings.undecided(approvals, refused):
        tell(
            "Look at these changes; `loopwright settings approve` puts them into force, "
            "`loopwright settings refuse` leaves them out."
        )
