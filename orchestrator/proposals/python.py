"""What is proposed for projects of Python."""

from __future__ import annotations

import re
import shutil
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import TYPE_CHECKING

from orchestrator.proposals.committed_files import SetupProposal, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.proposals.committed_files import CommittedFiles

_FOR_TESTS = ("test", "tests", "testing", "dev", "develop", "development")
"""Extras and groups that hold what tests need, by their usual names."""
_REQUIREMENTS = (
    *("requirements-dev.txt", "requirements-test.txt", "requirements-tests.txt"),
    *("requirements_dev.txt", "requirements_test.txt", "dev-requirements.txt"),
    *("test-requirements.txt", "requirements/dev.txt", "requirements/test.txt"),
)
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_MAKES = [".venv/", "*.egg-info/", "__pycache__/"]
_PLAIN = "requirements.txt"
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")


def propose(found: CommittedFiles) -> SetupProposal | None:
    """Propose for the package manager whose lock file is there, else for pip."""
    if not found.folders_with(
        *_PROJECT_FILES, _PLAIN, "tox.ini", "noxfile.py", "pytest.ini", "Pipfile"
    ):
        return None
    verify = _verify(found)
    locked = next((name for name in _LOCKED if name in found.names), "")
    if locked:
        program, command = _LOCKED[locked]
        return SetupProposal(setup=[command(found)], verify=verify, needs=[program], makes=_MAKES)
    if runner := _own_runner(found):
        return runner
    if bare := _of_itself(found, verify):
        return SetupProposal(verify=bare, needs=["python3"])
    with_pytest = "pytest" in " ".join(verify)
    words = _pip(found, with_pytest=with_pytest)
    if not words and with_pytest and not _has_pytest(found.repo):
        words = ["pytest"]
    if not words:
        return SetupProposal(verify=verify, needs=["python3"])
    pip = ".venv/bin/python -m pip install -q"
    newer = f"{pip} 'pip>=25.1' && " if "--group" in words else ""
    setup = f"python3 -m venv .venv && {newer}{pip} {' '.join(words)}"
    return SetupProposal(setup=[setup], verify=verify, needs=["python3"], makes=_MAKES)


def _own_runner(found: CommittedFiles) -> SetupProposal | None:
    """Return tox or nox, where only their files say what the tests need."""
    if _extras(found, ".") or _groups(found) or found.has(*_REQUIREMENTS):
        return None
    in_tox = re.search(r"(?ms)^deps\s*=(.*?)(?=^\S|\Z)", found.text("tox.ini"))
    if in_tox and set(re.findall(r"(?m)^\s*([\w-]+)", in_tox[1])) - {"pytest"}:
        return SetupProposal(verify=["tox -q -e py"], needs=["tox"], makes=[".tox/"])
    if found.has("noxfile.py"):
        return SetupProposal(verify=["nox"], needs=["nox"], makes=[".nox/"])
    return None


def _of_itself(found: CommittedFiles, verify: list[str]) -> list[str]:
    """Return the commands for a package that needs nothing but Python; none where it may.

    Nothing is installed for it, so that neither a package index nor the network is needed.
    """
    project = table(found.toml("pyproject.toml"), "project")
    needs = ("dependencies", "optional-dependencies", "scripts", "gui-scripts", "entry-points")
    others = ("setup.py", "setup.cfg", "tox.ini", _PLAIN, *_REQUIREMENTS)
    if (
        not project
        or _packages(found) != ["."]
        or any(map(project.get, needs))
        or "dependencies" in str(project.get("dynamic"))
        or _groups(found)
        or found.has(*others)
    ):
        return []
    within = "src" if any(name.startswith("src/") for name in found.names) else "."
    if _is_unittest(found):
        top = " -t ." if "tests/__init__.py" in found.names else ""
        return [f"PYTHONPATH={within} python3 -m unittest discover -q -s tests{top}"]
    if verify and _has_pytest(found.repo):
        return [f"PYTHONPATH={within} {each}" for each in verify]
    return []


def _is_unittest(found: CommittedFiles) -> bool:
    """Tell whether all tests are in `tests` and ask for nothing but the standard library."""
    tests = [name for name in found.names if _TEST_FILE.search(name)]
    told = [found.text(name) for name in ("pyproject.toml", "conftest.py", "tests/conftest.py")]
    return (
        bool(tests)
        and all(name.startswith("tests/") and "unittest" in found.text(name) for name in tests)
        and not any("pytest" in text for text in (*told, *map(found.text, tests)))
    )


def _has_pytest(repo: Path) -> bool:
    """Tell whether pytest is on this machine, and not only in the repository."""
    place = shutil.which("pytest")
    return place is not None and not Path(place).is_relative_to(repo)


