"""Repositories as people have them, set up in their own checkout as people do it.

Each has tests that hold `add`, a way to break it, and the commands of its person. What is tested
always lies where another checkout could take its place: installed, linked or found further up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

ADD = "def add(a, b):\n    return a + b\n"
BROKEN = "def add(a, b):\n    return a - b\n"
BETTER = 'def add(a, b):\n    """Add."""\n    return a + b\n'
_TEST = "from {module} import {name}\n\n\ndef test_it():\n    assert {name}(1, 2) == 3\n"
_SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
_JS = "exports.add = (a, b) => a {sign} b{more};\n"
_JS_TEST = (
    "const test = require('node:test');\nconst assert = require('node:assert');\n"
    "const { add } = require('@x/core');\ntest('add', () => assert.equal(add(1, 2), 3));\n"
)


INDEX = "@index@"
"""Stands for the address of the package index."""


@dataclass(frozen=True)
class Project:
    """One repository, and what a person does in it before Loopwright comes."""

    files: dict[str, str]
    changed: str
    """The file that the agent changes: first to what is wrong, then to what is right."""
    wrong: str = BROKEN
    right: str = BETTER
    before: tuple[str, ...] = ()
    """Commands before the commit, for files that are committed."""
    after: tuple[str, ...] = ()
    """Commands after it, as a person sets the own checkout up."""
    active: bool = False
    """The person's `.venv` is active."""
    ignored: tuple[str, ...] = field(
        default=(".venv/", "__pycache__/", "*.egg-info/", "node_modules/", "target/")
    )


def _package(name: str, more: str = "") -> str:
    return f'{_SETUPTOOLS}[project]\nname = "{name}"\nversion = "0.1"\n{more}'


def _python(files: dict[str, str], changed: str, **more: object) -> Project:
    return Project(files, changed, active=True, **more)  # type: ignore[arg-type]  # as they come


def _workspace(manager: str, **more: object) -> Project:
    star = {"npm": "*", "yarn": "*", "pnpm": "workspace:*"}[manager]
    core = {"name": "@x/core", "version": "1.0.0", "main": "index.js"}
    app = {
        "name": "@x/app", "version": "1.0.0", "private": True,
        "dependencies": {"@x/core": star},
        "scripts": {"test": "node --test"},
    }  # fmt: skip
    top: dict[str, object] = {"name": "mono", "private": True, "workspaces": ["packages/*"]}
    files = {
        "packages/core/package.json": json.dumps(core),
        "packages/core/index.js": _JS.format(sign="+", more=""),
        "packages/app/package.json": json.dumps(app),
        "packages/app/app.test.js": _JS_TEST,
    }
    if manager == "pnpm":
        del top["workspaces"]
        files["pnpm-workspace.yaml"] = "packages:\n  - packages/*\n"
    files["package.json"] = json.dumps(top)
    return Project(
        files, "packages/core/index.js", wrong=_JS.format(sign="-", more=""),
        right=_JS.format(sign="+", more=" + 0"), before=(f"{manager} install",), **more,  # type: ignore[arg-type]
    )  # fmt: skip


_IN_VENV = "python3 -m venv .venv && .venv/bin/pip install -q"
_GO = "module example.org/{name}\n\ngo 1.20\n"
_GO_ADD = "package core\n\n// Add adds.\nfunc Add(a, b int) int {{ return a {sign} b }}\n"
_GO_TEST = (
    'package {package}\n\nimport (\n\t"testing"\n\n\t"example.org/mono/core"\n)\n\n'
    "func TestAdd(t *testing.T) {{\n\tif core.Add(1, 2) != 3 {{\n\t\tt.Fatal()\n\t}}\n}}\n"
)
_RUST = '[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n'
_RUST_ADD = "pub fn add(a: i32, b: i32) -> i32 {{ a {sign} b }}\n"

