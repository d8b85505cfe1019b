"""`plan`: an agent drafts, the draft is checked, and nothing is written without a yes."""

from __future__ import annotations

import os
import signal
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.drafting.draft_task import AGENT, FILE
from tests.orchestrator.loopkit import ASK, BLOCK, DONE, until
from tests.orchestrator.ptykit import Terminal
from tests.orchestrator.web.browser import programs

if TYPE_CHECKING:
    import pytest

    from tests.orchestrator.loopkit import World

GOOD = """\
name = "greeting"

[[tasks]]
id = "T001"
title = "Say hello"
verify = ["test -f README.md"]

[[tasks]]
id = "T002"
title = "Say goodbye"
dependencies = ["T001"]
"""
CYCLE = GOOD.replace('title = "Say hello"', 'title = "Say hello"\ndependencies = ["T002"]')


def drafts(text: str, *more: dict[str, Any]) -> list[dict[str, Any]]:
    return [*more, {"write": {"path": FILE, "text": text}}, {"commit": "draft"}, DONE]


def test_a_good_draft_is_written_with_yes_and_runs_as_a_plan(world: World) -> None:
    prompt = {"read_prompt": str(world.folder / "prompt")}
    agent = world.script("good", drafts(GOOD, prompt, {"write": {"path": "more.txt", "text": "x"}}))
    done = world.call("plan", "Be polite", "--command", agent, "--yes")
    assert (world.repo / "plan.toml").read_text() == GOOD
    assert "T001  Say hello    -\nT002  Say goodbye  T001\n" in done.stdout
    assert "Written to plan.toml: 2 tasks. Next: set `adapter` or `command`" in done.stdout
    assert "Used: 1 draft in" in done.stderr
    assert "Be polite" in (world.folder / "prompt").read_text()
    assert world.git("status", "--porcelain") == "?? plan.toml"
    assert not world.workspace(AGENT).exists()
    assert [branch for branch in world.branches() if branch != "main"] == []
    assert world.row(AGENT)["work_kind"] == "Rejected"
    assert world.json("costs")["total"]["attempts"] == 1


def one_after_the_other(world: World, *texts: str) -> str:
    """Return the command of an agent that commits the next of these drafts each time."""
    (world.folder / "prompts").mkdir()
    for number, text in enumerate(texts, 1):
        (world.folder / f"draft{number}").write_text(text)
    count = f"n=$(($(ls {world.folder}/prompts | wc -l) + 1)); "
    turn = f"{count} cat > {world.folder}/prompts/$n; cp {world.folder}/draft$n {FILE}"
    steps = [{"run": ["sh", "-c", turn]}, {"commit": "draft"}, DONE]
    return world.script("turns", steps)


def prompt(world: World, number: int) -> str:
    return (world.folder / "prompts" / str(number)).read_text()


def test_a_draft_with_a_cycle_is_drafted_again_with_what_was_wrong(world: World) -> None:
    agent = one_after_the_other(world, CYCLE, GOOD)
    done = world.call("plan", "Be polite", "--command", agent, "--yes")
    assert "draft 1 of 5: plan.draft.toml" in done.stderr
    assert "cycle" in done.stderr
    assert "former draft" not in prompt(world, 1)
    assert CYCLE.strip() in prompt(world, 2)
    assert "What is wrong with it:\n\n- plan.draft.toml" in prompt(world, 2)
    assert (world.repo / "plan.toml").read_text() == GOOD
    assert "Used: 2 drafts in" in done.stderr


def test_drafts_that_stay_wrong_end_after_so_many_rounds(world: World) -> None:
    absent = GOOD.replace("test -f README.md", "no-such-tool --all")
    agent = one_after_the_other(world, GOOD + "[agents.x]\ncommand = ['rm']\n", absent)
    done = world.call("plan", "x", "--command", agent, "--yes", "--rounds", "2", code=6)
    assert "`agents` is not for a draft" in done.stderr
    assert "verify `no-such-tool --all`: no-such-tool is not there" in done.stderr
    assert "none of 2 drafts can be run" in done.stderr
    assert not (world.repo / "plan.toml").exists()


