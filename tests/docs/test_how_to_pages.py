"""The command blocks of how-to pages run as they stand, in a repository after a night.

Three tasks are done, one of them on top of another, and one asks something. A page that begins
with a repository of its own is named below.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.begun import begun
from tests.docs.page_runner import blocks_of, run_page
from tests.docs.stand_in import asks, found_as_claude, works

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "how-to"
BEGIN_ANEW = {"your-own-agent", "your-own-ci"}
RUN = {
    *BEGIN_ANEW,
    "budgets",
    "drive-it-from-an-agent",
    "notifications",
    "recover",
    "review-and-accept",
}
"""The pages with blocks that are run; what a block may do to this machine is read before."""
STORIES = {
    "T001": {"default": works({"a.txt": "a\n"}, "Write a.txt")},
    "T002": {"1": asks("Blue or green?"), "default": works({"b.txt": "green\n"}, "Green")},
    "T003": {"default": works({"c.txt": "c\n"}, "Write c.txt")},
    "T004": {"default": works({"d.txt": "d\n"}, "Write d.txt")},
}
SETTINGS = """\
adapter = "claude"
verify = ["test -f README.md"]
retry_interval = 0.1
budget_attempts = 10

[[notify]]
name = "phone"
command = "cat > /dev/null"
"""
PLAN = "".join(f'[[tasks]]\nid = "{task}"\n' for task in STORIES).replace(
    'id = "T003"\n', 'id = "T003"\ndependencies = ["T001"]\n'
)


@pytest.mark.timeout(300)
def test_the_how_to_pages_run_as_they_stand(tmp_path: Path) -> None:
    env = found_as_claude(tmp_path, STORIES)
    files = {"README.md": "Hello\n", "loopwright.toml": SETTINGS, "plan.toml": PLAN}
    after_a_night = begun(tmp_path / "repo", files)
    night = ("loopwright", "up", "plan.toml", "--no-stay")
    ended = subprocess.run(night, cwd=after_a_night, env=env, check=False, capture_output=True)
    assert ended.returncode == 3, ended.stderr.decode()
    for name in sorted(RUN):
        repo = begun(tmp_path / name, files) if name in BEGIN_ANEW else after_a_night
        run_page(FOLDER / f"{name}.md", folder=repo, env=env, timeout=120)


def test_each_block_of_a_how_to_page_is_run_or_says_why_not() -> None:
    runs = {page.stem for page in FOLDER.glob("*.md") if any(b.run for b in blocks_of(page))}
    assert runs == RUN, (
        "add a new page to RUN, or put `<!-- needs: docker -->` or `<!-- one of these -->` on the "
        "line above those of its blocks that cannot be run here (tests/docs/page_runner.py)"
    )
