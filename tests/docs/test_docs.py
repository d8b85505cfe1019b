"""What the pages say is so: links lead somewhere, tables agree with the code, examples run."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from communication.mailbox import Document, ReadingKind
from lifecycle.plan import Plan
from orchestrator.cli.main import COMMANDS
from orchestrator.config.plans import load_plan
from runtime.agents.catalogue import BUILT_IN, built_in

ROOT = Path(__file__).resolve().parents[2]
LISTED = subprocess.run(
    ("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"),
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
)
REFERENCE = runpy.run_path(str(ROOT / "docs" / "reference_pages.py"))
PAGES = [ROOT / name for name in LISTED.stdout.splitlines() if "/golden/" not in name]
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_something_that_is_there(page: Path) -> None:
    dead = [
        link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()
    ]
    assert dead == []


def test_the_table_of_settings_is_the_one_of_the_code() -> None:
    page = ROOT / "docs" / "reference" / "settings.md"
    made = runpy.run_path(str(ROOT / "docs" / "settings_table.py"))
    assert made["written"](page.read_text("utf-8")) == page.read_text("utf-8"), "run `make docs`"


@pytest.mark.parametrize("name", ["commands.md", "plan.md", "communications.md", "events.md"])
def test_the_reference_is_the_one_of_the_code(name: str) -> None:
    page = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    assert REFERENCE["written"](name, page) == page, "run `make docs`"


def test_the_plan_in_the_reference_can_be_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "plan.md").read_text("utf-8")
    plan = tmp_path / "plan.toml"
    plan.write_text(re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0])
    assert [task.id for task in load_plan(plan).tasks] == ["model", "export"]


def test_the_readmes_tell_what_the_docstrings_say() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "room_tables.py"))
    stale = [page for page in made["pages"]() if made["written"](page) != page.read_text("utf-8")]
    assert stale == [], "run `make docs`"


@pytest.mark.parametrize(
    "package", ["lifecycle", "runtime", "ci", "communication", "templates", "orchestrator"]
)
def test_readmes_name_every_file_of_their_rooms_and_nothing_else(package: str) -> None:
    named = set()
    for page in (ROOT / package).rglob("README.md"):
        room = page.parent
        for line in page.read_text("utf-8").splitlines():
            if line.startswith("### `"):
                room = page.parent / line.strip("# `")
            elif row := re.match(r"\| `([\w.]+\.(?:py|j2))` \|", line):
                named.add(room / row[1])
    there = {*(ROOT / package).rglob("*.py"), *(ROOT / package).rglob("*.j2")}
    assert named == {path for path in there if path.name != "__init__.py"}


def test_commands_that_the_pages_show_exist() -> None:
    said = "\n".join(page.read_text("utf-8") for page in PAGES)
    named = set(re.findall(r"(?:^|`|\$ )loopwright ([a-z]+)\b", said, flags=re.MULTILINE))
    assert named <= {*COMMANDS, "help"}
    assert "run" in named


def test_the_library_example_runs(tmp_path: Path) -> None:
    ran = subprocess.run(
        (sys.executable, "-P", str(ROOT / "examples" / "one_loop.py")),
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (
        0,
        "Task T001 completed by 2 processes: Said hello\n",
    ), ran.stderr


def test_the_plan_of_the_examples_can_be_run() -> None:
    plan = load_plan(ROOT / "examples" / "plan.toml")
    assert isinstance(plan, Plan)
    assert [task.id for task in plan.tasks] == ["model", "store", "serve"]


def test_the_breakpoint_in_the_reference_is_one() -> None:
    page = (ROOT / "docs" / "reference" / "communications.md").read_text("utf-8")
    block = re.search(r"```json\n(.*?)```", page, flags=re.DOTALL)
    assert block is not None
    reading = Document(json.loads(block[1])).reading("agent-T001", task_id="T001")
    assert reading.kind is ReadingKind.SIGNAL


def test_the_readme_is_short_and_each_promise_in_it_names_a_test_that_exists() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    assert page.count("\n") < 150
    promises = page.split("## What you can rely on")[1].split("\n## ")[0]
    rows = re.findall(
        r"^\| (?!promise|---)(.+) \| `(tests/\S+)::(\w+)` \|$", promises, re.MULTILINE
    )
    assert len(rows) == promises.count("\n|") - 2 > 10
    for promise, file, name in rows:
        assert f"def {name}(" in (ROOT / file).read_text("utf-8"), promise


def test_the_plan_in_the_readme_can_be_run(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    plan = tmp_path / "plan.toml"
    plan.write_text(re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0])
    assert [task.id for task in load_plan(plan).tasks] == ["model", "export"]


def test_the_page_of_budgets_says_of_each_program_what_its_adapter_does() -> None:
    page = (ROOT / "docs" / "how-to" / "budgets.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| (yes|no) \| (yes|no)[^|]* \|$", page, re.MULTILINE)
    told = {
        name.removeprefix("any "): (tokens == "yes", dollars == "yes")
        for names, tokens, dollars in rows
        for name in names.split(", ")
    }
    assert told == {
        name: (built_in(name).tells_tokens, built_in(name).tells_cost) for name in BUILT_IN
    }


DIALECT = re.compile(
    r"\b(anew|whoever|mend|mends|mended|came of|goes on|gone on|in vain|own up|heeds?|housing)\b",
    re.IGNORECASE,
)
"""Words that few readers of English as a second language know; each has a plain one."""


def test_the_pages_use_plain_words() -> None:
    found = [
        f"{page.relative_to(ROOT)}:{number}: {word}"
        for page in PAGES
        if page.is_relative_to(ROOT / "docs") or page.parent == ROOT
        if page.name not in {"CHANGELOG.md", "commands.md"} and page.parent.name != "adr"
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        for word in DIALECT.findall(re.sub(r"`[^`]*`", "", line))
    ]
    assert found == []
