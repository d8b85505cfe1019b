"""What CONTRIBUTING says is to be changed to add something is all that has to be changed."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lifecycle import settings, state_words
from lifecycle.machine import states as machine_states
from orchestrator.cli import main
from orchestrator.cli.commands import ps_table
from orchestrator.wording import lifecycle_row, states, why
from runtime.agents import catalogue
from tests.product_copy import ROOT, ProductCopy

if TYPE_CHECKING:
    from pathlib import Path

ADAPTER = """
from runtime.agents.adapter import Adapter
from runtime.agents.adapters.command import CommandParser

ADAPTER = Adapter(
    name="toy",
    title="Toy",
    parser=CommandParser,
    programs=("toy-agent",),
    argv=("--work",),
    login="Nobody has to log in.",
    install="Write it.",
)
"""
PROGRAM = """#!/bin/sh
test "$1" = --work || exit 2
echo '{"agent-T001": {"breakpoint": {"type": "task_complete", "summary": "Played"}}}' \\
    >"$LOOPWRIGHT_COMM_FILE"
"""
COMMAND = """
from orchestrator.terminal.options import CommandLineParser


def parser(name):
    made = CommandLineParser(name, "Greet somebody.", example="loopwright greet Ada")
    made.add_argument("whom")
    return made


def run(name, args):
    print("Hello", parser(name).parse_args(args).whom)
    return 0
"""


NAMED = re.compile(r"`((?:\w+/)+[\w.]*)`")


def test_every_file_that_the_page_names_is_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = {name for name in NAMED.findall(page) if "N" not in name}
    assert "lifecycle/machine/table.py" in named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.fixture
def copy(tmp_path: Path) -> ProductCopy:
    return ProductCopy(tmp_path)


def test_a_column_of_ps_is_two_files(copy: ProductCopy) -> None:
    copy.insert(lifecycle_row, "    waiting_for: str\n", "    branch: str\n")
    copy.insert(
        lifecycle_row,
        '        "work_state": kind,\n',
        '        "branch": (columns["facts"] or {}).get("branch", ""),\n',
    )
    copy.append(ps_table, 'CELLS["BRANCH"] = lambda row, columns, present: row["branch"]')
    copy.fill("Queued")
    head, row = copy.command("ps").splitlines()
    assert head.endswith("BRANCH")
    assert row.endswith("agent/a")
    (shown,) = json.loads(copy.command("ps", "--json"))["lifecycles"]
    assert shown["branch"] == "agent/a"
    described = json.loads(copy.command("schema", "ps"))["$defs"]["LifecycleRow"]
    assert "branch" in described["required"]
    served = copy.runs(
        "-c",
        "from orchestrator.web import models; from orchestrator.wording.json_schemas import "
        "model_of; print(model_of(models.RowsForm).model_json_schema())",
    )
    assert "'branch'" in served


def test_a_state_is_the_machine_and_the_tables_of_words(copy: ProductCopy) -> None:
    copy.append(
        machine_states,
        """
@frozen
class Parked(State):
    since: float = 1.0

ALL = (*ALL, Parked)
COARSE[Parked] = AgentState.RUNNING
""",
    )
    copy.append(state_words, '_OF_WORK["Parked"] = WAITING')
    copy.append(states, 'STATES["Parked"] = StateWords(waits=lambda *_: "the tide", outside=True)')
    copy.append(
        why,
        """
from lifecycle.machine.states import Parked
SENTENCES[Parked] = lambda scene, state: "waiting for the tide"
""",
    )
    copy.fill("Parked")
    assert "the tide" in copy.command("ps")
    (shown,) = json.loads(copy.command("ps", "--json"))["lifecycles"]
    assert (shown["state"], shown["work_state"]) == ("stopped", "Parked")
    assert "waiting for the tide" in copy.command("show", "T1", "--why")
    described = json.loads(copy.command("schema", "ps"))["$defs"]["LifecycleRow"]["properties"]
    assert "Parked" in described["work_state"]["enum"]
    assert json.loads(copy.command("export", "a"))["lifecycles"][0]["record"]["work"]["since"] == 1


def test_an_agent_adapter_is_one_file_and_one_word(copy: ProductCopy, tmp_path: Path) -> None:
    copy.add("runtime/agents/adapters/toy.py", ADAPTER)
    copy.insert(catalogue, '"copilot", ', '"toy", ')
    program = tmp_path / "bin" / "toy-agent"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    copy.env["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    copy.git("commit", "-q", "--allow-empty", "-m", "Begin")
    listed = {each["name"]: each for each in json.loads(copy.command("agents", "--json"))}
    assert listed["toy"]["path"] == str(program)
    ended = json.loads(copy.command("run", "Play", "--agent", "toy", "--json"))
    assert (ended["result_type"], ended["summary"]) == ("task_complete", "Played")


def test_a_command_is_one_file_and_one_line(copy: ProductCopy) -> None:
    copy.add("orchestrator/cli/commands/greet.py", COMMAND)
    copy.insert(
        main,
        '            ("ps", "ps", "list lifecycles"),\n',
        '            ("greet", "greet", "greet somebody"),\n',
    )
    assert copy.command("greet", "Ada") == "Hello Ada\n"
    assert "greet somebody" in copy.command("help", "all")
    assert "greet" in copy.command("completion", "bash")


def test_a_setting_is_one_field(copy: ProductCopy) -> None:
    copy.insert(
        settings,
        '    """One reading of the settings; a new attempt is made by a new reading."""\n',
        '\n    toys: int = Field(3, ge=0)\n    """Toys on the shelf."""\n',
    )
    copy.env["LOOPWRIGHT_TOYS"] = "4"
    (told,) = (
        each
        for each in json.loads(copy.command("settings", "--json"))["settings"]
        if each["name"] == "toys"
    )
    assert told["value"] == 4
    assert "toys" in copy.command("schema", "settings")
    copy.env["LOOPWRIGHT_TOYS"] = "-1"
    copy.command("settings", code=2)


def test_a_migration_is_one_file(copy: ProductCopy) -> None:
    copy.fill("Queued")
    copy.add("lifecycle/store/sqlite/migrations/999_toys.sql", "CREATE TABLE toys (name TEXT);\n")
    copy.fill("Queued", "b")
    with closing(sqlite3.connect(copy.database)) as database:
        assert database.execute("SELECT * FROM toys").fetchall() == []
