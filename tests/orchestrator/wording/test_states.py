"""One spelling of states: every command, list and document names a lifecycle in the same word."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine.states import PrPending, Queued, Signal
from lifecycle.paths import Paths
from lifecycle.record import AgentLifecycle
from lifecycle.state_words import RECORD_STATES, spelled
from lifecycle.store.lock import RunnerLock
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.control.commands import OperatorCommand
from orchestrator.wording.json_schemas import schema
from tests.lifecycle.every_state import EVERY
from tests.orchestrator.cli.schema_check import faults
from tests.orchestrator.loopkit import ASK, BLOCK, DONE, SETTINGS

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

SLEEPS = [{"sleep": 60}]


@pytest.fixture
def each(world: World) -> dict[str, tuple[str, str]]:
    """Fill a repository with one lifecycle in each state; returns their words by agent."""
    paths = Paths.of(world.repo)
    paths.root.mkdir(mode=0o700)

    async def fill() -> None:
        async with await SqliteStore.open(paths.database) as store:
            for number, (state, _, _) in enumerate(EVERY):
                record = AgentLifecycle(
                    agent_id=f"a{number}", task_id=f"T{number}", task="x", work=state
                )
                record.derive()
                await store.create(record)

    asyncio.run(fill())
    return {f"a{number}": (word, alone) for number, (_, word, alone) in enumerate(EVERY)}


def listed(world: World, *args: str) -> dict[str, str]:
    rows = world.json("ps", "--all", *args)["lifecycles"]
    return {row["agent_id"]: row["state"] for row in rows}


def told(text: str) -> dict[str, str]:
    """Read the states out of the table that `ps` prints."""
    head, *lines = text.splitlines()
    start, end = head.index("STATE"), head.index("ATTEMPT")
    return {line.split()[0]: line[start:end].strip() for line in lines}


@pytest.mark.parametrize("runs", [True, False])
def test_each_state_has_its_word_in_every_list_and_document(
    world: World, each: dict[str, tuple[str, str]], *, runs: bool
) -> None:
    wanted = {agent: words[not runs] for agent, words in each.items()}
    lock = RunnerLock(Paths.of(world.repo).root, who="loopwright up")
    with lock if runs else nullcontext():
        assert listed(world) == {agent: spelled(word) for agent, word in wanted.items()}
        assert told(world.call("ps", "--all").stdout) == wanted
        for agent, word in wanted.items():
            text = world.call("show", agent).stdout
            assert re.search(rf"^state +{word} for ", text, re.MULTILINE)
            shown = world.json("show", agent)["lifecycle"]
            assert shown["state"] == spelled(word)
            assert shown["record_state"] in RECORD_STATES[word]
            why = world.call("show", agent, "--why").stdout.lower()
            assert why.startswith(word), why
        exported = json.loads(world.call("export", "--all").stdout)
        assert faults(schema("export"), exported) == []
        assert {
            one["record"]["agent_id"]: one["record"]["state"] for one in exported["lifecycles"]
        } == {agent: spelled(word) for agent, word in wanted.items()}


def test_the_filter_takes_what_ps_prints_and_finds_exactly_that(
    world: World, each: dict[str, tuple[str, str]]
) -> None:
    alone = {agent: words[1] for agent, words in each.items()}
    for word in RECORD_STATES:
        wanted = {agent for agent, is_ in alone.items() if is_ == word}
        for spelling in (word, spelled(word), word.upper(), word.replace(" ", "_")):
            assert set(world.call("ps", "--state", spelling, "--ids").stdout.split()) == wanted


@pytest.mark.parametrize("word", ["running", "completed", "awaiting_human", "happy"])
def test_an_unknown_state_is_refused_with_the_list(world: World, word: str) -> None:
    told = world.call("ps", "--state", word, code=2).stderr
    assert word in told
    assert all(spelled(each) in told for each in RECORD_STATES)


def test_a_page_of_a_state_that_is_rare_goes_on_to_the_last(
    world: World, each: dict[str, tuple[str, str]]
) -> None:
    stopped = {agent for agent, words in each.items() if words[1] == "stopped"}
    seen: list[str] = []
    more: tuple[str, ...] = ()
    for _ in range(len(stopped)):
        page = world.json("ps", "--state", "stopped", "--limit", "2", *more)
        seen += [row["agent_id"] for row in page["lifecycles"]]
        if page["next_cursor"] is None:
            break
        more = ("--cursor", str(page["next_cursor"]))
    assert len(seen) == len(stopped)
    assert set(seen) == stopped


def test_without_a_runner_what_had_begun_is_stopped_and_says_how_it_goes_on(
    world: World, each: dict[str, tuple[str, str]]
) -> None:
    rows = {row["agent_id"]: row for row in world.json("ps", "--all")["lifecycles"]}
    for agent, (word, alone) in each.items():
        if word != alone:
            assert rows[agent]["waiting_for"].startswith("`loopwright up`, which continues it")
    blocked = next(row for row in rows.values() if row["work_state"] == "Blocked")
    assert blocked["waiting_for"].endswith("; then a key")
    assert rows["a0"]["waiting_for"] == "`loopwright up`, which starts it"
    assert rows["a1"]["waiting_for"] == "T9"
    assert isinstance(EVERY[0][0], Queued)


def test_a_pause_reads_paused_and_a_stop_reads_stopped_whatever_was_under_way(
    world: World,
) -> None:
    world.settings(SETTINGS + "baseline = false\n")
    sleeps, asks, blocks = (
        world.script(name, steps)
        for name, steps in (("sleeps", SLEEPS), ("asks", [ASK]), ("blocks", [BLOCK]))
    )
    for name, command in (("P", sleeps), ("S", sleeps), ("Q", asks), ("B", blocks)):
        world.call("add", name, "--name", name, "--command", command)
    with world.live("up", "--no-server", "--plain") as up:
        for name, kind in (("P", "Working"), ("S", "Working"), ("Q", "AwaitingHuman")):
            world.comes_to(kind, name)
        world.comes_to("Blocked", "B")
        assert listed(world) == {
            "P": "working", "S": "working", "Q": "needs-you", "B": "waiting"
        }  # fmt: skip
        assert world.json("pause", "P", "--now")["state"] == "paused"
        assert "frozen" in world.call("ps").stdout
        assert world.json("stop", "B")["state"] == "stopped"
        assert world.json("pause", "Q")["state"] == "paused"
        world.call("stop", "S")
        world.comes_to("Suspended", "S")
        assert listed(world) == {"P": "paused", "S": "stopped", "Q": "paused", "B": "stopped"}
        assert "B: stopped by " in up.err
        assert "Q: paused by " in up.err
        assert "P: frozen by " in up.err
        up.signal(signal.SIGINT)
        up.ends(130)
    assert listed(world) == {"P": "paused", "S": "stopped", "Q": "paused", "B": "stopped"}


def test_after_ctrl_c_the_list_and_the_final_table_read_stopped(world: World) -> None:
    agent = world.script("agent", SLEEPS)
    with world.live("run", "x", "--command", agent) as runner:
        world.comes_to("Working")
        runner.signal(signal.SIGINT)
        out = runner.ends(130)
    assert "agent-T001  T001  stopped" in out
    assert "`loopwright up`, which continues it" in out
    assert listed(world) == {"agent-T001": "stopped"}
    assert "Stopped: no runner is alive" in world.call("show", "T001", "--why").stdout


def test_given_up_is_one_word_from_the_log_to_the_list_and_no_rejection(world: World) -> None:
    agent = world.script("agent", [{"exit": 3}])
    done = world.call("run", "x", "--command", agent, "--max-retries", "0", code=5)
    assert "given up (max_retries): " in done.stderr
    assert "agent-T001  T001  given up" in done.stdout
    assert "Next: loopwright show agent-T001 --why   (then: loopwright resume)" in done.stdout
    assert listed(world) == {"agent-T001": "given-up"}
    assert "rejected" not in done.stdout + done.stderr + world.call("show", "T001").stdout


def test_what_was_given_up_and_is_then_rejected_by_a_person_reads_rejected(world: World) -> None:
    agent = world.script("agent", [{"exit": 3}])
    world.call("run", "x", "--command", agent, "--max-retries", "0", code=5)
    began = time.monotonic()
    world.call("reject", "T001", "--why", "not wanted any more", "--by", "ada")
    assert time.monotonic() - began < OperatorCommand(verb="reject", agent_id="").wait_s, (
        "nothing is left to be waited for"
    )
    (row,) = world.json("ps", "--all")["lifecycles"]
    assert (row["state"], row["record_state"]) == ("rejected", "rejected")
    assert "rejected by ada: not wanted any more; it was given up before: " in row["error"]
    assert world.json("ps")["lifecycles"] == []
    assert "was rejected before" in world.call("reject", "T001").stdout
    assert "stays rejected" in world.call("resume", "T001", code=2).stderr


def test_what_people_did_while_up_ran_is_what_its_final_table_and_log_tell(world: World) -> None:
    world.settings(SETTINGS + "baseline = false\n")
    for name in ("A", "R"):
        script = [{"write": {"path": f"{name}.txt", "text": name}}, {"commit": name}, DONE]
        world.call("add", name, "--name", name, "--command", world.script(name, script))
    world.call("add", "Q", "--name", "Q", "--command", world.script("asks", [ASK]))
    with world.live("up", "--no-server", "--plain") as up:
        world.comes_to("Completed", "A")
        world.comes_to("Completed", "R")
        world.comes_to("AwaitingHuman", "Q")
        world.call("accept", "A")
        world.call("reject", "R", "--why", "nope")
        up.signal(signal.SIGINT)
        out = up.ends(130)
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "accepted" in rows["A"]
    assert "rejected" in rows["R"]
    assert rows["R"].endswith("nope")
    assert "needs you" in rows["Q"]
    nexts = [line for line in out.splitlines() if line.startswith("Next:")]
    assert nexts == ["Next: loopwright show Q --why   (or: answer)"]
    assert "A: a merge is asked for by " in up.err
    assert "A: accepted: merged as " in up.err
    assert "A: accepted by" not in up.err


def test_a_merge_that_is_refused_is_never_told_as_accepted(world: World) -> None:
    script = [{"write": {"path": "README.md", "text": "theirs"}}, {"commit": "x"}, DONE]
    world.call("add", "A", "--name", "A", "--command", world.script("agent", script))
    world.call("add", "Q", "--name", "Q", "--command", world.script("asks", [ASK]))
    with world.live("up", "--no-server", "--plain") as up:
        world.comes_to("Completed", "A")
        world.comes_to("AwaitingHuman", "Q")
        (world.repo / "README.md").write_text("mine\n")
        world.call("accept", "A", code=None)
        up.says("not merged: ")
        assert "accepted" not in up.err
        (row,) = world.json("ps", "--state", "done")["lifecycles"]
        assert row["waiting_for"].startswith("you; not merged: ")


def test_why_a_forge_cannot_be_asked_is_told_by_ps_as_long_as_a_runner_asks(world: World) -> None:
    paths, reason = Paths.of(world.repo), "gitea.example: the token was refused; set a new one"
    paths.root.mkdir(mode=0o700)
    word = Signal(type="pr_created", summary="")
    work = PrPending(since=1.0, until=9e9, word=word, url="https://x/7", number=7)

    async def fill() -> None:
        async with await SqliteStore.open(paths.database) as store:
            record = AgentLifecycle(agent_id="a1", task_id="T1", task="x", work=work)
            record.derive()
            await store.create(record)
            noted = {"place": "gitea", "text": reason, "trouble": True, "since": 1.0}
            await store.put("ci.waits", "a1", noted)

    asyncio.run(fill())
    with RunnerLock(paths.root, who="loopwright up"):
        (row,) = world.json("ps")["lifecycles"]
    assert row["waiting_for"] == f"the merge of https://x/7; {reason}"
    (row,) = world.json("ps")["lifecycles"]
    assert reason not in row["waiting_for"]
