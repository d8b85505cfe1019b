"""Reviewer programs for tests: each a script that a person could have written."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import json, os, pathlib, sys, time
told = sys.stdin.read()
mark = os.environ["LOOPWRIGHT_REVIEW"]
def answer(verdict, *findings, **more):
    print(json.dumps({"review": mark, "verdict": verdict, "findings": findings, **more}))
"""
FINDING = 'dict(severity="major", file="x.txt", line=1, text="it is not what was asked for")'
APPROVES = 'answer("approve", summary="fine")'
REJECTS = f'answer("findings", {FINDING}, summary="no good")'


def reviewer(folder: Path, body: str) -> str:
    """Write a reviewer; return the command line that runs it."""
    path = folder / "reviewer.py"
    path.write_text(HEAD + body)
    return shlex.join([sys.executable, "-S", str(path)])
