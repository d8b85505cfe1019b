"""A real runner, killed at each of its places, is followed by one that comes to the same end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMITS = {
    "Admitted": 3, "WorkspaceReady": 1, "AgentSpawned": 3, "BreakpointReached": 3,
    "AgentStopped": 3, "BlockersLooked": 1, "CiReported": 1,
    "PullRequestOpened": 1, "PullRequestMoved": 1, "GatesFinished": 1,
}  # fmt: skip
PERFORMS = {
    "PrepareWorkspace": 1, "SpawnAgent": 3, "StopAgent": 3, "TakeSnapshot": 3, "PublishBranch": 3,
    "LookAtBlockers": 1, "OpenPullRequest": 1, "LookAtPullRequest": 1, "RunGates": 1,
}  # fmt: skip
KINDS = {**{f"commit of {name}": n for name, n in COMMITS.items()}, **PERFORMS}
PLACES = tuple(
    f"{when} {kind}#{number}"
    for kind, times in KINDS.items()
    for number in range(1, times + 1)
    for when in ("before", "after")
)
SAME_AS_A_COMMIT = tuple(
    f"{when} {name}#"
    for name in PERFORMS
    for when in ("before", "after")
    if name not in ("PublishBranch", "TakeSnapshot")
)
"""Nothing happens between these and the commit that orders them or tells what came of them."""
KILLED_AT = tuple(
    f"{when} {kind}#{1 + number % times}"
    for number, (kind, times) in enumerate(KINDS.items())
    for when in ("before", "after")
    if not f"{when} {kind}#".startswith(SAME_AS_A_COMMIT)
)
"""Each kind once; `make crash` kills at each place."""
BATCHES = 3
KILLED, DONE = -9, 0
EXPECTED = {
    "work": "Completed",
    "state": "completed",
    "error": None,
    "summary": "done",
    "files": ["x.txt", "y.txt"],
    "attempt": 4,
    "ledger": [[1, "blocked", "waits for CI"], [2, "pr_created", "a pull request"],
               [3, "task_complete", "done"]],
    "orders left": 0,
    "pull requests": 1,
}  # fmt: skip


def _rounds(folder: Path, *places: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, ROOT / "tests/acceptance/runner_program.py", folder, *places],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def wrong(told: dict[str, Any]) -> str:
    """Say what is not as it should be after a round."""
    if told["doubled"]:
        return f"two agents at once: {told['doubled']}"
    if told["left alive"]:
        return f"left alive: {told['left alive']}"
    if told["outcome"] is None:
        return f"no end, codes {told['codes']}"
    picture = json.loads(json.dumps(told["outcome"]))
    result = picture.pop("result")
    ended = (result["result_type"], result["retry_count"])
    # The attempt that was cut short may have got another process.
    as_ever = ended == ("task_complete", 0) and result["spawn_count"] in {3, 4}
    return "" if as_ever and picture == EXPECTED else f"another end: {result} {picture}"


def test_without_a_crash_the_story_passes_every_named_place(tmp_path: Path) -> None:
    [told] = _rounds(tmp_path / "rounds", "")
    assert wrong(told) == ""
    assert told["codes"] == [DONE]
    assert set(PLACES) <= set(told["places"])
    assert len(KILLED_AT) >= 24


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_kill_at_each_place_ends_in_the_same_record(tmp_path: Path, batch: int) -> None:
    places = KILLED_AT[batch::BATCHES]
    rounds = _rounds(tmp_path / "rounds", *places)
    assert [(told["place"], wrong(told)) for told in rounds if wrong(told)] == []
    for told in rounds:
        assert told["codes"] in ([KILLED, DONE], [DONE])
    # What CI says may come before or after the first look; then one of its places is not passed.
    reached = [told for told in rounds if told["codes"] == [KILLED, DONE]]
    assert len(reached) >= len(places) - 2
