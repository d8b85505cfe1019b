"""A tag that descendants keep whatever they do, and that an outer runner's does not replace."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runtime import proc_table
from runtime.process import ProcessExit
from runtime.processes import lineage_tag
from tests.runtime.process_fixtures import GRACE, LONG, WITHOUT_ENVIRONMENT, Stage, until


async def test_lineage_survives_a_new_session_and_a_cleared_environment(stage: Stage) -> None:
    process = await stage.python(WITHOUT_ENVIRONMENT + LONG)
    daemon = await stage.number("daemon")
    await until(lambda: proc_table.read_mark(daemon) is None)
    assert lineage_tag.read(daemon) == process.tree.tag is not None
    assert lineage_tag.read(os.getpid()) is None
    await process.stop(GRACE)


async def test_a_runner_below_an_agent_finds_its_own_daemons(stage: Stage) -> None:
    inner = stage.folder / "inner"
    inner.mkdir()
    program = (
        "import asyncio, sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from tests.runtime.process_fixtures import *\n"
        "async def main():\n"
        f"    stage = Stage(Path({str(inner)!r}), TerminalManager(Path('.')))\n"
        f"    process = await stage.python({WITHOUT_ENVIRONMENT!r})\n"
        "    daemon = await stage.number('daemon')\n"
        "    await process.sweep(0.2)\n"
        "    print('alive:', alive(daemon))\n"
        "asyncio.run(main())\n"
    )
    report = await (await stage.python(program)).sweep(GRACE)
    assert stage.log.read_text() == "alive: False\n"
    assert report.exit == ProcessExit(0, None)


@pytest.mark.parametrize("hard", ["tag", "resource.RLIM_INFINITY"])
def test_a_runner_below_another_knows_it_also_before_the_tag_is_fastened(hard: str) -> None:
    below = (
        "import resource; tag = (1 << 62) - (5 << 40); "
        f"resource.setrlimit(10, (tag, {hard})); "
        "import os; from runtime.processes import lineage_tag; "
        "print(lineage_tag.width() == 1 << 20, lineage_tag.read(os.getpid()))"
    )
    said = subprocess.run(
        [sys.executable, "-c", below], capture_output=True, text=True, check=True, timeout=30
    )
    # What bears no tag of its own, such as what watches for it, is no orphan of an agent.
    assert said.stdout.split() == ["True", "None"]
