"""Who runs on one machine pays nothing for engines over many."""

from __future__ import annotations

import subprocess
import sys

CODE = (
    "import sys, lifecycle.loop, orchestrator.cli.main, orchestrator.wiring, "
    "orchestrator.runner.service, lifecycle.owner.remote_owner, lifecycle.worker.worker; "
    "print([each for each in sys.modules if each.partition('.')[0] == 'temporalio'])"
)


def test_nothing_of_the_sdk_is_loaded_without_its_engine() -> None:
    told = subprocess.run(
        (sys.executable, "-c", CODE), capture_output=True, text=True, check=True
    )  # our own code
    assert told.stdout.strip() == "[]"
