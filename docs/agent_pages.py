# ruff: noqa: INP001  # a script beside the pages, no package
"""Writes the facts in the pages of agents/ from the adapters, so that both always agree.

What a program is started with is read off its adapter; why, and what it tells of its run, stands in
agents/reasons.toml. What is given without a reason is an error.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.launch import programs
from runtime.agents.adapter import (
    SERVER_ARGS,
    LaunchRequest,
    McpServer,
    McpWay,
    When,
    plan,
)
from runtime.agents.catalogue import BUILT_IN, built_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from runtime.agents.adapter import Adapter, Launch

FOLDER = Path(__file__).parent / "agents"
OVERVIEW = FOLDER / "README.md"
BEGIN = "<!-- facts: written by docs/agent_pages.py -->\n"
END = "<!-- end of facts -->"
SERVER = McpServer(programs.SERVER, ("loopwright", "mcp"), {"LOOPWRIGHT_AGENT_ID": "ID"})
TOOL = "report_breakpoint"
PLACE = "FOLDER"
_PLACES = {"{model}": "MODEL", "{max_turns}": "N"}
SHORT = 24
NONE = "-"
HEADS = (
    *("agent", "tested with", "tokens", "cost", "denied tools", "when a limit ends", "tool"),
    "limit on turns",
)
_WAYS = {
    McpWay.ARGV: "by arguments",
    McpWay.ENV: "by a variable",
    McpWay.FILE: "by a file in the private folder of the attempt",
}
WHENS = {
    "unattended": "always",
    "model": "with a model",
    "max_turns": "with `max_turns`",
    "mcp": "with the tool server",
    "as_root": "as root",
    "private_config": "with `private_config`",
}
"""What of a request the loop ever asks for; it never resumes a session."""
ABOUT: dict[str, dict[str, dict[str, str]]] = tomllib.loads(
    (FOLDER / "reasons.toml").read_text("utf-8")
)
"""By adapter: what it `tells`, and `why` it gets each thing."""


def page_of(name: str) -> Path:
    """Return where the page of an adapter is."""
    return FOLDER / f"{name}.md"


def written(page: str, facts: str) -> str:
    """Return the page with its facts as they should be."""
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{facts}\n{END}{tail}"


def facts_of(adapter: Adapter) -> str:
    """Return what the page of an adapter says of it, as Markdown."""
    told = ABOUT[adapter.name]["tells"]
    rows = [
        ("tested with", ", ".join(adapter.tested)),
        ("install", f"`{adapter.install}@{adapter.tested[-1]}`" if adapter.install else ""),
        ("log in", adapter.login),
        ("passed on where you have it set", _names(adapter.passes)),
        ("kept from it unless `pass_env` names it", _names(adapter.keys)),
        ("tells tokens used", told.get("tokens", "no")),
        ("tells what it cost", told.get("cost", "no")),
        ("tells of tools that were not permitted", told.get("denied", "no")),
        ("tells when a limit ends", told.get("resets", "no")),
        ("tool server", _server(adapter)),
    ]
    lines = ["| | |", "|---|---|", *(f"| {head} | {text} |" for head, text in rows if text)]
    return "\n".join([*lines, *_start(adapter)]) + "\n"


def overview() -> str:
    """Return the table of all adapters, as Markdown."""
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for name in BUILT_IN:
        adapter, told = built_in(name), ABOUT[name]["tells"]
        cells = (
            *(f"[`{name}`]({name}.md)", ", ".join(adapter.tested)),
            *(told.get(what, "") for what in ("tokens", "cost", "denied", "resets")),
            "" if adapter.mcp is None else f"`{adapter.mcp.tool_name(SERVER.name, TOOL)}`",
            "yes" if _limits_turns(adapter) else "",
        )
        lines.append(f"| {' | '.join(each or NONE for each in cells)} |")
    return "\n".join(lines) + "\n"


def given(adapter: Adapter) -> dict[str, list[str]]:
    """Return all that an adapter can give to its program at the start, and each time when."""
    found: dict[str, list[str]] = {}
    for what, when in (*_arguments(adapter), *_surroundings(adapter)):
        if when not in found.setdefault(what, []):
            found[what].append(when)
    return found


def command_line(adapter: Adapter) -> str:
    """Return the shortest command line that the loop starts."""
    launch = plan(adapter, LaunchRequest(config_folder=PLACE))
    return f"{' '.join(launch.argv)} < PROMPT"


def _start(adapter: Adapter) -> Iterator[str]:
    if not adapter.programs:
        return
    yield from ("", f"Started as `{command_line(adapter)}`, with", "")
    yield from ("| what | when | why |", "|---|---|---|")
    reasons = ABOUT[adapter.name]["why"]
    for what, when in given(adapter).items():
        if what not in reasons:
            raise LookupError(f"say in {FOLDER.name}/reasons.toml why {adapter.name} gets {what}")
        yield f"| `{what}` | {' or '.join(when)} | {reasons[what]} |"


def _arguments(adapter: Adapter) -> Iterator[tuple[str, str]]:
    always: list[str] = []
    for part in adapter.argv:
        if part == SERVER_ARGS or isinstance(part, When):
            continue
        always.append(part)
    yield from ((what, "always") for what in _groups(always))
    for part in adapter.argv:
        if isinstance(part, When) and part.value in WHENS:
            yield from ((what, WHENS[part.value]) for what in _groups(part.argv))
    if adapter.mcp is not None and adapter.mcp.argv is not None:
        words = adapter.mcp.argv(SERVER, LaunchRequest(config_folder=PLACE))
        yield from ((what, WHENS["mcp"]) for what in _groups(words))


def _surroundings(adapter: Adapter) -> Iterator[tuple[str, str]]:
    """Tell variables and files: those of each start, and what each wish adds."""
    plain = plan(adapter, LaunchRequest(command=_command(adapter), config_folder=PLACE))
    usual = set(_shown(plain))
    yield from ((what, "always") for what in _shown(plain))
    for when, request in _wishes(adapter).items():
        launch = plan(adapter, request)
        yield from ((what, WHENS[when]) for what in _shown(launch) if what not in usual)


def _wishes(adapter: Adapter) -> dict[str, LaunchRequest]:
    base = LaunchRequest(command=_command(adapter), config_folder=PLACE)
    wishes = {"as_root": replace(base, as_root=True)}
    if adapter.mcp is not None:
        wishes["mcp"] = replace(base, mcp=SERVER)
    return wishes | {
        "max_turns": replace(base, max_turns=1),
        "private_config": replace(base, private_config=True),
    }


def _command(adapter: Adapter) -> tuple[str, ...]:
    return () if adapter.programs else ("PROGRAM",)


def _shown(launch: Launch) -> Iterator[str]:
    for name, value in launch.env.items():
        settings = json.loads(value) if value.startswith("{") else None
        if settings is None:
            yield f"{name}={value}"
        else:
            yield from (f"{name}: {each}" for each in _keys(settings))
    for file in launch.files:
        name = file.path.removeprefix(f"{PLACE}/")
        yield from (f"{name}: {key}" for key in json.loads(file.text))


def _keys(settings: Mapping[str, object]) -> Iterator[str]:
    for key, value in settings.items():
        text = json.dumps(value)
        yield f"{key}={text}" if len(text) <= SHORT else key


def _groups(words: Iterable[str]) -> Iterator[str]:
    """Put the value of an option behind it."""
    group: list[str] = []
    for word in words:
        if group and word.startswith("-"):
            yield " ".join(group)
            group = []
        group.append(_PLACES.get(word, word))
    if group:
        yield " ".join(group)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _server(adapter: Adapter) -> str:
    if adapter.mcp is None:
        return "no: it signals by command or file"
    called = adapter.mcp.tool_name(SERVER.name, TOOL)
    return f"made known {_WAYS[adapter.mcp.way]}; the agent sees `{called}`"


def _limits_turns(adapter: Adapter) -> bool:
    return any(WHENS["max_turns"] in when for when in given(adapter).values())


def main() -> None:
    """Bring all pages in line with the adapters."""
    for name in BUILT_IN:
        page = page_of(name)
        page.write_text(written(page.read_text("utf-8"), facts_of(built_in(name))), "utf-8")
    OVERVIEW.write_text(written(OVERVIEW.read_text("utf-8"), overview()), "utf-8")


if __name__ == "__main__":
    main()