def _verify(found: CommittedFiles) -> list[str]:
    tests = [name for name in found.names if _TEST_FILE.search(name)]
    if not tests and found.has("manage.py"):
        return ["python manage.py test"]
    told = (
        "pytest" in found.text("pyproject.toml")
        or "pytest" in found.text("setup.cfg")
        or "pytest" in found.text("tox.ini")
        or bool(found.has("pytest.ini", "conftest.py", "tests/conftest.py"))
    )
    if not tests and not told:
        return []
    bases = [PurePosixPath(name).name for name in tests]
    # Files of one name in two folders are one module to pytest, unless it is told otherwise.
    mode = " --import-mode=importlib" if _is_several(found) or len(set(bases)) < len(bases) else ""
    return [f"pytest -q{mode}"]


def _is_several(found: CommittedFiles) -> bool:
    return len(_packages(found)) > 1


def _packages(found: CommittedFiles) -> list[str]:
    """Return the folders that pip can install."""
    return [
        folder
        for folder in found.folders_with(*_PROJECT_FILES)
        if _is_package(found, "" if folder == "." else f"{folder}/")
    ]


def _is_package(found: CommittedFiles, at: str) -> bool:
    if f"{at}setup.py" in found.names or "[metadata]" in found.text(f"{at}setup.cfg"):
        return True
    pyproject = found.toml(f"{at}pyproject.toml")
    return "build-system" in pyproject or "project" in pyproject


def _pip(found: CommittedFiles, *, with_pytest: bool) -> list[str]:
    words: list[str] = []
    packages = _packages(found)
    for folder in packages:
        extras = ",".join(_extras(found, folder))
        target = f"{folder}[{extras}]" if extras else folder
        words += ["-e", quote(target)]
    files = [name for name in _REQUIREMENTS if name in found.names]
    if found.has(_PLAIN) and (not packages or not files):
        files.insert(0, _PLAIN)
    for name in files:
        words += ["-r", name]
    for name in _groups(found):
        words += ["--group", name]
    if words and with_pytest and not _names_pytest(found, files):
        words.append("pytest")
    return words


def _names_pytest(found: CommittedFiles, files: list[str]) -> bool:
    """Tell whether the dependencies include pytest already."""
    texts = [found.text(name) for name in files]
    for folder in _packages(found):
        at = "" if folder == "." else f"{folder}/"
        project = table(found.toml(f"{at}pyproject.toml"), "project")
        optional, extras = table(project, "optional-dependencies"), _extras(found, folder)
        texts += [str(project.get("dependencies")), *(str(optional.get(each)) for each in extras)]
        if not project:
            texts.append(found.text(f"{at}setup.cfg") + found.text(f"{at}setup.py"))
    groups = found.toml("pyproject.toml").get("dependency-groups")
    if isinstance(groups, dict):
        texts += [str(groups[name]) for name in _groups(found)]
    return any(re.search(r"\bpytest\b", text) for text in texts)


def _extras(found: CommittedFiles, folder: str) -> list[str]:
    """Return the extras of a package that tests need, by their names."""
    at = "" if folder == "." else f"{folder}/"
    names = table(found.toml(f"{at}pyproject.toml"), "project", "optional-dependencies")
    if not names:
        section = re.search(
            r"(?ms)^\[options\.extras_require\]\n(.*?)(?=^\[|\Z)", found.text(f"{at}setup.cfg")
        )
        names = dict.fromkeys(re.findall(r"(?m)^(\w+)\s*=", section[1])) if section else {}
    return [name for name in _FOR_TESTS if name in names]


def _groups(found: CommittedFiles, *, but: str = "") -> list[str]:
    groups = found.toml("pyproject.toml").get("dependency-groups")
    names = groups if isinstance(groups, dict) else {}
    return [name for name in _FOR_TESTS if name in names and name != but]


def _uv(found: CommittedFiles) -> str:
    members = table(found.toml("pyproject.toml"), "tool", "uv", "workspace")
    words = ["uv sync --frozen", *(["--all-packages"] if members else [])]
    words += [f"--extra {each}" for each in _extras(found, ".")]
    return " ".join([*words, *(f"--group {each}" for each in _groups(found, but="dev"))])


def _poetry(found: CommittedFiles) -> str:
    poetry = table(found.toml("pyproject.toml"), "tool", "poetry")
    groups, extras = table(poetry, "group"), table(poetry, "extras")
    wanted = [name for name in _FOR_TESTS if table(groups, name).get("optional") is True]
    more = _extras(found, ".") or [name for name in _FOR_TESTS if name in extras]
    words = [f"--with {name}" for name in wanted] + [f"--extras {name}" for name in more]
    line = "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction"
    return " ".join([line, *words])


_LOCKED: dict[str, tuple[str, Callable[[CommittedFiles], str]]] = {
    "uv.lock": ("uv", _uv),
    "poetry.lock": ("poetry", _poetry),
    "pdm.lock": ("pdm", lambda _found: "pdm install --frozen-lockfile"),
    "Pipfile.lock": ("pipenv", lambda _found: "PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev"),
}
"""By lock file: the program that reads it, and its command for a fresh checkout."""
