"""Which changed files belong to the tests or the gates themselves: the rules of judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

WATCHED_NAMES = (
    "conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini", "tox.ini", "noxfile.py",
    "setup.cfg", "pyproject.toml", "Makefile", "package.json", "jest.config", "vitest.config",
    "playwright.config", "cypress.config", "karma.conf", ".mocharc", "Cargo.toml", "build.rs",
    "phpunit.xml", ".pre-commit-config.yaml", ".gitignore", ".gitattributes", "loopwright.toml",
    ".worktreeinclude",
)  # fmt: skip
_SETTINGS = ("ini", "cfg", "conf", "toml")
WATCHED_FOLDERS = (
    "test", "tests", "__tests__", "spec", ".github", ".ci", ".gitlab-ci.yml", ".cargo",
    ".venv", "venv", "node_modules",
)  # fmt: skip


def flagged(files: tuple[str, ...], commands: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the changed files that belong to the tests or the gates themselves."""
    words = {name for command in commands for name in _named(command)}
    return tuple(file for file in files if _watched(file) or file in words)


def reason_of(file: str, commands: Iterable[str]) -> str:
    """Say why a file belongs to the tests or the gates; nothing if it does not."""
    for command in commands:
        if file in _named(command):
            return f"the verify command `{command}` runs it"
    return _watched(file)


def _named(command: str) -> set[str]:
    words = {word.strip("'\"").removeprefix("./") for word in command.split()}
    return words | {f"{word.replace('.', '/')}.py" for word in words}  # as `python -m tools.check`


def configuration(files: Iterable[str]) -> tuple[str, ...]:
    """Return those of the files that programs take settings from."""
    return tuple(file for file in files if _is_configuration(file.rpartition("/")[2]))


def _is_configuration(name: str) -> bool:
    stem, _, ending = name.rpartition(".")
    is_dotfile = name.startswith(".") and "rc" in name
    return name.startswith(WATCHED_NAMES) or is_dotfile or (bool(stem) and ending in _SETTINGS)


def _watched(file: str) -> str:
    *folders, name = file.split("/")
    stem = name.rsplit(".", 1)[0]
    if name.startswith(WATCHED_NAMES):
        return "tests and tools take their settings from it"
    if stem.startswith("test_") or stem.endswith(("_test", ".test", ".spec")):
        return "it is a test"
    if name in WATCHED_FOLDERS:
        return "it belongs to what checks the work"
    return next((f"it is in {each}/" for each in folders if each in WATCHED_FOLDERS), "")
