"""GitHub for tests: a process of emulate's GitHub, joined to real repositories; one per session."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote
from urllib.request import urlopen

import pytest

from tests.tools.github_api import fault_of
from tests.tools.npm_tools import installed, node

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = Path(__file__).parents[2] / "tools" / "github.mjs"
PATIENCE = 20


@dataclass(frozen=True)
class Emulated:
    """GitHub, as it runs."""

    url: str
    """Where it is; both the API and the pages."""
    app_id: str
    """Of a GitHub App that is installed for all repositories of acme."""
    app_key: str


@contextlib.contextmanager
def emulated_github() -> Iterator[Emulated]:
    """Run one. It ends with our end of its standard input, so it never outlives this process."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [node(), SCRIPT, installed()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            # An interrupt of the terminal is for pytest, which then ends it in good order.
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                errors.seek(0)
                pytest.fail(f"emulate did not start: {errors.read().decode()}", pytrace=False)
            told = json.loads(line)
            yield Emulated(told["url"], told["app"]["id"], told["app"]["key"])
            check_requests(told["url"])
        finally:
            process.stdin.close()
            process.stdout.close()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def check_requests(url: str) -> None:
    """Hold every request that came from Loopwright against GitHub's description of its API."""
    with urlopen(f"{url}/_requests", timeout=PATIENCE) as answer:  # noqa: S310  # our own server
        asked = json.load(answer)
    faults = {
        fault_of(each["method"], unquote(each["path"]), each["query"], each["body"])
        for each in asked
    }
    assert not faults - {""}, "\n".join(sorted(faults))


@pytest.fixture(scope="session")
def emulated() -> Iterator[Emulated]:
    with emulated_github() as running:
        yield running
