"""What `init` proposes is right in a fresh checkout; the real tools are in `make test-setups`."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from orchestrator.proposals.propose import propose

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.proposals.committed_files import SetupProposal

PACKAGE = "[build-system]\nrequires = []\n[project]\nname = 'x'\n"
PIP = "python3 -m venv .venv && .venv/bin/python -m pip install -q "
TEST = {"tests/test_x.py": ""}
LIBRARY = "[[package]]\nsource = 'registry'\n"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = tmp_path / "programs"
    programs.mkdir()
    names = ("python3", "uv", "poetry", "pdm", "pipenv", "npm", "pnpm", "yarn", "bun", "tox", "nox")
    for name in (*names, "go", "cargo", "make"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    return tmp_path / "repo"


def proposed(repo: Path, files: dict[str, str]) -> SetupProposal:
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    subprocess.run(["git", "add", "-A"], cwd=repo, check=True)
    return propose(repo)


@pytest.mark.parametrize(
    ("files", "setup"),
    [
        ({"pyproject.toml": PACKAGE}, f"{PIP}-e . pytest"),
        (
            {"pyproject.toml": f"{PACKAGE}[project.optional-dependencies]\ntest = ['pytest']\n"},
            f"{PIP}-e '.[test]'",
        ),
        (
            {"setup.py": "", "requirements-dev.txt": "pytest\n"},
            f"{PIP}-e . -r requirements-dev.txt",
        ),
        ({"requirements.txt": "x\n"}, f"{PIP}-r requirements.txt pytest"),
        (
            {"pyproject.toml": f"{PACKAGE}[dependency-groups]\ndev = ['pytest']\n"},
            f"{PIP}'pip>=25.1' && .venv/bin/python -m pip install -q -e . --group dev",
        ),
        (
            {"setup.cfg": "[metadata]\nname = x\n[options.extras_require]\ntests =\n  pytest\n"},
            f"{PIP}-e '.[tests]'",
        ),
        ({"a/pyproject.toml": PACKAGE, "b/setup.py": ""}, f"{PIP}-e a -e b pytest"),
        (
            {"a b/setup.py": "", "c;date/pyproject.toml": PACKAGE},
            f"{PIP}-e 'a b' -e 'c;date' pytest",
        ),
        ({"pyproject.toml": PACKAGE, "uv.lock": ""}, "uv sync --frozen"),
        (
            {
                "pyproject.toml": f"{PACKAGE}[tool.uv.workspace]\nmembers = ['a']\n"
                "[dependency-groups]\ndev = []\ntest = []\n",
                "uv.lock": "",
            },
            "uv sync --frozen --all-packages --group test",
        ),
        (
            {
                "pyproject.toml": "[tool.poetry.group.test]\noptional = true\n",
                "poetry.lock": "",
            },
            "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction --with test",
        ),
        ({"Pipfile": "", "Pipfile.lock": ""}, "PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev"),
    ],
)
def test_a_project_of_python_is_installed_in_an_environment_of_the_checkout(
    repo: Path, files: dict[str, str], setup: str
) -> None:
    found = proposed(repo, files | TEST)
    assert found.setup == [setup]
    assert found.verify[0].startswith("pytest -q")
    assert ".venv/" in found.makes


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": "[project]\nname = 'x'\ndynamic = true\n"},
        {"pyproject.toml": PACKAGE, "package.json": "[" * 100_000},
    ],
)
def test_files_that_are_not_as_they_should_be_stop_nothing(
    repo: Path, files: dict[str, str]
) -> None:
    assert proposed(repo, files | TEST).verify == ["pytest -q"]


@pytest.mark.parametrize(
    ("files", "verify"),
    [
        ({"tox.ini": "[testenv]\ndeps =\n    pytest\n    hypothesis\n"}, "tox -q -e py"),
        ({"tox.ini": "[testenv]\ndeps = pytest\n"}, "pytest -q"),
        ({"noxfile.py": ""}, "nox"),
        ({"noxfile.py": "", "requirements-dev.txt": ""}, "pytest -q"),
    ],
)
def test_tox_and_nox_judge_where_only_they_know_what_tests_need(
    repo: Path, files: dict[str, str], verify: str
) -> None:
    assert proposed(repo, {"setup.py": "", **files} | TEST).verify == [verify]


UNITTEST = {"tests/test_x.py": "import unittest\n", "src/x/__init__.py": ""}


@pytest.mark.parametrize(
    ("more", "verify"),
    [
        ({}, "PYTHONPATH=src python3 -m unittest discover -q -s tests"),
        (
            {"tests/__init__.py": ""},
            "PYTHONPATH=src python3 -m unittest discover -q -s tests -t .",
        ),
    ],
)
def test_what_needs_nothing_but_python_is_not_installed(
    repo: Path, more: dict[str, str], verify: str
) -> None:
    found = proposed(repo, {"pyproject.toml": PACKAGE, **UNITTEST, **more})
    assert (found.setup, found.verify) == ([], [verify])


def test_nothing_is_installed_where_the_machine_has_pytest_and_the_package_needs_no_more(
    repo: Path,
) -> None:
    program = repo.parent / "programs" / "pytest"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = proposed(repo, {"pyproject.toml": PACKAGE, **TEST})
    assert (found.setup, found.verify) == ([], ["PYTHONPATH=. pytest -q"])


@pytest.mark.parametrize(
    "more",
    [
        {"pyproject.toml": f"{PACKAGE}dependencies = ['httpx']\n"},
        {"pyproject.toml": f"{PACKAGE}dynamic = ['dependencies']\n"},
        {"pyproject.toml": f"{PACKAGE}[project.scripts]\nx = 'x:main'\n"},
        {"pyproject.toml": PACKAGE, "setup.py": ""},
        {"pyproject.toml": PACKAGE, "requirements.txt": "httpx\n"},
        {"pyproject.toml": PACKAGE, "tests/test_y.py": "import pytest\n"},
    ],
)
def test_what_needs_more_than_python_is_installed(repo: Path, more: dict[str, str]) -> None:
    assert proposed(repo, {**UNITTEST, **more}).setup


def test_tests_of_one_name_in_two_folders_are_told_apart(repo: Path) -> None:
    found = proposed(repo, {"pytest.ini": "", "a/test_x.py": "", "b/test_x.py": ""})
    assert found.verify == ["pytest -q --import-mode=importlib"]


@pytest.mark.parametrize(
    ("lock", "setup", "verify"),
    [
        ("package-lock.json", "npm ci", "npm test"),
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile", "pnpm test"),
        ("yarn.lock", "yarn install --frozen-lockfile", "yarn test"),
        ("bun.lock", "bun install --frozen-lockfile", "bun run test"),
        ("README", "npm install --no-package-lock", "npm test"),
    ],
)
def test_the_lock_file_tells_the_package_manager_of_node(
    repo: Path, lock: str, setup: str, verify: str
) -> None:
    package = {"scripts": {"test": "jest"}, "devDependencies": {"jest": "1"}}
    found = proposed(repo, {"package.json": json.dumps(package), lock: ""})
    assert (found.setup, found.verify) == ([setup], [verify])


@pytest.mark.parametrize(
    ("lock", "verify"),
    [
        ("package-lock.json", ["npm run build", "npm test --workspaces --if-present"]),
        ("yarn.lock", ["yarn run build", "yarn workspace a test"]),
        ("pnpm-lock.yaml", ["pnpm run build", "pnpm -r test"]),
    ],
)
def test_a_workspace_of_node_is_built_and_each_package_with_tests_is_tested(
    repo: Path, lock: str, verify: list[str]
) -> None:
    found = proposed(
        repo,
        {
            "package.json": json.dumps({"workspaces": ["*"], "scripts": {"build": "tsc"}}),
            "a/package.json": json.dumps({"name": "a", "scripts": {"test": "jest"}}),
            "b/package.json": json.dumps({"name": "b", "main": "dist/index.js"}),
            lock: "",
        },
    )
    assert found.verify == verify


def test_the_test_script_that_npm_writes_by_itself_is_none(repo: Path) -> None:
    script = {"scripts": {"test": 'echo "Error: no test specified" && exit 1'}}
    assert proposed(repo, {"package.json": json.dumps(script)}).verify == []


def test_each_module_of_go_is_tested_and_an_uncommitted_workspace_is_copied(repo: Path) -> None:
    (repo / "go.work").write_text("use .\n")
    (repo / ".gitignore").write_text("go.work\n")
    found = proposed(
        repo,
        {"go.mod": "module x\nrequire y v1\n", "go.sum": "y", "sub dir/go.mod": "module z\n"},
    )
    assert found.setup == ["go mod download"]
    assert found.verify == ["go test ./...", "cd 'sub dir' && go test ./..."]
    assert found.copy == ["go.work"]


def test_a_workspace_of_rust_is_tested_as_one(repo: Path) -> None:
    found = proposed(
        repo, {"Cargo.toml": "[workspace]\n", "a/Cargo.toml": "[package]\n", "Cargo.lock": LIBRARY}
    )
    assert found.setup == ["cargo fetch --locked"]
    assert found.verify == ["cargo test --quiet --workspace"]


def test_a_makefile_says_how_it_is_tested_and_set_up_stays(repo: Path) -> None:
    found = proposed(repo, {"pyproject.toml": PACKAGE, "Makefile": "test:\n\ttrue\n", **TEST})
    assert found.verify == ["make test"]
    assert found.setup
