"""The fixture that keeps the suite clean really fails a test that leaves something behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
OFFENDERS = """
import asyncio, multiprocessing, os, subprocess, threading, time
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
import pytest
from tests import hygiene

hygiene.PATIENCE = 0.1
KEPT = []

@pytest.fixture(scope="session", autouse=True)
def _warm(clean_home):
    forkserver.ensure_running()
    resource_tracker.ensure_running()

def test_forked():
    multiprocessing.get_context("forkserver").Process(target=time.sleep, args=(1.5,)).start()

def test_process():
    KEPT.append(subprocess.Popen(["sleep", "1.5"]))

def test_thread():
    threading.Thread(target=time.sleep, args=(2,), name="left", daemon=True).start()

async def test_task():
    asyncio.get_running_loop().create_task(asyncio.sleep(60), name="left")

def test_handle():
    os.open(__file__, os.O_RDONLY)

def test_home():
    (Path.home() / "left").write_text("x")

def test_checkout():
    with open(hygiene.CHECKOUT / "README.md", "a"):
        pass

async def test_clean(tmp_path):
    assert [each.name for each in Path.home().iterdir()] == [".gitconfig"]
    (tmp_path / "x").touch()
    await asyncio.sleep(0)
"""
BLAMED = {
    "test_forked": "of pipe:",
    "test_process": "sleep 1.5",
    "test_thread": "thread 'left'",
    "test_task": "task 'left' was still running",
    "test_handle": "test_offenders.py",
    "test_home": "~/left was written",
    "test_checkout": "README.md was written, outside of tmp_path",
}


def test_a_test_that_leaves_something_behind_fails(tmp_path: Path) -> None:
    (tmp_path / "test_offenders.py").write_text(OFFENDERS)
    plugins = (
        "-p",
        "tests.hygiene",
        "-p",
        "no:xdist",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
    )
    options = ("-o", "addopts=", "-o", "asyncio_mode=auto", "-o", "filterwarnings=")
    places = (f"--basetemp={tmp_path / 'temp'}", "--rootdir", str(tmp_path), "test_offenders.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *options, *places],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout
    for name, blame in BLAMED.items():
        at = told.find(f"ERROR at teardown of {name} ")
        assert at >= 0, told
        assert blame in told[at : at + 500], told
    assert f"8 passed, {len(BLAMED)} errors" in told
