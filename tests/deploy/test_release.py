"""A release: one version, a changelog that is cut, and a workflow that keeps no token."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # a tool of the tests alone

from deploy.release import changelog
from orchestrator.version import __version__

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
BEFORE = """# Changelog

## [Unreleased]

### Added

- A thing.

## [0.1.0] - 2026-01-02

- The first.
"""


def test_the_version_stands_in_one_place() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"] == {"path": "orchestrator/version.py"}
    (locked,) = (
        each
        for each in tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
        if each["name"] == "loopwright"
    )
    assert "version" not in locked


def test_what_was_unreleased_belongs_to_the_version_and_nothing_else_changes() -> None:
    after = changelog.cut(BEFORE, "0.2.0", date(2026, 3, 4))
    assert after == BEFORE.replace(
        "## [Unreleased]\n", "## [Unreleased]\n\n## [0.2.0] - 2026-03-04\n"
    )
    assert changelog.notes(after, "Unreleased") == ""
    assert changelog.notes(after, "0.2.0") == "### Added\n\n- A thing."
    assert changelog.notes(after, "0.1.0") == "- The first."


@pytest.mark.parametrize(
    ("text", "version", "said"),
    [
        (BEFORE, "0.1.0", "raise __version__"),
        (BEFORE.replace("### Added\n\n- A thing.\n", ""), "0.2.0", "write what changed"),
        (BEFORE.replace("## [Unreleased]", "## Soon"), "0.2.0", "no section"),
    ],
)
def test_a_changelog_that_cannot_be_cut_is_refused(text: str, version: str, said: str) -> None:
    with pytest.raises(changelog.ChangelogError, match=said):
        changelog.cut(text, version, date(2026, 3, 4))


def test_notes_of_a_version_that_was_not_cut_end_the_release(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert changelog.main(["notes", "9.9.9"]) == 2
    assert "no section [9.9.9]" in capsys.readouterr().err
    assert changelog.main(["notes", "Unreleased"]) == 0
    assert __version__[0].isdigit()


def workflow(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows" / name).read_text("utf-8"))
    return found


def test_only_the_jobs_that_sign_may_sign_and_no_secret_is_named() -> None:
    whole = workflow("release.yml")
    jobs = whole["jobs"]
    assert whole["permissions"] == {"contents": "read"}
    assert {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})} == {
        "attest",
        "publish",
    }
    assert jobs["publish"]["environment"] == "pypi"
    assert [jobs[name].get("needs") for name in ("build", "attest", "publish", "announce")] == [
        None, "build", "attest", "publish",
    ]  # fmt: skip
    text = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    assert "secrets." not in text
    assert "password" not in text


def test_an_image_is_built_from_all_that_a_wheel_is_built_from() -> None:
    let_in = {
        line.removeprefix("!").rstrip("/")
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert let_in >= {*packages, "pyproject.toml", "README.md", "LICENSE"}
    image = (ROOT / "Dockerfile").read_text("utf-8")
    (extras,) = (
        line.partition("=")[2].split(",")
        for line in image.splitlines()
        if line.startswith("ARG EXTRAS=")
    )
    assert {*extras} == {*PROJECT["project"]["optional-dependencies"]}
