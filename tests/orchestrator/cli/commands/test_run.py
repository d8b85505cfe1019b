"""`loopwright run`: results, exit codes, going on, refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.settings import Settings
from orchestrator.cli.loop_options import with_model
from orchestrator.terminal.options import UsageError
from tests.orchestrator.loopkit import ASK, DONE

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World


def test_a_task_runs_until_its_verify_command_is_green(world: World) -> None:
    agent = world.script(
        "agent",
        {
            "attempts": {
                "1": [{"exit": 3}],
                "2": [DONE],
                "default": [{"write": "done.txt"}, {"commit": "Done"}, DONE],
            }
        },
    )
    done = world.call(
        "run", "Make done.txt", "--command", agent, "--verify", "test -f done.txt", "--json"
    )
    assert json.loads(done.stdout) == {
        "result_type": "task_complete",
        "task_id": "T001",
        "agent_id": "agent-T001",
        "summary": "all done",
        "blocked_on": [],
        "pr_url": None,
        "provider_pr_url": None,
        "error": None,
        "spawn_count": 3,
        "retry_count": 2,
    }
    told = done.stderr
    assert "attempt 1 ended with error and exit code 3" in told
    assert "not verified: `test -f done.txt` ended with code 1" in told
    assert "verified: the command is green" in told
    again = world.json("run", "--task-id", "T001")
    assert again["spawn_count"] == 3, "a finished task is not run again"


def test_limits_and_set_up_are_typed_for_one_task_and_stay_with_it(world: World) -> None:
    agent = world.script("agent", {"attempts": {"4": [DONE], "default": [{"exit": 3}]}})
    made = ("--setup", "echo made > made.txt", "--verify", "grep made made.txt")
    typed = ("run", "x", "--command", agent, *made)
    result = world.json(*typed, "--max-attempts", "2", code=5)
    assert result["spawn_count"] == 2
    assert "2 attempts" in result["error"]
    again = world.json("run", "--task-id", "T001", code=5)
    assert again["spawn_count"] == 2, "the limit is the task's"
    done = world.json("run", "--task-id", "T001", "--max-attempts", "9")
    assert (done["result_type"], done["spawn_count"]) == ("task_complete", 4)


def test_a_budget_that_was_typed_is_refused_where_the_program_cannot_be_held_to_it(
    world: World,
) -> None:
    done = world.call("run", "x", "--command", "true", "--budget-usd", "5", code=2)
    assert "usd in the budget of the task" in done.stderr
    done = world.call("run", "x", "--command", "true", "--budget-usd", "-1", code=2)
    assert "'-1' is not a number of dollars above 0" in done.stderr
    assert world.row() == {}


@pytest.mark.parametrize(
    ("agent", "settings", "chosen"),
    [
        ("codex", {}, "codex:m1"),
        (None, {"adapter": "claude"}, "claude:m1"),
        (None, {"adapter": "claude:m0"}, "claude:m1"),
        (None, {}, None),
        ("claude:m0", {}, None),
        ("claude,codex", {}, None),
        (None, {"agents": ("claude", "codex")}, None),
        (None, {"command": ("./agent",)}, None),
    ],
)
def test_a_model_is_for_one_agent_program(
    agent: str | None, settings: dict[str, Any], chosen: str | None
) -> None:
    if chosen is not None:
        assert with_model(agent, "m1", Settings(**settings)) == chosen
    else:
        with pytest.raises(UsageError, match="--agent NAME:m1"):
            with_model(agent, "m1", Settings(**settings))


def test_for_people_the_end_is_a_table_and_what_to_type_next(world: World) -> None:
    done = world.call("run", "Do it", "--command", world.script("agent", [DONE]))
    assert done.stdout.splitlines() == [
        "AGENT       TASK  ENDED AS  ATTEMPTS  RETRIES  WHAT IT SAYS",
        "agent-T001  T001  done      1         0        all done",
        "Next: loopwright accept agent-T001   (or: reject, guide)",
    ]


def test_a_program_that_is_not_there_is_exit_code_6_and_named(world: World) -> None:
    result = world.json("run", "x", "--command", "./no-such-agent --fast", code=6)
    assert result["result_type"] == "error"
    assert "no-such-agent" in result["error"]


def test_a_pull_request_that_nobody_merges_is_exit_code_4(world: World) -> None:
    world.settings("pr_merge_timeout = 0.5\nstop_grace = 0.3\n")
    agent = world.script("agent", [{"commit": "x"}, {"breakpoint": "pr_created"}])
    result = world.json("run", "x", "--command", agent, code=4)
    assert (result["result_type"], result["pr_url"]) == ("pr_created", "local://pr/1")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), ("--agent NAME", "--command 'PROGRAM ARG'")),
        (("--agent", "cloude"), ("no agent program 'cloude'",)),
        (("--command", "no-such-agent --fast"), ("no-such-agent is not on PATH",)),
        (("--base", "nope"), ("no branch or commit 'nope'", "branches there: main")),
        (("--issue", "JIRA-1"), ("'JIRA-1' does not name an issue: give its number",)),
        (("--isolation", "container"), ("docker",)),
        *((("--isolation", level), (level,)) for level in ("none", "thread", "vault")),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_recorded(
    world: World, options: tuple[str, ...], told: tuple[str, ...]
) -> None:
    world.settings('sandbox_engine = "docker"\n')
    named = options[:1] in ((), ("--agent",), ("--command",))
    command = () if named else ("--command", "true")
    done = world.call("run", "x", *command, *options, code=2)
    assert [text for text in told if text not in done.stderr] == []
    assert world.row() == {}
    assert "--isolation" not in options or not (world.repo / ".loopwright").exists()


def test_isolation_that_cannot_be_given_is_weakened_only_on_a_persons_word_and_told(
    world: World,
) -> None:
    world.settings('sandbox_engine = "docker"\nmax_retries = 0\n')
    done = world.call(
        "run", "x", "--command", "false", "--isolation", "container", "--allow-weaker", code=5
    )
    assert "Weaker than asked for: " in done.stderr
    assert "docker" in done.stderr


def test_tasks_get_free_ids_and_the_same_words_go_on(world: World) -> None:
    world.settings("blocked_timeout = 0.2\nstop_grace = 0.3\n")
    ask = world.script("ask", {"attempts": {"1": [ASK], "default": [DONE]}})
    assert world.json("run", "One", "--command", ask, code=3)["task_id"] == "T001"
    assert world.json("run", "Two", "--command", ask, code=3)["task_id"] == "T002"
    world.call("answer", "agent-T001", "green")
    result = world.json("run", "One")
    assert (result["task_id"], result["spawn_count"]) == ("T001", 2)


def test_the_issue_of_a_task_may_be_named_and_named_anew(world: World) -> None:
    world.settings("blocked_timeout = 0.2\nstop_grace = 0.3\n")
    ask = world.script("ask", {"attempts": {"1": [ASK], "default": [DONE]}})

    def issue() -> str:
        return str(world.json("show", "T001")["lifecycle"]["facts"]["task"]["issue"])

    world.call("run", "One", "--command", ask, "--issue", "12", code=3)
    assert issue() == "12"
    world.call("answer", "T001", "green")
    world.call("run", "One", "--issue", "team/other#13")
    assert issue() == "team/other#13"


def test_a_second_runner_is_exit_code_75_and_names_the_first(world: World) -> None:
    with world.live("run", "x", "--command", world.script("agent", [ASK])) as first:
        world.comes_to("AwaitingHuman")
        for second in (("run", "y", "--command", "true"), ("up",)):
            refused = world.call(*second, code=75)
            assert f"pid {first.process.pid}" in refused.stderr
            assert "loopwright run x" in refused.stderr


def test_resuming_what_was_given_up_names_the_limit_to_raise_first(world: World) -> None:
    agent = world.script("agent", [{"exit": 1}])
    world.settings("retry_interval = 0.05\nmax_retries = 2\nstop_grace = 0.3\n")
    world.call("run", "x", "--command", agent, code=5)
    told = world.call("resume", "agent-T001", code=None).stderr
    assert "agent-T001 is given up; 2 of 2 retries used: raise max_retries first" in told
    world.settings("retry_interval = 0.05\nmax_retries = 3\nstop_grace = 0.3\n")
    assert "resumed" in world.call("resume", "agent-T001").stdout