def test_what_is_no_draft_ends_with_its_reason_and_leaves_nothing(world: World) -> None:
    outside = world.folder / "outside.toml"
    outside.write_text(GOOD)
    out, link = ({"run": ["ln", "-s", to, FILE]} for to in (str(outside), "README.md"))
    for name, steps, code, told in (
        ("nothing", [DONE], 6, f"no draft: gate_failed: `test -s {FILE}` ended with code 1"),
        ("outside", [out, {"commit": "x"}, DONE], 6, "no draft: gate_failed"),
        ("link", [link, {"commit": "x"}, DONE], 6, "no plain file"),
        ("blocked", [BLOCK], 3, "the agent is blocked: no key"),
        ("asks", [ASK], 3, "the agent asks: Blue or green?"),
        ("crash", [{"exit": 3}], 6, "code 3"),
    ):
        agent = world.script(name, steps)
        done = world.call("plan", "x", "--command", agent, "--yes", "--rounds", "1", code=code)
        assert told in done.stderr, name
        assert world.git("status", "--porcelain") == "", name
        assert not world.workspace(AGENT).exists(), name
        assert world.row(AGENT)["work_kind"] == "Rejected", name


def test_an_agent_that_hangs_is_ended_after_the_timeout(world: World) -> None:
    pid = world.folder / "pid"
    hangs = [{"run": ["sh", "-c", f"echo $PPID > {pid}"]}, {"hang": {}}]
    agent = world.script("hangs", hangs)
    done = world.call("plan", "x", "--command", agent, "--yes", "--timeout", "1.5", code=5)
    assert "took longer than 1 s (--timeout)" in done.stderr
    assert not _lives(int(pid.read_text()))
    assert world.row(AGENT)["work_kind"] == "Rejected"


def _lives(pid: int) -> bool:
    """Tell whether a process works; one that nobody has waited for yet does not."""
    try:
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")
    except FileNotFoundError:
        return False


def test_of_a_killed_command_nothing_lives_and_up_leaves_its_draft_alone(world: World) -> None:
    pid = world.folder / "pid"
    hangs = [{"run": ["sh", "-c", f"echo $PPID > {pid}"]}, {"hang": {}}]
    with world.live("plan", "x", "--command", world.script("hangs", hangs), "--yes") as live:
        until(lambda: pid.exists() and pid.read_text().strip(), "the agent is there")
        live.process.send_signal(signal.SIGKILL)
        live.process.wait(20)
    until(lambda: not _lives(int(pid.read_text())), "its agent has ended")
    done = world.call("up", "--no-stay", "--no-server")
    assert "a draft of a plan was not finished" in done.stderr
    assert world.row(AGENT)["work_kind"] != "Completed"
    agent = world.script("good", drafts(GOOD))
    world.call("plan", "Be polite", "--command", agent, "--yes")
    assert tomllib.loads((world.repo / "plan.toml").read_text())["name"] == "greeting"


def test_json_prints_the_draft_and_writes_nothing(world: World) -> None:
    agent = world.script("good", drafts(GOOD))
    told = world.json("plan", "Be polite", "--command", agent)
    assert [task["id"] for task in told["plan"]["tasks"]] == ["T001", "T002"]
    assert (told["problems"], told["written_to"], told["drafts"]) == ([], None, 1)
    assert told["used"]["attempts"] == 1
    assert not (world.repo / "plan.toml").exists()


def test_what_cannot_be_written_is_refused_before_an_agent_starts(world: World) -> None:
    (world.repo / "plan.toml").write_text("mine")
    agent = world.script("good", drafts(GOOD))
    for more, told in (
        (("--yes",), "plan.toml exists; name another file"),
        (("--output", "plan.json"), "a plan is written as a .toml file"),
        (("--output", "no/plan.toml"), "there is no folder"),
    ):
        done = world.call("plan", "x", "--command", agent, *more, code=2)
        assert told in done.stderr
    assert "say what is to be reached" in world.call("plan", " ", code=2).stderr
    assert (world.repo / "plan.toml").read_text() == "mine"
    assert world.row(AGENT) == {}


def test_a_person_guides_edits_and_writes_on_a_terminal(world: World) -> None:
    agent = one_after_the_other(world, GOOD, GOOD.replace("goodbye", "farewell"))
    (world.repo / "plan.toml").write_text("old")
    editor = world.folder / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/Say hello/Say good day/" "$1"\n')
    editor.chmod(0o700)
    words = ("plan", "Be polite", "--command", agent)
    with Terminal(world.repo, *words, EDITOR=str(editor), VISUAL="", NO_COLOR="1") as person:
        person.shows("[y] write it  [e] edit  [g] another draft  [n] leave it")
        assert "T002  Say goodbye  T001" in person.text
        person.press("g")
        person.press("Say farewell\n", "different? ")
        person.shows("T002  Say farewell  T001")
        assert max(map(len, person.text.splitlines())) <= 80
        person.press("e")
        person.shows("T001  Say good day  -")
        person.press("y")
        person.shows("plan.toml exists. Replace it?")
        person.press("y")
        assert "Written to plan.toml: 2 tasks" in person.ends(0)
    text = (world.repo / "plan.toml").read_text()
    assert "Say good day" in text
    assert "Say farewell" in text
    assert "- Say farewell" in prompt(world, 2)


