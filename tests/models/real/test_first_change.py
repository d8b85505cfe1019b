"""From a clone to the first verified change, in two minutes, with the real claude and codex."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.first_change import (
    NPM_WORKSPACE,
    SRC_LAYOUT,
    TWO_MINUTES,
    Newcomer,
)
from tests.models.clis import order
from tests.models.script import Say, Shell
from tests.tools.agents.installed import program
from tests.tools.npm_tools import node

if TYPE_CHECKING:
    from pathlib import Path

    from tests.models.conversation import Request
    from tests.models.server import ModelServer

_COMMAND = re.compile(r"(/[\w./-]+/loopwright) signal task_complete")
_CHANGES = {
    "src/calc/__init__.py": "printf '\\ndef double(a):\\n    return add(a, a)\\n'",
    "packages/core/index.js": "echo 'exports.double = (a) => exports.add(a, a);'",
}


def _model(file: str) -> Any:
    """Return a model that changes a file where it is asked to, and signals as the prompt says."""

    def play(request: Request) -> Shell | Say:
        found = _COMMAND.search(request.words)
        if found is None or "double is there" in request.words:
            return Say("Done.")
        change = f"{_CHANGES[file]} >> {file} && git commit -qam 'Add double' && "
        what = change if "Add double" in request.words else ""
        return Shell(f"{what}{found[1]} signal task_complete --summary 'double is there'")

    return play


_OPTIONS = {"claude": (), "codex": ("--model", "gpt-5.1-codex")}
_FILES = {"src/calc/__init__.py": SRC_LAYOUT, "packages/core/index.js": NPM_WORKSPACE}


def _programs(folder: Path, name: str) -> str:
    """Return a PATH with one agent program, Node with its npm, and the system."""
    folder.mkdir()
    (folder / name).symlink_to(program(name))
    npm = node().parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
    (folder / "npm").write_text(f'#!/bin/sh\nexec {node()} {npm} "$@"\n')
    (folder / "npm").chmod(0o755)
    return os.pathsep.join((str(folder), str(node().parent), os.defpath))


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("name", "file"),
    [("claude", "src/calc/__init__.py"), ("codex", "packages/core/index.js")],
)
def test_four_commands_lead_to_the_first_verified_change(
    model_server: ModelServer, tmp_path: Path, name: str, file: str
) -> None:
    played = model_server.play(again=_model(file))
    known = order(name, played.url, played.key)
    passed = {"LOOPWRIGHT_PASS_ENV": json.dumps(list(known.env))}
    path = _programs(tmp_path / "programs", name)
    somebody = Newcomer(tmp_path.resolve(), _FILES[file], path, **known.env, **passed)
    settings = "\n".join(word for word in known.argv if word.startswith("model_provider"))
    for place, text in known.files.items():
        (somebody.home / place).parent.mkdir(parents=True, exist_ok=True)
        (somebody.home / place).write_text(f'model = "gpt-5.1-codex"\n{settings}\n{text}')
    somebody.clones()
    if name == "claude":
        somebody.has_an_editable_install()
    else:
        somebody.types("npm", "ci")
    said = somebody.has_made_a_verified_change(file, "double", *_OPTIONS[name])
    assert re.search(rf"agent turn +{name} took a turn", said)
    assert float(said.rpartition("took ")[2].split()[0]) < TWO_MINUTES
    assert played.problems == []
