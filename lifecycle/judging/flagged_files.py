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
    words = {
        word.strip("'\"").removeprefix("./") for command in commands for word in command.split()
    }
    words |= {f"{word.replace('.', '/')}.py" for word in words}  # as in `python -m tools.check`
    return tuple(file for file in files if _is_watched(file) or file in words)


def configuration(files: Iterable[str]) -> tuple[str, ...]:
    """Return those of the files that programs take settings from."""
    return tuple(file for file in files if _is_configuration(file.rpartition("/")[2]))


def _is_configuration(name: str) -> bool:
    stem, _, ending = name.rpartition(".")
    is_dotfile = name.startswith(".") and "rc" in name
    return name.startswith(WATCHED_NAMES) or is_dotfile or (bool(stem) and ending in _SETTINGS)


def _is_watched(file: str) -> bool:
    *folders, name = file.split("/")
    stem = name.rsplit(".", 1)[0]
    return (
        name.startswith(WATCHED_NAMES)
        or any(folder in WATCHED_FOLDERS for folder in (*folders, name))
        or stem.startswith("test_")
        or stem.endswith(("_test", ".test", ".spec"))
    )