def test_a_question_of_the_agent_is_answered_and_a_draft_may_be_left(world: World) -> None:
    asked = world.folder / "asked"
    asks = f"touch {asked}; loopwright signal question --question Why?; exit 9"
    first = f"test -e {asked} || {{ {asks}; }}"
    steps = [{"run": ["sh", "-c", first]}, *drafts(GOOD)]
    words = ("plan", "Be polite", "--command", world.script("asks", steps))
    with Terminal(world.repo, *words, NO_COLOR="1") as person:
        person.shows("The agent asks: Why?")
        person.press("Because\n", "no plan): ")
        person.press("n")
        assert ".loopwright/drafts/plan.draft.toml" in "".join(person.ends(3).split())
    assert not (world.repo / "plan.toml").exists()
    assert (world.repo / ".loopwright" / "drafts" / FILE).read_text() == GOOD


def test_an_agent_at_its_usage_limit_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = programs.install(world.folder, {"plan-draft": programs.codex_is_limited()})
    monkeypatch.setenv("PATH", f"{places}{os.pathsep}{os.environ['PATH']}")
    done = world.call("plan", "x", "--agent", "codex", "--yes", code=5)
    assert "loopwright plan: the agent program cannot work before " in done.stderr
    assert world.row(AGENT)["work_kind"] == "Rejected"


def test_drafts_count_in_the_budgets_and_a_good_one_outlives_a_failed_one(world: World) -> None:
    own = "day_budget_attempts = 1\ncommand = ['loopwright-agent', 'x']\n"
    world.settings(own + (world.repo / "loopwright.toml").read_text())
    words = ("plan", "Be polite", "--command", world.script("good", drafts(GOOD)))
    with Terminal(world.repo, *words, NO_COLOR="1") as person:
        person.press("g")
        person.press("More\n", "different? ")
        person.shows("There is no other draft: ")
        assert "budget of the day: 1 of 1 attempts used" in person.text
        person.press("y")
        assert "Next: loopwright up plan.toml" in person.ends(0)
    assert (world.repo / "plan.toml").read_text() == GOOD
    done = world.call("plan", "x", *words[2:], "--yes", "--output", "two.toml", code=5)
    assert "budget of the day: 1 of 1 attempts used" in done.stderr


def test_a_live_runner_drafts_and_goes_on_with_its_own_tasks(world: World) -> None:
    waits = [{"wait_file": str(world.folder / "go")}, DONE]
    agent = one_after_the_other(world, CYCLE, GOOD)
    with world.live("up", world.plan_of({"A": waits})) as up:
        world.comes_to("Working", "agent-A")
        done = world.call("plan", "Be polite", "--command", agent, "--yes")
        assert "The live runner drafts, as agent-plan-draft-1" in done.stderr
        assert "Used: 2 drafts in" in done.stderr
        assert "What is wrong with it" in prompt(world, 2)
        hangs = world.script("hangs", [{"hang": {}}])
        words = ("plan", "x", "--command", hangs, "--yes", "--output", "two.toml")
        assert "took longer than" in world.call(*words, "--timeout", "1", code=5).stderr
        asks = world.script("asks", [ASK])
        refused = world.call(
            "plan", "x", "--command", asks, "--yes", "--output", "two.toml", code=3
        )
        assert "the agent asks: Blue or green?" in refused.stderr
        with world.live(*words) as ended:
            world.comes_to("Working", f"{AGENT}-5")
            ended.process.send_signal(signal.SIGTERM)
            assert ended.process.wait(30) == 128 + signal.SIGTERM
        (world.folder / "go").touch()
        up.ends(0)
    assert (world.repo / "plan.toml").read_text() == GOOD
    kinds = {world.row(f"{AGENT}-{number}")["work_kind"] for number in range(1, 6)}
    assert kinds == {"Rejected"}
    assert [branch for branch in world.branches() if "draft" in branch] == []
