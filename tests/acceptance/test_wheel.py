"""What people install: the wheel holds all it needs and nothing else, and its loops run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.begun import begun
from tests.orchestrator.loopkit import DONE

if TYPE_CHECKING:
    from tests.acceptance.installed_wheel import Installed

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("lifecycle", "runtime", "ci", "communication", "templates", "orchestrator")
WHERE = "import json, {0}; print(json.dumps([m.__file__ for m in ({0},)]))"


def test_the_wheel_holds_the_six_packages_with_their_data_and_no_tests(
    installed: Installed,
) -> None:
    there = (path for path in installed.site.iterdir() if path.suffix not in (".dist-info", ".pth"))
    top = {path.name for path in there}
    assert top == set(PACKAGES)
    for package in PACKAGES:
        assert (installed.site / package / "py.typed").is_file()
    for pattern in ("*.j2", "*.sql"):
        ours = {
            path.relative_to(ROOT) for each in PACKAGES for path in (ROOT / each).rglob(pattern)
        }
        assert ours
        assert all((installed.site / path).is_file() for path in ours)


def test_a_loop_of_the_installed_wheel_comes_to_its_end(
    installed: Installed, tmp_path: Path
) -> None:
    where = installed.run("-c", WHERE.format(", ".join(PACKAGES)), cwd=tmp_path)
    assert all(Path(file).is_relative_to(installed.site) for file in json.loads(where.stdout))
    repo, script = begun(tmp_path / "repo", {"a.txt": "a\n"}), tmp_path / "script.json"
    script.write_text(json.dumps([DONE]))
    agent = f"{installed.python} -P -m runtime.agents.scripted {script}"
    shown = installed.run(
        "-m", "orchestrator.cli.main", "run", "Work", "--command", agent, cwd=repo
    )
    assert shown.returncode == 0, shown.stderr
    assert "attempt 1 says task_complete" in shown.stderr