PROJECTS: dict[str, Project] = {
    "src layout, editable": _python(
        {
            "pyproject.toml": _package(
                "calc", '[project.optional-dependencies]\ntest = ["pytest"]\n'
            ),
            "src/calc/__init__.py": ADD,
            "tests/test_add.py": _TEST.format(module="calc", name="add"),
        },
        "src/calc/__init__.py",
        after=(f"{_IN_VENV} -e '.[test]'",),
    ),
    "flat layout, editable": _python(
        {
            "pyproject.toml": _package("calc", '[tool.setuptools]\npackages = ["calc"]\n'),
            "requirements-dev.txt": "pytest\n",
            "calc/__init__.py": ADD,
            "test/test_add.py": _TEST.format(module="calc", name="add"),
        },
        "calc/__init__.py",
        after=(f"{_IN_VENV} -e . -r requirements-dev.txt",),
    ),
    "two editable packages": _python(
        {
            "libs/core/pyproject.toml": _package("core-of-mono"),
            "libs/core/src/core_of_mono/__init__.py": ADD,
            "libs/app/pyproject.toml": _package("app-of-mono", 'dependencies = ["core-of-mono"]\n'),
            "libs/app/src/app_of_mono/__init__.py": "from core_of_mono import add as plus\n",
            "libs/app/tests/test_it.py": _TEST.format(module="app_of_mono", name="plus"),
            "libs/core/tests/test_it.py": _TEST.format(module="app_of_mono", name="plus"),
        },
        "libs/core/src/core_of_mono/__init__.py",
        after=(f"{_IN_VENV} -e libs/core -e libs/app pytest",),
    ),
    "uv": _python(
        {
            "pyproject.toml": _package("calc", '[dependency-groups]\ndev = ["pytest"]\n'),
            "src/calc/__init__.py": ADD,
            "tests/test_add.py": _TEST.format(module="calc", name="add"),
        },
        "src/calc/__init__.py",
        before=("uv lock -q",),
        after=("uv sync -q",),
    ),
    "poetry": _python(
        {
            "pyproject.toml": (
                '[build-system]\nrequires = ["poetry-core"]\n'
                'build-backend = "poetry.core.masonry.api"\n'
                '[project]\nname = "calc"\nversion = "0.1"\nrequires-python = ">=3.11"\n'
                '[tool.poetry]\npackages = [{include = "calc", from = "src"}]\n'
                '[tool.poetry.group.dev.dependencies]\npytest = "*"\n'
                # By its address, as mirrors need not have what poetry asks of the default one.
                f'[[tool.poetry.source]]\nname = "index"\nurl = "{INDEX}"\n'
            ),
            "src/calc/__init__.py": ADD,
            "tests/test_add.py": _TEST.format(module="calc", name="add"),
        },
        "src/calc/__init__.py",
        before=("poetry lock -q",),
        after=("POETRY_VIRTUALENVS_IN_PROJECT=true poetry install -q",),
    ),
    "npm workspace": _workspace("npm"),
    "pnpm workspace": _workspace("pnpm"),
    "yarn workspace": _workspace("yarn"),
    "nested Go module": Project(
        {
            "go.mod": _GO.format(name="mono"),
            "core/core.go": _GO_ADD.format(sign="+"),
            "tools/go.mod": _GO.format(name="tools")
            + "\nrequire example.org/mono v0.0.0\nreplace example.org/mono => ../\n",
            "tools/tools_test.go": _GO_TEST.format(package="tools"),
        },
        "core/core.go",
        wrong=_GO_ADD.format(sign="-"),
        right=_GO_ADD.format(sign="+ 0 +"),
        after=("go work init . ./tools",),
        ignored=("go.work",),
    ),
    "Cargo workspace": Project(
        {
            "Cargo.toml": '[workspace]\nresolver = "2"\nmembers = ["core", "app"]\n',
            "core/Cargo.toml": _RUST.format(name="core-of-mono"),
            "core/src/lib.rs": _RUST_ADD.format(sign="+"),
            "app/Cargo.toml": _RUST.format(name="app")
            + '[dependencies]\ncore-of-mono = { path = "../core" }\n',
            "app/src/lib.rs": ("#[test]\nfn adds() { assert_eq!(core_of_mono::add(1, 2), 3); }\n"),
        },
        "core/src/lib.rs",
        wrong=_RUST_ADD.format(sign="-"),
        right=_RUST_ADD.format(sign="+ 0 +"),
        before=("cargo generate-lockfile --quiet",),
        after=("cargo test --quiet",),
    ),
}
