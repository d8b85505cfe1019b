# ruff: noqa: INP001  # a script beside the pages, no package
"""Writes the generated part of four reference pages, each from the code that knows it.

    python docs/reference_pages.py

Commands from their parsers, keys of a plan and of communications.json from their models, log events
from the places that report them, metrics from the page that serves them.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from communication.model import mailbox_schema
from lifecycle.plan import Agent, AgentType, Allowance, Plan, Task
from lifecycle.reporting import level_of
from orchestrator.cli.main import GROUPS
from orchestrator.config.field_docs import field_docs
from orchestrator.web.routes import system

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

FOLDER = Path(__file__).resolve().parent / "reference"
ROOT = FOLDER.parent.parent
PACKAGES = ("ci", "lifecycle", "orchestrator", "runtime")
BEGIN = "<!-- written by docs/reference_pages.py -->\n"
END = "<!-- end of what is written -->"
KEYS = (
    ("The plan", Plan, ""),
    ("`[[tasks]]`", Task, "A task needs an `id` and nothing else."),
    ("`[agents.NAME]`", Agent, "Give one of `command`, `adapter` and `agents`."),
    ("`budget`", Allowance, "Of the plan as `[budget]`, of a task as `budget = { usd = 2.0 }`."),
    ("`[types.NAME]`", AgentType, ""),
)
OUR_OWN = {"agent_id", "policy", "plan"}
"""Fields that a plan file does not give."""
PLAIN = {
    "id": "Names the task, its branch and its folder; letters, digits, `.`, `_` and `-`.",
    "title": "One line that says what is to be done.",
    "description": "The task in full, as the agent gets it.",
    "dependencies": "Ids of tasks that must be complete before this one starts.",
    "tags": "Words of your own, shown where the task is shown.",
    "budget": "What may be used, instead of what the settings say.",
    "tasks": "The tasks, as `[[tasks]]`.",
}
"""What a field means where its name was thought to say it."""
TELLS = re.compile(r"report\(|page\.")
METRIC_CALLS = {"gauge", "gauges", "counter", "counters", "histogram", "summaries"}


def commands() -> str:
    """Return all commands by group, with their arguments and options."""
    lines: list[str] = []
    for group, rows in GROUPS:
        lines.append(f"## {group}\n")
        for name, module, _ in rows:
            parser = import_module(f"orchestrator.cli.commands.{module}").parser(name)
            lines += _command(name, parser)
    return "\n".join(lines)


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"### `loopwright {name}`\n"
    yield f"{_cell(parser.description or '')}\n"
    rows = [_option(each) for each in parser._actions if _shown(each)]  # noqa: SLF001  # argparse has no other list
    if rows:
        yield "| argument | meaning |\n|---|---|"
        yield from rows
        yield ""
    more, _, examples = (parser.epilog or "").rpartition("example")
    if "  " in more:  # columns
        yield f"```text\n{more.strip()}\n```\n"
    elif more.strip():
        yield f"{' '.join(more.split())}\n"
    shown = "\n".join(line.strip() for line in examples.partition(":\n")[2].splitlines())
    yield f"```text\n{shown}\n```\n"


def _shown(action: argparse.Action) -> bool:
    return action.help is not argparse.SUPPRESS and "--help" not in action.option_strings


def _option(action: argparse.Action) -> str:
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if isinstance(value, tuple):
        value = " ".join(value)
    if action.choices is not None:
        value = "|".join(map(str, action.choices))
    several = "..." if action.nargs in {"*", "+", argparse.REMAINDER} else ""
    named = ", ".join(action.option_strings)
    shown = f"{named} {value}".strip() if action.nargs != 0 else named
    words = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
    return f"| `{_cell(shown + several)}` | {_cell(words)} |"


def plan() -> str:
    """Return the keys of a plan, table by table."""
    parts = []
    for title, model, more in KEYS:
        docs = field_docs(model)
        rows = [
            f"| `{name}` | {_default(model, name)} | {docs.get(name) or PLAIN[name]} |"
            for name in model.model_fields
            if name not in OUR_OWN
        ]
        head = "| key | default | meaning |\n|---|---|---|\n"
        parts.append(
            f"## {title}\n\n{f'{more}{chr(10) * 2}' if more else ''}{head}" + "\n".join(rows)
        )
    return "\n\n".join(parts) + "\n"


def _default(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    return f"`{json.dumps(value)}`" if value not in (None, "", (), {}) else "none"


def communications() -> str:
    """Return the keys of an entry in communications.json, and of its breakpoint."""
    forms: dict[str, Any] = mailbox_schema()["$defs"]
    parts = []
    for title, name in (("An entry", "MailboxEntry"), ("`breakpoint`", "Breakpoint")):
        rows = [
            f"| `{key}` | {_cell(said.get('description', ''))} |"
            for key, said in forms[name]["properties"].items()
        ]
        parts.append(f"## {title}\n\n| key | meaning |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def events() -> str:
    """Return the log events with their levels and fields, and the metrics."""
    rows = [
        f"| `{name}` | {level_of(name)} | {', '.join(f'`{each}`' for each in sorted(fields))} |"
        for name, fields in sorted(_reported().items())
    ]
    told = [f"| `{name}` | {help_} |" for name, help_ in sorted(_metrics().items())]
    return (
        "## Log events\n\n| event | level | fields |\n|---|---|---|\n"
        + "\n".join(rows)
        + "\n\n## Metrics\n\n| metric | meaning |\n|---|---|\n"
        + "\n".join(told)
        + "\n"
    )


def _reported() -> dict[str, set[str]]:
    """Return the events that the source reports by name, each with the fields that it is given."""
    found: dict[str, set[str]] = {}
    for call in _calls():
        named = _text(call.args[0]) if call.args else None
        if _callee(call) in {"report", "_report"} and named and "_" in named and named.islower():
            fields = {each.arg for each in call.keywords if each.arg}
            found.setdefault(named, set()).update(fields)
    return found


def _metrics() -> dict[str, str]:
    found = {
        named: help_
        for call in _calls()
        if _callee(call) in METRIC_CALLS
        and len(call.args) > 1
        and (named := _text(call.args[0]))
        and (help_ := _text(call.args[1]))
    }
    own = vars(system)
    for ending, group in (("_total", "_COUNTERS"), ("_seconds", "_HISTOGRAMS")):
        found |= {f"{own['_name'](name)}{ending}": help_ for name, help_ in own[group]}
    return found


@functools.cache
def _calls() -> tuple[ast.Call, ...]:
    """Return the calls in the files that report something or write metrics."""
    return tuple(
        node
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if TELLS.search(text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    )


def _callee(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES = {
    "commands.md": commands,
    "plan.md": plan,
    "communications.md": communications,
    "events.md": events,
}


def written(name: str, page: str) -> str:
    """Return a page with its generated part as it should be."""
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{PAGES[name]()}\n{END}{tail}"


if __name__ == "__main__":
    for each in PAGES:
        (FOLDER / each).write_text(written(each, (FOLDER / each).read_text("utf-8")), "utf-8")
