"""The programs of docs/how-to/as-a-library.md run as they stand, with nothing but the wheel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.acceptance.installed_wheel import Installed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "as-a-library.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAMS = PROGRAM.findall(PAGE.read_text("utf-8"))


@pytest.mark.parametrize(("program", "says"), PROGRAMS, ids=range(1, len(PROGRAMS) + 1))
def test_each_program_of_the_library_page_prints_what_stands_below_it(
    installed: Installed, tmp_path: Path, program: str, says: str
) -> None:
    (tmp_path / "program.py").write_text(program)
    ran = installed.run("program.py", cwd=tmp_path)
    assert (ran.stdout, ran.returncode) == (says, 0), ran.stderr
