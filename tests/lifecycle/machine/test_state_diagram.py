"""The page about the states says what the table says."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from lifecycle.machine import states
from lifecycle.machine.table import RULES

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "state-machine.md"
GENERATOR = ROOT / "docs" / "state_diagram.py"


def test_the_diagram_in_the_page_is_the_one_of_the_table() -> None:
    made = runpy.run_path(str(GENERATOR))
    assert made["written"](PAGE.read_text(encoding="utf-8")) == made["block"](), (
        "run `python docs/state_diagram.py`"
    )


def test_the_script_brings_an_old_page_in_line(tmp_path: Path) -> None:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    script = Path(shutil.copy(GENERATOR, tmp_path / "docs"))
    shutil.copytree(ROOT / "lifecycle" / "machine", tmp_path / "lifecycle" / "machine")
    shutil.copy(ROOT / "lifecycle" / "__init__.py", tmp_path / "lifecycle")
    truth = PAGE.read_text(encoding="utf-8")
    page = tmp_path / "docs" / "reference" / "state-machine.md"
    page.write_text(truth.replace("Queued --> Preparing: Admitted", "Queued --> Nowhere"), "utf-8")
    subprocess.run([sys.executable, str(script)], check=True, timeout=30, cwd=tmp_path)
    assert page.read_text(encoding="utf-8") == truth


def test_every_arrow_stands_there_once() -> None:
    text = runpy.run_path(str(GENERATOR))["diagram"]()
    arrows = [line.split(":")[0].strip() for line in text.splitlines()[1:]]
    named = {
        f"{line.state.__name__} --> {target.__name__}"
        for line in RULES
        for target in line.targets
        if target is not line.state
    }
    ends = {f"{state.__name__} --> [*]" for state in states.TERMINAL}
    assert sorted(arrows) == sorted(named | ends | {"[*] --> Queued"})


def test_the_page_explains_every_state_with_its_coarse_one() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    explained = {row[0].strip("`"): row[2] for row in rows if len(row) == 5}
    assert explained == {kind.__name__: str(states.COARSE[kind]) for kind in states.ALL}
