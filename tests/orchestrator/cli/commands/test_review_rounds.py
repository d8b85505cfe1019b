"""A whole morning with `review`: what comes back, what conflicts, and what is decided last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.orchestrator.loopkit import ASK, BLOCK, DONE
from tests.orchestrator.ptykit import Terminal

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

LIMITED = "budget_attempts = 9\n"


def _writes(name: str, text: str = "x") -> list[dict[str, Any]]:
    return [{"run": ["sh", "-c", f"echo {text} >> {name}"]}, {"commit": "work"}]


def _journal(world: World, name: str, kind: str) -> list[dict[str, Any]]:
    told = world.json("export", name)["lifecycles"][0]["journal"]
    return [each["event"] for each in told if each["event"]["kind"] == kind]


def test_what_comes_back_is_shown_in_the_same_walk(world: World) -> None:
    answered = {"attempts": {"1": [ASK], "default": [*_writes("blue.txt"), DONE]}}
    other = [*_writes("other.txt"), DONE]
    with world.live("up", world.plan_of({"Q1": answered, "W1": other})):
        world.comes_to("AwaitingHuman", "agent-Q1")
        world.comes_to("Completed", "agent-W1")
        with Terminal(world.repo, "review") as person:
            person.shows("1 of 2 Q1")
            person.press("n")
            person.press("Blue\n", "Your answer: ")
            world.comes_to("Completed", "agent-Q1")
            person.shows("2 of ")
            person.press("a")
            person.shows("blue.txt")
            person.press("a")
            said = person.ends(0)
    assert "Nothing waits for you any more." in said
    assert {"blue.txt", "other.txt"} <= set(world.git("ls-tree", "--name-only", "main").split())


def test_what_still_goes_on_is_named_at_the_end(world: World) -> None:
    gate = world.folder / "gate"
    slow = {"attempts": {"1": [ASK], "default": [{"wait_file": str(gate)}, DONE]}}
    with world.live("up", world.plan_of({"Q1": slow})):
        world.comes_to("AwaitingHuman", "agent-Q1")
        with Terminal(world.repo, "review") as person:
            person.press("n")
            person.press("Blue\n", "Your answer: ")
            said = person.ends(0)
    assert "1 task goes on: Q1" in said
    assert "Next: loopwright ps --watch" in said


def test_work_that_conflicts_is_sent_back_with_one_key_and_enter(world: World) -> None:
    world.settings((world.repo / "loopwright.toml").read_text() + 'on_conflict = "ask"\n')
    scripts: dict[str, object] = {
        "A1": [*_writes("same.txt", "one"), DONE],
        "B1": [*_writes("same.txt", "two"), DONE],
    }
    world.call("up", "--no-stay", world.plan_of(scripts), code=None)
    world.call("accept", "A1")
    with Terminal(world.repo, "review", "B1") as person:
        person.shows("conflict     same.txt")
        person.press("s")
        person.press("\n", ") ")
        person.ends(0)
    (guided,) = _journal(world, "B1", "Guided")
    assert guided["text"] == "Merge main into your branch, and resolve what conflicts."


def test_the_end_of_input_sends_nothing(world: World) -> None:
    world.settings((world.repo / "loopwright.toml").read_text() + 'on_conflict = "ask"\n')
    scripts: dict[str, object] = {
        "A1": [*_writes("same.txt", "one"), DONE],
        "B1": [*_writes("same.txt", "two"), DONE],
        "K1": [BLOCK],
    }
    world.call("up", "--no-stay", world.plan_of(scripts), code=None)
    world.call("accept", "A1")
    for name, key in (("B1", "s"), ("K1", "n")):
        with Terminal(world.repo, "review", name) as person:
            person.press(key)
            person.press("\x04", ") ")
            person.press("q")
            person.ends(3)
    assert world.row("agent-B1")["work_kind"] == "Completed"
    assert world.row("agent-K1")["work_kind"] == "Blocked"


def test_what_builds_on_others_is_not_offered_for_accept_without_them(world: World) -> None:
    scripts: dict[str, object] = {
        "D1": [*_writes("d.txt"), DONE],
        "E1": [*_writes("e.txt"), DONE],
    }
    needs = {"E1": {"dependencies": ["D1"]}}
    world.call("up", "--no-stay", world.plan_of(scripts, needs), code=None)
    with Terminal(world.repo, "review", "E1") as person:
        person.shows("[q] quit")
        assert "[a]" not in person.text
        assert "accept       only with agent-D1, which nobody accepted yet" in person.text
        person.press("a")
        person.shows("none of the keys")
        world.call("accept", "D1")
        person.press("d")
        person.press("a")
        person.ends(0)
    assert "e.txt" in world.git("ls-tree", "--name-only", "main")


def test_words_go_with_the_unblocking(world: World) -> None:
    world.call("up", "--no-stay", world.plan_of({"K1": [BLOCK]}), code=None)
    with Terminal(world.repo, "review") as person:
        person.shows("why          blocked on a key: no key")
        person.press("n")
        person.press("It is in the vault\n", ") ")
        person.ends(0)
    (unblocked,) = _journal(world, "K1", "Unblocked")
    assert unblocked["note"] == "It is in the vault"


def _with_a_changed_limit(world: World) -> None:
    world.settings((world.repo / "loopwright.toml").read_text() + LIMITED)
    world.git("add", ".")
    world.git("commit", "-qm", "limit")
    script = [
        {"run": ["sh", "-c", "sed -i s/attempts.*/attempts=99/ loopwright.toml"]},
        {"commit": "more"},
        DONE,
    ]
    world.call("up", "--no-stay", world.plan_of({"S1": script}), code=None)


def test_changed_limits_are_decided_last_in_the_same_walk(world: World) -> None:
    _with_a_changed_limit(world)
    with Terminal(world.repo, "review", columns=120, COLUMNS="120") as person:
        person.press("a")
        person.shows("budget_attempts in loopwright.toml, changed by the work of agent-S1: ")
        person.shows("9 becomes 99")
        person.press("a")
        person.ends(0)
    told = {each["name"]: each["value"] for each in world.json("settings")["settings"]}
    assert told["budget_attempts"] == 99


def test_changed_limits_that_are_skipped_keep_waiting_and_are_refused_with_a_key(
    world: World,
) -> None:
    _with_a_changed_limit(world)
    with Terminal(world.repo, "review", columns=120, COLUMNS="120") as person:
        person.press("a")
        person.shows("9 becomes 99")
        person.press("k")
        assert "Still waiting: changed settings" in person.ends(3)
    with Terminal(world.repo, "review", columns=120, COLUMNS="120") as person:
        person.shows("9 becomes 99")
        person.press("r")
        person.ends(0)
    told = {each["name"]: each["value"] for each in world.json("settings")["settings"]}
    assert told["budget_attempts"] == 9


def test_what_another_person_decided_meanwhile_is_passed_over(world: World) -> None:
    scripts: dict[str, object] = {
        "A1": [*_writes("a.txt"), DONE],
        "B1": [*_writes("b.txt"), DONE],
    }
    # The older decision is asked for first.
    for name, script in scripts.items():
        plan = world.plan_of({name: script}, name=f"plan-{name}")
        world.call("up", "--no-stay", plan, code=None)
    with Terminal(world.repo, "review") as person:
        person.shows("1 of 2 A1")
        world.call("reject", "A1", "--why", "no")
        world.call("accept", "B1")
        person.press("a")
        said = person.ends(0)
    assert "agent-A1 is rejected" in said
    assert "a.txt" not in world.git("ls-tree", "--name-only", "main")
    assert "b.txt" in world.git("ls-tree", "--name-only", "main")
