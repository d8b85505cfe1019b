"""`ps --needs-me` and `ps --watch`: what needs a person, and the list as it changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING

from orchestrator.wording.json_schemas import schema
from tests.orchestrator.cli.schema_check import faults
from tests.orchestrator.loopkit import ASK, BIN, BLOCK, DONE, SETTINGS
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.orchestrator.filled import Cli
    from tests.orchestrator.loopkit import World

ON_K1 = {"type": "blocked", "reason": "needs it", "blocked_on": ["K1"]}


def test_what_needs_a_person_is_listed_with_what_to_type(filled: Cli) -> None:
    lines = filled("ps", "--needs-me").splitlines()
    agents = {line.split()[0] for line in lines[1:] if not line.startswith(" ")}
    assert agents == {"agent-T001", "agent-T002", "agent-T003", "agent-T005"}
    typed = {line.strip() for line in lines if line.startswith("    loopwright ")}
    assert {
        "loopwright answer agent-T001 TEXT",
        "loopwright accept agent-T002",
        "loopwright unblock agent-T003",
        "loopwright show agent-T005 --why",
    } <= typed


def test_programs_get_what_to_type_of_each_lifecycle(filled: Cli) -> None:
    value = json.loads(filled("ps", "--needs-me", "--json"))
    assert faults(schema("ps"), value) == []
    commands = {row["agent_id"]: row["commands"] for row in value["lifecycles"]}
    assert commands["agent-T001"] == ["loopwright answer agent-T001 TEXT"]
    every = json.loads(filled("ps", "--json"))["lifecycles"]
    assert not next(row for row in every if row["agent_id"] == "agent-T004")["commands"]


def test_where_nothing_needs_a_person_that_is_said(filled: Cli) -> None:
    assert filled("ps", "--needs-me", "--state", "queued") == "Nothing needs you.\n"


def test_a_watched_list_is_not_for_programs(filled: Cli) -> None:
    filled("ps", "--watch", "--json")
    assert filled.code == 2


def test_a_watched_list_is_told_again_as_states_change_and_ends_cleanly(world: World) -> None:
    world.settings(SETTINGS + "baseline = false\n")
    work = [{"write": {"path": "a", "text": "a"}}, {"commit": "a"}, DONE]
    for name, script in (("T1", [ASK]), ("T2", work)):
        agent = world.script(name, script)
        world.call("run", "x", "--task-id", name, "--no-stay", "--command", agent, code=None)
    with subprocess.Popen(
        [BIN / "loopwright", "ps", "--watch", "--needs-me"],
        cwd=world.repo, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        told = list[str]()
        assert process.stdout is not None
        reader = threading.Thread(target=lambda: told.extend(process.stdout or ()))
        reader.start()
        wait_until(lambda: any("answer agent-T1" in line for line in told), "the list is told")
        seen = len(told)
        world.call("reject", "T2")
        wait_until(lambda: len(told) > seen, "the list is told again")
        assert not [line for line in told[seen:] if "agent-T2" in line]
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        reader.join()
        assert process.stderr is not None
        assert not process.stderr.read()
    assert "\x1b" not in "".join(told)


def test_what_only_a_person_can_unblock_needs_one_and_what_others_bring_does_not(
    world: World,
) -> None:
    scripts: dict[str, object] = {"K1": [BLOCK], "K2": [{"breakpoint": ON_K1}]}
    world.call("up", "--no-stay", world.plan_of(scripts), code=None)
    rows = world.json("ps", "--needs-me")["lifecycles"]
    assert [row["agent_id"] for row in rows] == ["agent-K1"]
    assert rows[0]["commands"][0] == "loopwright unblock agent-K1"
    told = world.call("ps", "--needs-me")
    assert "Next: loopwright review" in told.stderr
