# ruff: noqa: INP001  # a script beside the pages, no package
"""Writes the tables in agents/outcomes.md from the code, so that both always agree.

    python docs/outcome_table.py

What an ending means and what follows from it is the machine's, what to do about it the adapters';
each is an error here until it has its row.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lifecycle.machine.rules.endings import TREATMENTS, FollowUp
from lifecycle.machine.states import Reason
from lifecycle.settings import Settings
from runtime.agents.outcome import ADVICE, Ending

PAGE = Path(__file__).parent / "agents" / "outcomes.md"
BEGIN = "<!-- outcomes: written by docs/outcome_table.py -->\n"
END = "<!-- end of outcomes -->"
PLACES = {"{login} ": "Log in. ", "{program}": "the program"}
OURS = {
    Ending.KILLED: "Nothing, if it was you; else look for what ends processes on this machine.",
}
"""What to do where no program has anything to say about it."""


class Follows(NamedTuple):
    """What follows from one kind of ending, in words."""

    name: str
    pays: str
    waits: str
    stops: str
    reason: Reason | None
    settings: tuple[str, ...]


FOLLOWS: dict[FollowUp, Follows] = {
    FollowUp.RETRY: Follows(
        "retry",
        "the agent, a retry",
        "`retry_interval`, growing where attempts change nothing",
        "retries used up; without progress the breaker opens",
        Reason.MAX_RETRIES,
        ("max_retries", "retry_interval", "retry_interval_cap", "stuck_limit", "same_gate_limit"),
    ),
    FollowUp.LIMIT: Follows(
        "wait for the limit",
        "nobody",
        "until the limit ends and a margin; else `limit_interval`, growing to an hour",
        "limits in a row for longer than `limit_patience`",
        Reason.USAGE_LIMIT,
        ("limit_interval", "limit_margin", "limit_patience"),
    ),
    FollowUp.TROUBLE: Follows(
        "try again later",
        "nobody",
        "`trouble_interval`, growing to 15 minutes",
        "more than `max_provider_failures` in a row",
        Reason.ENVIRONMENT,
        ("trouble_interval", "max_provider_failures"),
    ),
    FollowUp.NEEDS_USER: Follows(
        "a person fixes it",
        "nobody",
        "not at all",
        "at once, unless another program of the chain can work",
        Reason.ERROR,
        (),
    ),
    FollowUp.ENVIRONMENT: Follows(
        "wait for the machine",
        "nobody",
        "`retry_interval`, growing",
        "more than `max_environment_failures` in a row, unless another program can work",
        Reason.ENVIRONMENT,
        ("retry_interval", "retry_interval_cap", "max_environment_failures"),
    ),
    FollowUp.STOP: Follows("stop", "nobody", "not at all", "at once", Reason.BUDGET, ()),
    FollowUp.REPEAT: Follows(
        "the same again", "nobody; the attempt keeps its number", "not at all", "never", None, ()
    ),
}


def tables() -> str:
    """Return both tables as Markdown."""
    rows = ["| outcome | meaning | what follows | what you do |", "|---|---|---|---|"]
    rows += [
        f"| `{ended}` | {treatment.meaning} | {FOLLOWS[treatment.then].name} | {advice(ended)} |"
        for ended, treatment in TREATMENTS.items()
    ]
    rows += ["", "| what follows | who pays | it waits | it stops | as | settings |"]
    rows += ["|---|---|---|---|---|---|"]
    rows += [_row(FOLLOWS[then]) for then in FollowUp]
    return "\n".join(rows) + "\n"


def advice(ended: Ending) -> str:
    """Return what a person does about an ending, in words that fit every program."""
    said = OURS.get(ended) or ADVICE[ended]
    for place, words in PLACES.items():
        said = said.replace(place, words)
    return said


def written(page: str) -> str:
    """Return the page with its tables as they should be."""
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{tables()}\n{END}{tail}"


def _row(follows: Follows) -> str:
    named = ", ".join(f"`{name}`" for name in follows.settings if name in Settings.model_fields)
    reason = f"`{follows.reason}`" if follows.reason else "-"
    return (
        f"| {follows.name} | {follows.pays} | {follows.waits} | {follows.stops} | {reason} | "
        f"{named or '-'} |"
    )


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
