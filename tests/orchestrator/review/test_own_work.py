"""A diff holds the work of its lifecycle, and neither hides any of it nor adds that of others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.config.settings import load_settings
from orchestrator.control.open_store import known
from orchestrator.review.own_work import ReviewError
from orchestrator.review.work_diff import DiffWish, WorkReader, diff_form
from runtime.branches import BranchManager
from tests.orchestrator.loopkit import DONE, of_store

if TYPE_CHECKING:
    from lifecycle.store.sqlite.store import SqliteStore
    from tests.orchestrator.loopkit import World


def _writes(name: str, text: str = "x") -> list[object]:
    return [{"run": ["sh", "-c", f"mkdir -p $(dirname {name}); echo {text} >> {name}"]}]


def read(world: World, agent_id: str, wish: DiffWish | None = None) -> Any:
    """Return the diff of a lifecycle in the form of the API."""

    async def ask(store: SqliteStore) -> Any:
        settings = load_settings(world.repo, environ={})
        reader = WorkReader(BranchManager(world.repo), store, lambda: settings)
        record = await known(store, agent_id, world.repo)
        found = await reader.diff(record, wish)
        return diff_form(found, wish.view if wish else "unified")

    return of_store(world.repo, ask)


def _paths(form: Any) -> list[str]:
    return [each["path"] for each in form["files"]]


def test_own_work_leaves_out_what_it_builds_on_and_all_holds_it(world: World) -> None:
    scripts = {
        "P1": [*_writes("p1.txt"), {"commit": "one"}, DONE],
        "P2": [*_writes("p2.txt"), {"commit": "two"}, DONE],
    }
    world.call("up", world.plan_of(scripts, {"P2": {"dependencies": ["P1"]}}), code=None)
    assert _paths(read(world, "P2")) == ["p2.txt"]
    assert "with the work of P1" in read(world, "P2")["against"]
    assert _paths(read(world, "P2", DiffWish(of="all"))) == ["p1.txt", "p2.txt"]
    world.call("accept", "P1", "P2")
    assert _paths(read(world, "P1")) == ["p1.txt"]
    assert _paths(read(world, "P2")) == ["p2.txt"], "it is the same after the merge"


def test_a_merge_of_the_base_is_not_its_work_and_a_merge_of_its_own_branch_is(
    world: World,
) -> None:
    def git(*args: str) -> dict[str, object]:
        return {"run": ["git", *args]}

    based = f"cd {world.repo} && echo b > base.txt && git add base.txt && git commit -qm base"
    script = [
        *_writes("own.txt"), {"commit": "own"},
        {"run": ["sh", "-c", based]},
        git("merge", "-q", "-m", "takes the base in", "main"),
        {"run": ["sh", "-c", based.replace("echo b", "echo later")]},
        git("checkout", "-q", "-b", "aside"),
        *_writes("hidden.txt"), {"commit": "aside"},
        git("checkout", "-q", "-"),
        git("merge", "-q", "--no-ff", "-m", "takes its own in", "aside"),
        DONE,
    ]  # fmt: skip
    world.call("run", "x", "--command", world.script("a", script), code=None)
    assert _paths(read(world, "agent-T001")) == ["hidden.txt", "own.txt"]
    # So say the record, which pages and summaries are made of, and the attempt.
    shown = json.loads(world.call("show", "T001", "--json").stdout)
    assert shown["lifecycle"]["changed_files"] == ["hidden.txt", "own.txt"]


def test_flagged_files_come_first_with_their_reason(world: World) -> None:
    script = [
        *_writes("a.py"), *_writes("tests/test_a.py"), *_writes("uv.lock"),
        *_writes("check.sh", "true"), {"commit": "all"}, DONE,
    ]  # fmt: skip
    world.settings((world.repo / "loopwright.toml").read_text() + 'verify = ["sh ./check.sh"]\n')
    world.call("run", "x", "--command", world.script("a", script), code=None)
    form = read(world, "agent-T001")
    assert [(each["path"], each["flagged"], each["folded"]) for each in form["files"]] == [
        ("check.sh", "the verify command `sh ./check.sh` runs it", ""),
        ("tests/test_a.py", "it is a test", ""),
        ("a.py", "", ""),
        ("uv.lock", "", "a lock file, 1 lines"),
    ]
    alone = read(world, "agent-T001", DiffWish(file="uv.lock"))
    assert alone["files"][0]["hunks"][0]["lines"][0]["text"] == "x"


def test_long_files_are_folded_and_told_by_themselves(world: World) -> None:
    script = [
        {"run": ["sh", "-c", "seq 1 500 > long.txt"]},
        {"run": ["sh", "-c", "head -c 2000000 /dev/zero | tr '\\0' x > wide"]},
        {"commit": "long"}, DONE,
    ]  # fmt: skip
    world.call("run", "x", "--command", world.script("a", script), code=None)
    folded = {each["path"]: each["folded"] for each in read(world, "agent-T001")["files"]}
    assert folded == {"long.txt": "500 lines changed", "wide": "it is 1,953 KiB long"}
    (alone,) = read(world, "agent-T001", DiffWish(file="long.txt"))["files"]
    assert len(alone["hunks"][0]["lines"]) == 500
    (wide,) = read(world, "agent-T001", DiffWish(file="wide"))["files"]
    assert "more characters]" in wide["hunks"][0]["lines"][0]["text"]


def test_what_changed_since_an_attempt_is_told(world: World) -> None:
    steps = {
        "attempts": {
            "1": [*_writes("a.txt"), {"commit": "a"}, {"exit": 1}],
            "default": [*_writes("b.txt"), {"commit": "b"}, DONE],
        }
    }
    world.call("run", "x", "--command", world.script("a", steps), code=None)
    assert _paths(read(world, "agent-T001")) == ["a.txt", "b.txt"]
    assert _paths(read(world, "agent-T001", DiffWish(of="since:1"))) == ["b.txt"]
    with pytest.raises(ReviewError, match="has no attempt 7"):
        read(world, "agent-T001", DiffWish(of="since:7"))
    with pytest.raises(ReviewError, match="did not change 'q'"):
        read(world, "agent-T001", DiffWish(file="q"))


def test_without_commits_it_says_that_there_is_nothing(world: World) -> None:
    world.call("run", "x", "--command", world.script("a", [DONE]), code=None)
    assert read(world, "agent-T001")["files"] == []
