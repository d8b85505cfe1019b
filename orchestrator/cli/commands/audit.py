"""`loopwright audit`: who did what to whom and why, and whether that record is intact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from lifecycle.store.sqlite.audit_trail import TrailReader
from orchestrator.control.audit import verdict_form
from orchestrator.terminal.options import CommandLineParser, find_repo, positive
from orchestrator.terminal.text import instant, now, one_line, say, table, to_json

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.audit import AuditEntry, AuditVerdict

ACTIONS = ("list", "verify")
HEADS = ("SEQ", "WHEN", "WHO", "DID", "TO", "OUTCOME", "WHY")
_MORE = """\
Records spawns, stops, suspensions, accepts, rejects, refused requests, setting changes. Each entry
names the hash of the one before it, and the newest is noted in a file of its own: `verify` finds
entries that were changed, removed or cut off. It cannot detect that the whole record was rewritten;
for that, keep the hash it prints where agents cannot write.

Exit code of verify: 0 intact, 1 not."""


def parser(name: str) -> CommandLineParser:
    """Return the options."""
    made = CommandLineParser(
        name,
        "Print the audit, newest last, or verify that it was not changed.",
        example=f"loopwright {name} list --limit 20\nloopwright {name} verify",
        more=_MORE,
    )
    made.with_action(ACTIONS)
    made.add_argument(
        "--limit", type=positive, default=50, metavar="N", help="entries to print (50)"
    )
    return made.with_json().with_repo()


def run(name: str, args: list[str]) -> int:
    """Print or check."""
    options = parser(name).parse_args(args)
    database = Paths.of(find_repo(options.repo)).database
    if options.action == "verify":
        return _verified(TrailReader(database).verify(), database, as_json=options.json)
    _listed(TrailReader(database).newest(options.limit), as_json=options.json)
    return 0


def _verified(verdict: AuditVerdict, database: Path, *, as_json: bool) -> int:
    head = verdict.head
    if as_json:
        say(to_json(verdict_form(verdict)))
    elif verdict.whole:
        newest = f", the newest {head.seq} {head.hash}" if head is not None else ""
        say(f"whole: {verdict.count} entries{newest}")
    else:
        say(f"not whole: {len(verdict.findings)} findings in {database}")
        for each in verdict.findings:
            say(f"  entry {each.seq}: {one_line(each.text)}")
    return 0 if verdict.whole else 1


def _listed(entries: tuple[AuditEntry, ...], *, as_json: bool) -> None:
    if as_json:
        say(to_json([entry.to_json() for entry in entries]))
        return
    if not entries:
        say("Nothing is recorded yet.")
        return
    present = now()
    rows = [
        (
            str(each.seq),
            instant(each.at, present, seconds=True),
            *(each.actor, each.action, each.subject, each.outcome),
            one_line(each.reason, 100),
        )
        for each in entries
    ]
    say(table(HEADS, rows))
