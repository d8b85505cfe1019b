"""Which changed files belong to the tests or the gates themselves: the rules of judgement."""

from __future__ import annotations

WATCHED_NAMES = (
    "conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini", "tox.ini", "noxfile.py",
    "setup.cfg", "pyproject.toml", "Makefile", "package.json", "jest.config", "vitest.config",
    "playwright.config", "cypress.config", "karma.conf", ".mocharc", "Cargo.toml", "build.rs",
    "phpunit.xml", ".pre-commit-config.yaml", ".gitignore", ".gitattributes", "loopwright.toml",
    ".worktreeinclude",
)  # fmt: skip
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


def _is_watched(file: str) -> bool:
    *folders, name = file.split("/")
    stem = name.rsplit(".", 1)[0]
    return (
        name.startswith(WATCHED_NAMES)
        or any(folder in WATCHED_FOLDERS for folder in (*folders, name))
        or stem.startswith("test_")
        or stem.endswith(("_test", ".test", ".spec"))
    )
