"""Lifecycles go from clone to clone by `export` and `import`, in any state, and go on there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.drive import Drive
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.paths import Paths
from lifecycle.record import (
    Transaction,
)
from lifecycle.store.lock import RunnerLock
from lifecycle.store.transfers import OF_MACHINE
from lifecycle.working_copy import load
from orchestrator.wording.json_schemas import schema
from tests.lifecycle.every_state import EVERY
from tests.orchestrator.cli.schema_check import faults
from tests.orchestrator.loopkit import BLOCK, DONE, PATIENCE, World, of_store, until
from tests.orchestrator.transfer.stored import FIRST, set_at, stored_of

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.machine.events import Event
    from lifecycle.store.sqlite.store import SqliteStore

AT = 1000.0
FACTS: tuple[Event, ...] = (
    on.ResumeRequested(at=AT, by="ada"),
    on.StopRequested(at=AT, by="ada", pause=True),
    on.RejectRequested(at=AT, by="ada"),
    on.AcceptRequested(at=AT, by="ada"),
    on.Answered(at=AT, by="ada", text="Blue."),
    on.Unblocked(at=AT, by="ada"),
    on.RunnerRestarted(at=AT, attempt=1, spawn_id="s"),
    on.AgentExited(at=AT, attempt=1, spawn_id="s", exit_code=1),
)


class Clone(World):
    """Another clone of a world's repository."""

    def __init__(self, world: World) -> None:
        self.folder, self.repo = world.folder, world.folder / "other"
        subprocess.run(["git", "clone", "-q", world.repo, self.repo], check=True)
        shutil.copy(world.repo / "loopwright.toml", self.repo)


@pytest.fixture
def clone(world: World) -> Clone:
    return Clone(world)


async def fill(store: SqliteStore) -> None:
    """Write a lifecycle in each state, with rows in every table around it."""
    for number, (work, *_) in enumerate(EVERY):
        given = stored_of(number, work)
        (row,), (spent,) = given.attempts, given.spendings
        await store.commit(
            Transaction(
                record=given.record,
                journal=given.journal,
                effects=given.pending,
                attempt=row,
                spending=spent,
            )
        )
        for asked in given.requests:
            await store.ask(given.record.agent_id, asked.event)
        for each in given.documents:
            await store.put(each.collection, each.key, each.body)


def exported(world: World, name: str = "all.json") -> dict[str, Any]:
    file = world.folder / name
    world.call("export", "--all", "--output", str(file))
    whole: dict[str, Any] = json.loads(file.read_text())
    assert faults(schema("export"), whole) == []
    return whole


