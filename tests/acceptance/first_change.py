"""The first change of somebody new: clone, `init`, `doctor`, `run`, in a home of his own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.begun import begun

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOPWRIGHT = Path(sys.executable).with_name("loopwright")
PATIENCE = 200
TWO_MINUTES = 120.0
ADD = "def add(a, b):\n    return a + b\n"
DOUBLE = "def double(a):\n    return add(a, a)\n"
SRC_LAYOUT = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\n'
    'build-backend = "setuptools.build_meta"\n[project]\nname = "calc"\nversion = "1"\n',
    "src/calc/__init__.py": ADD,
    "tests/test_calc.py": "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n",
    ".gitignore": ".venv/\n__pycache__/\n",
}
_CORE = {"name": "@x/core", "version": "1.0.0", "main": "index.js"}
_APP = {
    "name": "@x/app", "version": "1.0.0", "private": True, "dependencies": {"@x/core": "*"},
    "scripts": {"test": "node --test"},
}  # fmt: skip
_LOCK = {
    "name": "mono", "lockfileVersion": 3, "requires": True,
    "packages": {
        "": {"name": "mono", "workspaces": ["packages/*"]},
        "node_modules/@x/app": {"resolved": "packages/app", "link": True},
        "node_modules/@x/core": {"resolved": "packages/core", "link": True},
        "packages/app": _APP | {"scripts": None},
        "packages/core": {"name": "@x/core", "version": "1.0.0"},
    },
}  # fmt: skip
NPM_WORKSPACE = {
    "package.json": json.dumps({"name": "mono", "private": True, "workspaces": ["packages/*"]}),
    "package-lock.json": json.dumps(_LOCK),
    "packages/core/package.json": json.dumps(_CORE),
    "packages/core/index.js": "exports.add = (a, b) => a + b;\n",
    "packages/app/package.json": json.dumps(_APP),
    "packages/app/app.test.js": "const test = require('node:test');\n"
    "const assert = require('node:assert');\nconst { add } = require('@x/core');\n"
    "test('add', () => assert.equal(add(1, 2), 3));\n",
    ".gitignore": "node_modules/\n",
}


class Newcomer:
    """Somebody at a shell, with a home of his own and a repository to clone."""

    def __init__(self, folder: Path, files: Mapping[str, str], path: str, **env: str) -> None:
        self.folder, self.home = folder, folder / "home"
        self.repo = folder / "work"
        begun(folder / "origin", files)
        self.home.mkdir()
        (self.home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
        self.env = {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", **env}
        self.began = time.monotonic()

    def types(self, *words: str, code: int = 0) -> str:
        """Run one command, in the repository once it is there."""
        done = subprocess.run(
            words, cwd=self.repo if self.repo.exists() else self.folder, env=self.env,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode == code, f"{words}: {done.returncode}\n{said}"
        return said

    def clones(self) -> None:
        self.types("git", "clone", "-q", str(self.folder / "origin"), str(self.repo))

    def has_an_editable_install(self) -> None:
        """Make an active `.venv` whose packages are the files of this checkout."""
        self.types(sys.executable, "-m", "venv", "--without-pip", ".venv")
        (site,) = (self.repo / ".venv/lib").glob("python3*/site-packages")
        (site / "__editable__.calc.pth").write_text(f"{self.repo}/src\n")
        self.env |= {
            "VIRTUAL_ENV": f"{self.repo}/.venv",
            "PATH": f"{self.repo}/.venv/bin{os.pathsep}{self.env['PATH']}",
        }

    def has_made_a_verified_change(self, file: str, holds: str, *options: str) -> str:
        """Go the whole way; returns what was said."""
        said = self.types(str(LOOPWRIGHT), "init")
        checked = self.types(str(LOOPWRIGHT), "doctor", "--agent")
        assert '\nReady: loopwright run "TEXT"\n' in checked, checked
        ran = self.types(str(LOOPWRIGHT), "run", "Add double", "--plain", *options)
        assert "verified: " in ran, ran
        took = time.monotonic() - self.began
        assert holds not in (self.repo / file).read_text()
        self.types(str(LOOPWRIGHT), "accept", "T001")
        assert holds in (self.repo / file).read_text()
        return f"{said}{checked}{ran}took {took:.1f} s"
