"""From a clone to the first verified change, with a program that works as claude would.

With the real claude and codex: tests/models/real/test_first_change.py.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.first_change import DOUBLE, LOOPWRIGHT, SRC_LAYOUT, Newcomer

if TYPE_CHECKING:
    from pathlib import Path

RESULT = {
    "type": "result", "subtype": "success", "is_error": False, "num_turns": 1,
    "total_cost_usd": 0.01,
}  # fmt: skip
CLAUDE = f"""\
#!/bin/sh
case "$*" in *--version*) echo "2.1.326 (Claude Code)"; exit;; esac
prompt=$(cat)
signal=$(printf '%s\\n' "$prompt" | sed -n 's/ signal task_complete .*//p' | head -n 1)
case "$prompt" in *"Add double"*)
    cat >> src/calc/__init__.py <<'END'
{DOUBLE}END
    git commit -qam "Add double"
esac
# A login shell resets PATH.
env PATH={os.defpath} "$signal" signal task_complete --summary "double is there" >&2
echo '{json.dumps(RESULT)}'
"""


@pytest.mark.timeout(180)
def test_four_commands_lead_to_the_first_verified_change(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "claude").write_text(CLAUDE)
    (programs / "claude").chmod(0o755)
    somebody = Newcomer(tmp_path.resolve(), SRC_LAYOUT, f"{programs}:{os.defpath}")
    (somebody.home / ".claude").mkdir()
    (somebody.home / ".claude/.credentials.json").write_text("{}")
    somebody.clones()
    somebody.has_an_editable_install()
    said = somebody.has_made_a_verified_change("src/calc/__init__.py", "def double")
    assert "agent: claude at " in said
    assert ", signed in" in said
    assert re.search(r"agent turn +claude took a turn", said)
    assert LOOPWRIGHT.name in said
