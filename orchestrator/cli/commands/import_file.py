"""`loopwright import FILE`: go on here with lifecycles that were exported elsewhere."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.config.settings import load_settings
from orchestrator.control.people_only import require_person
from orchestrator.terminal import exits
from orchestrator.terminal.options import CommandLineParser, UsageError, find_repo, user
from orchestrator.terminal.text import say, tell, to_json
from orchestrator.transfer.take_in import Import, take_in
from runtime.git.git import inspect_repository
from runtime.git.ownership import exclude_own_files

if TYPE_CHECKING:
    from orchestrator.wording.json_forms import ImportForm

_FOUND = {
    "new": "goes on here",
    "next": "goes on here; the earlier lifecycle of its agent stays on record",
    "newer": "goes on here, from where it was there",
    "same": "is here already, as in the file",
}


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Go on here with lifecycles that `loopwright export` wrote in another clone.",
        example="loopwright stop T001; loopwright export T001 -o T001.json --with-branches\n"
        f"loopwright {name} T001.json --repo ../other-clone",
        more="All of the file is taken, or nothing changes. What is here already is refused unless "
        "it is the same lifecycle and went on from here. A lifecycle goes on in one place only: "
        "stop it where it comes from, and do not run it there again. Values of secret variables do "
        "not travel; which are lacking is said.\n\nThe commands in the file (of agents, verify, "
        "setup) will run here, as those of a plan: import only what comes from people whom you "
        "trust.\n\nStarts nothing: `loopwright up` does, or the "
        "live runner at once.",
    )
    made.add_argument("file", metavar="FILE", help="what export wrote")
    made.add_argument("--dry-run", action="store_true", help="only say what would be taken")
    made.with_by("who imports; by default you")
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """Take it in."""
    options = parser(name).parse_args(args)
    repo = find_repo(options.repo)
    require_person(repo, "import lifecycles")
    # What is beside it is given to git, which runs in the repository.
    file = Path(options.file).absolute()
    if not file.is_file():
        raise UsageError(f"{file} is not a file: give one that `loopwright export -o FILE` wrote")
    facts = inspect_repository(repo)
    facts.require_usable()
    if not options.dry_run:
        exclude_own_files(facts.common_dir)
    settings = load_settings(repo, environ=os.environ)
    asked = Import(file=file, by=options.by or user(), dry_run=options.dry_run)
    done = asyncio.run(take_in(repo, asked, settings))
    if options.json:
        say(to_json(done))
    else:
        _print(done)
    return exits.COMPLETE


def _print(done: ImportForm) -> None:
    for each in done["lifecycles"]:
        say(f"{each['agent_id']} ({each['state']}): {_FOUND[each['found']]}")
    for note in done["notes"]:
        tell(f"Note: {note}")
    if done["dry_run"]:
        tell("Nothing was changed: this was a dry run.")
    elif any(each["found"] != "same" for each in done["lifecycles"]):
        tell("Do not run them where they come from. Start them here with: loopwright up")
