"""Which files decide what the set-up makes, and when two commits need the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.setup.facts import GitSetupFacts
from runtime.setup.globs import matches, refusal
from runtime.setup.inputs import Tree, digest, inputs_of
from tests.lifecycle.world import git

if TYPE_CHECKING:
    from pathlib import Path


def tree(*paths: str, **changed: bytes) -> Tree:
    return Tree("c", {path: changed.get(path, b"100644 blob 1") for path in paths})


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        ("uv.lock pyproject.toml requirements.txt src/app.py", "pyproject.toml uv.lock"),
        ("pyproject.toml setup.cfg requirements-dev.txt a.py",
         "pyproject.toml requirements-dev.txt setup.cfg"),
        ("package-lock.json package.json packages/a/package.json node_modules/b/package.json",
         "package-lock.json package.json packages/a/package.json"),
        ("web/yarn.lock web/package.json tools/package.json",
         "tools/package.json web/package.json web/yarn.lock"),
        ("uv.lock pyproject.toml web/package.json", "pyproject.toml uv.lock web/package.json"),
        ("go.sum go.mod tools/go.mod .tool-versions", ".tool-versions go.sum"),
        ("Cargo.toml crates/a/Cargo.toml vendor/b/Cargo.toml", "Cargo.toml crates/a/Cargo.toml"),
        ("a.py README.md", ""),
    ],
)  # fmt: skip
def test_lock_files_count_and_manifests_of_which_none_says_all(files: str, chosen: str) -> None:
    assert " ".join(inputs_of(tree(*files.split()), ["install"], ())) == chosen


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("sh ./scripts/setup.sh --fast", "scripts/setup.sh"),
        ("pip install -r deps/dev.txt && true", "deps/dev.txt"),
        ("make deps", "Makefile"),
        ('tool "--config=conf.yml"', "conf.yml"),
    ],
)
def test_what_a_command_names_counts_too(command: str, file: str) -> None:
    found = tree("scripts/setup.sh", "deps/dev.txt", "Makefile", "conf.yml", "uv.lock")
    assert set(inputs_of(found, [command], ())) == {file, "uv.lock"}


def test_who_names_the_inputs_gets_those() -> None:
    found = tree("uv.lock", "schema/a.sql", "schema/deep/b.sql", "c.sql")
    assert inputs_of(found, ["install"], ["schema/**"]) == ("schema/a.sql", "schema/deep/b.sql")
    assert inputs_of(found, ["install"], ["*.sql"]) == (
        "c.sql",
        "schema/a.sql",
        "schema/deep/b.sql",
    )


def test_the_digest_tells_of_content_commands_and_nothing_else() -> None:
    before = tree("uv.lock", "a.py")
    same = tree("uv.lock", "b.py")
    other = Tree("c", {"uv.lock": b"100644 blob 2"})
    key = digest(before, ("uv.lock",), ["uv sync"])
    assert digest(same, ("uv.lock",), ["uv sync"]) == key
    assert digest(other, ("uv.lock",), ["uv sync"]) != key
    assert digest(before, ("uv.lock",), ["uv sync --all"]) != key


def test_patterns_mean_what_they_mean_in_a_shell() -> None:
    path = "a/b/x.lock"
    fitting = ["*.lock", "**/x.lock", "a/**", "a/?/x.lock", "./a/b/x.lock", "a/b/x.lock"]
    assert [pattern for pattern in fitting if not matches(path, pattern)] == []
    assert not any(matches(path, pattern) for pattern in ("a/*.lock", "x.loc", "b/x.lock", "a/b"))


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../x", "a/../../x", "", "a\0b"])
def test_a_pattern_that_leads_out_of_the_checkout_is_refused(pattern: str) -> None:
    assert "not a path inside the repository" in refusal(pattern)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("**.env", "stand alone between slashes; write '**/*.env'"),
        ("conf/a**/x", "stand alone between slashes"),
        (".", "names the whole repository"),
        ("./", "names the whole repository"),
    ],
)
def test_a_pattern_that_names_nothing_in_the_checkout_is_refused(pattern: str, says: str) -> None:
    assert says in refusal(pattern)
    assert refusal("**/*.env") == refusal("conf/**") == refusal("./a*") == ""


async def test_a_commit_is_asked_and_not_the_files(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "uv.lock").write_text("1")
    git(tmp_path, "add", ".")
    who = ("-c", "user.name=A", "-c", "user.email=a@b")
    git(tmp_path, *who, "commit", "-qm", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    facts = GitSetupFacts(tmp_path)
    before = await facts.tree(head)
    (tmp_path / "uv.lock").write_text("2")
    (tmp_path / ".git" / "index").unlink()
    assert (await GitSetupFacts(tmp_path).tree(head)).files == before.files
    assert inputs_of(before, ["uv sync"], ()) == ("uv.lock",)