def lasting(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the lifecycles of an export without what each store and machine says for itself."""
    found = []
    for each in sorted(whole["lifecycles"], key=lambda one: str(one["record"]["agent_id"])):
        record = {name: value for name, value in each["record"].items() if name != "cursor"}
        facts = record["facts"]
        record["facts"] = {name: facts[name] for name in facts if name not in OF_MACHINE}
        found.append({**each, "record": record})
    return found


async def decisions(store: SqliteStore) -> dict[str, list[Any]]:
    """Return what is decided in each lifecycle on each fact."""
    found: dict[str, list[Any]] = {}
    async for record in store.every():
        turns = [Drive(await load(store, record)).take(fact, Policy()) for fact in FACTS]
        found[record.agent_id] = [
            (turn.state, turn.refused, [order.effect for order in turn.orders]) for turn in turns
        ]
    return found


def test_every_state_goes_there_and_back_and_decides_the_same(world: World, clone: Clone) -> None:
    of_store(world.repo, fill)
    before, decided = exported(world), of_store(world.repo, decisions)
    file = str(world.folder / "all.json")

    moved = clone.json("import", file)
    assert faults(schema("import"), moved) == []
    assert {each["found"] for each in moved["lifecycles"]} == {"new"}
    there = exported(clone, "there.json")
    assert lasting(there) == lasting(before)
    assert of_store(clone.repo, decisions) == decided
    assert len(decided) == len(EVERY)

    again = clone.json("import", file)
    assert {each["found"] for each in again["lifecycles"]} == {"same"}
    back = world.json("import", str(world.folder / "there.json"))
    assert {each["found"] for each in back["lifecycles"]} == {"same"}
    assert lasting(exported(world)) == lasting(before)
    shutil.rmtree(world.repo / ".loopwright")
    world.json("import", str(world.folder / "there.json"))
    assert lasting(exported(world)) == lasting(before)
    assert of_store(world.repo, decisions) == decided
    assert "whole: 1 entries" in world.call("audit", "verify").stdout


def test_blocked_here_is_unblocked_and_done_in_the_other_clone(world: World, clone: Clone) -> None:
    script = world.script(
        "agent",
        {
            "attempts": {
                "1": [
                    {"write": {"path": "one.txt", "text": "1\n"}},
                    {"commit": "One"},
                    {"write": {"path": "draft.txt", "text": "draft\n"}},
                    BLOCK,
                ],
                "2": [{"write": {"path": "two.txt", "text": "2\n"}}, {"commit": "Two"}, DONE],
            }
        },
    )
    world.call(
        *("run", "Do it", "--task-id", "T001", "--command", script, "--no-stay"),
        *("--verify", "test -f one.txt -a -f two.txt"),
        code=3,
    )
    file = world.folder / "T001.json"
    told = world.call("export", "T001", "-o", str(file), "--with-branches").stderr
    assert f"{file}.bundle" in told
    assert json.loads(file.read_text())["bundle"] == "T001.json.bundle"

    before = world.git("rev-parse", "agent/agent-T001")
    # As people type it: beside the file, of another repository.
    beside = os.path.relpath(file, world.repo)
    assert "goes on here" in world.call("import", beside, "--repo", str(clone.repo)).stdout
    assert clone.git("rev-parse", "agent/agent-T001") == before
    saved = clone.git("for-each-ref", "--format=%(refname)", "refs/loopwright/saved/")
    assert clone.git("show", f"{saved}:draft.txt") == "draft"
    clone.call("unblock", "T001")
    clone.call("up", "--no-server", "--no-stay")
    assert clone.row()["work_kind"] == "Completed"
    assert clone.git("ls-tree", "--name-only", "agent/agent-T001").split() == [
        "README.md", "loopwright.toml", "one.txt", "two.txt",
    ]  # fmt: skip
    assert clone.row()["retry_count"] == world.row()["retry_count"]

    clone.call("export", "T001", "-o", str(file), "--with-branches")
    assert "from where it was there" in world.call("import", str(file)).stdout
    assert world.row()["work_kind"] == "Completed"
    assert (world.workspace() / "two.txt").exists()
    world.call("accept", "T001")
    assert (world.repo / "two.txt").exists()
    acts = of_store(world.repo, lambda store: store.trail.entries(limit=1000))
    assert [each.subject for each in acts if each.action == "import"] == ["agent-T001"]


def test_a_record_that_no_loop_drives_goes_along(world: World, clone: Clone) -> None:
    of_store(world.repo, lambda store: store.create_lifecycle("plain", "Words alone"))
    before = exported(world)
    clone.call("import", str(world.folder / "all.json"))
    assert lasting(exported(clone, "there.json")) == lasting(before)


# --- what is refused ----------------------------------------------------------------------------


@pytest.fixture
def file(world: World) -> Path:
    """Return an export of a repository with a lifecycle in each state."""
    of_store(world.repo, fill)
    exported(world)
    return world.folder / "all.json"


def changed(file: Path, change: Any) -> str:
    """Write another export beside it, changed."""
    whole = json.loads(file.read_text())
    change(whole)
    other = file.with_name("changed.json")
    other.write_text(json.dumps(whole))
    return str(other)


BAD = {
    "in the file": (set_at(*FIRST, "record", "agent_id", to="../../x"), "is not a usable id"),
    "lacking commit": (
        set_at(*FIRST, "refs", to={"refs/heads/agent/agent-19": "1" * 40}),
        "git push origin agent/agent-19",
    ),
    "live": (set_at(*FIRST, "live", to=True), "`loopwright stop agent-19` there"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named_and_nothing_changes(file: Path, clone: Clone, case: str) -> None:
    change, said = BAD[case]
    refused = clone.call("import", changed(file, change), code=2)
    assert said in refused.stderr
    assert clone.row("agent-0") == {}


def test_what_is_here_is_replaced_only_by_what_it_became(file: Path, world: World) -> None:
    older = set_at(*FIRST, "record", "version", to=1)

    async def on_its_way(store: SqliteStore) -> None:
        record = await store.get("agent-19")
        assert record is not None
        await store.update(replace(record, error="tried"))

    of_store(world.repo, on_its_way)
    said = world.call("import", changed(file, older), code=2).stderr
    assert "agent-19 is older in the file (version 1) than here (version 2)" in said
    apart = world.call("import", changed(file, set_at(*FIRST, "record", "version", to=2)), code=2)
    assert "went on both here and where the file comes from" in apart.stderr

    def forked(whole: Any) -> None:
        whole["lifecycles"][0]["record"]["version"] = 9
        whole["lifecycles"][0]["journal"][0]["rule"] = "other"

    assert "went on both" in world.call("import", changed(file, forked), code=2).stderr
    said = world.call("import", changed(file, lambda whole: born_anew(whole, 0)), code=2).stderr
    assert "another lifecycle of agent-19" in said


def born_anew(whole: Any, place: int) -> None:
    """Make one of a file another lifecycle of its agent."""
    whole["lifecycles"][place]["record"]["birth"] = "00000000"
    whole["lifecycles"][place]["pending"] = []


def test_a_later_lifecycle_of_an_agent_follows_the_one_that_is_over(
    file: Path, world: World
) -> None:
    over = next(n for n, (work, *_) in enumerate(EVERY) if type(work).__name__ == "Accepted")
    place = len(EVERY) - 1 - over

    def next_one(whole: Any) -> None:
        whole["lifecycles"] = [whole["lifecycles"][place]]
        born_anew(whole, 0)

    told = world.call("import", changed(file, next_one)).stdout
    assert "the earlier lifecycle of its agent stays on record" in told
    assert len(world.json("show", f"agent-{over}")["earlier"]) == 1


def test_one_that_is_refused_refuses_all(file: Path, clone: Clone) -> None:
    def only(whole: Any) -> None:
        del whole["lifecycles"][1:]
        whole["lifecycles"][0]["record"]["version"] = 5

    clone.call("import", changed(file, only))
    assert "agent-19 is older" in clone.call("import", str(file), code=2).stderr
    assert clone.row("agent-18") == {}


def test_an_import_that_was_cut_off_is_completed_by_the_next(file: Path, clone: Clone) -> None:
    given = changed(file, set_at(*FIRST, "edited", to={"1": "Mine.", "2": "Yours."}))
    clone.call("import", given)
    first, second = (Paths.of(clone.repo).edited("agent-19", number) for number in (1, 2))
    first.unlink()  # as it is where the process was killed after the records were written
    second.write_text("Changed here since.")
    assert "is here already" in clone.call("import", given).stdout
    assert [first.read_text(), second.read_text()] == ["Mine.", "Changed here since."]


def test_a_dry_run_says_what_would_be_and_changes_nothing(file: Path, clone: Clone) -> None:
    done = clone.json("import", str(file), "--dry-run")
    assert done["dry_run"]
    assert len(done["lifecycles"]) == len(EVERY)
    assert not Paths.of(clone.repo).root.exists()


def test_a_live_runner_gets_only_what_it_does_not_have(file: Path, world: World) -> None:
    newer = changed(file, set_at(*FIRST, "record", "version", to=9))
    with RunnerLock(Paths.of(world.repo).root, who="loopwright up"):
        refused = world.call("import", newer, code=2)
        live = str(file.with_name("live.json"))
        told = world.call("export", "agent-4", "--output", live, "--with-branches").stderr
    assert "`loopwright stop agent-4`, then export again" in told
    assert "agent-4 had an agent at work" in world.call("import", live, code=2).stderr
    assert "end that (Ctrl-C" in refused.stderr
    world.call("import", newer)


def test_variables_that_do_not_travel_are_named(
    file: Path, clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "agent-19 needs MODE" in clone.call("import", str(file), "--dry-run").stderr
    clone.settings('pass_env = ["MODE"]\n')
    assert "agent-19 needs MODE" in clone.call("import", str(file), "--dry-run").stderr
    monkeypatch.setenv("MODE", "y")
    assert "needs MODE" not in clone.call("import", str(file), "--dry-run").stderr
    clone.call("import", str(file))

    async def env_of(store: SqliteStore) -> Any:
        record = await store.get("agent-19")
        return record and record.facts["agent"]["env"]

    assert of_store(clone.repo, env_of) == {"MODE": "***given by environment or plan***"}


def test_tasks_that_are_waited_for_and_lacking_are_named(file: Path, clone: Clone) -> None:
    waits = set_at(*FIRST, "record", "facts", "task", "dependencies", to=["T900", "T1"])
    told = clone.call("import", changed(file, waits)).stderr
    assert "agent-19 depends on T900, which is neither in the file nor here" in told
    assert "T1," not in told


def test_what_was_asked_and_done_elsewhere_is_not_done_again(file: Path, world: World) -> None:
    asked = json.loads(file.read_text())["lifecycles"][0]["requests"][0]

    def carried_out(whole: Any) -> None:
        given = whole["lifecycles"][0]
        entry = {**given["journal"][0], "seq": 2, "event": asked["event"]}
        given["record"]["version"] = 2
        given["journal"].append(entry)
        given["requests"] = []

    world.call("import", changed(file, carried_out))
    left = of_store(world.repo, lambda store: store.requests())
    assert "agent-19" not in {each.agent_id for each in left}
    assert len(left) == len(EVERY) - 1


def test_a_live_runner_takes_up_what_is_new_to_it(world: World, clone: Clone) -> None:
    script = world.script("agent", [{"write": "a.txt"}, {"commit": "A"}, DONE])
    world.call("add", "Do it", "--command", script)
    file = str(world.folder / "added.json")
    world.call("export", "--all", "--output", file)
    (agent_id,) = (each["agent_id"] for each in world.json("ps")["lifecycles"])
    with clone.live("serve", "--port", "0") as server:
        until(lambda: "sign in" in server.out, lambda: server.err)
        clone.call("import", file)
        clone.comes_to("Completed", agent_id)
    logged = (clone.repo / ".loopwright" / "runner.log").read_text()
    assert '"operation": "import_agent"' in logged.replace('":"', '": "')


def test_an_attempt_whose_runner_was_killed_begins_again_in_the_other_clone(
    world: World, clone: Clone
) -> None:
    mark, began = world.folder / "mark", world.folder / "began"
    waits = f"touch {began}; while ! test -e {mark}; do sleep 0.05; done"
    script = world.script(
        "agent", [{"run": ["sh", "-c", waits]}, {"write": "a.txt"}, {"commit": "A"}, DONE]
    )
    with world.live("run", "Do it", "--task-id", "T001", "--command", script) as runner:
        until(began.exists, lambda: runner.err)
        world.comes_to("Working")
        runner.signal(signal.SIGKILL)
        runner.process.wait(PATIENCE)
    file = str(world.folder / "killed.json")
    world.call("export", "T001", "--output", file, "--with-branches")
    moved = clone.json("import", file)["lifecycles"]
    assert [each["state"] for each in moved] == ["stopped"]
    mark.touch()
    clone.call("up", "--no-server", "--no-stay")
    row = clone.row()
    assert row["work_kind"] == "Completed"
    assert [each["attempt"] for each in clone.json("show", "T001")["attempts"]] == [1]
    assert (row["retry_count"], row["spawn_count"]) == (0, 2)
