"""Plan files: what is read, what is refused and how the refusal names its place."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import PlanError
from lifecycle.settings import Settings
from orchestrator.config.plans import agent_for, chosen_agent, find_plan, load_plan, task_of

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {
    "agents": {"fast": {"adapter": "claude"}, "own": {"command": ["./mine", "-x"]}},
    "tasks": [
        {"id": "T1", "title": "One", "agent": "fast"},
        {"id": "T2", "dependencies": ["T1"], "agent": "own", "verify": ["true"]},
        {"id": "T3"},
    ],
}


def _refusal(path: Path) -> str:
    with pytest.raises(PlanError) as refused:
        load_plan(path)
    return str(refused.value)


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "plan.toml"


def test_json_and_toml_mean_the_same(tmp_path: Path, toml: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(GOOD))
    toml.write_text(
        '[agents.fast]\nadapter = "claude"\n[agents.own]\ncommand = ["./mine", "-x"]\n'
        '[[tasks]]\nid = "T1"\ntitle = "One"\nagent = "fast"\n'
        '[[tasks]]\nid = "T2"\ndependencies = ["T1"]\nagent = "own"\nverify = ["true"]\n'
        '[[tasks]]\nid = "T3"\n'
    )
    assert load_plan(tmp_path / "plan.json") == load_plan(toml)


def test_a_task_gets_its_own_agent_else_the_default_else_what_settings_say(
    tmp_path: Path,
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(GOOD))
    plan, settings = load_plan(path), Settings(command=("./other",))
    one, two, three = (agent_for(task, plan, settings) for task in plan.tasks)
    assert (one.agent_id, one.adapter) == ("agent-T1", "claude")
    assert (two.agent_id, two.command) == ("agent-T2", ("./mine", "-x"))
    assert three.command == ("./other",)
    agents = {"own": {"command": ["./mine"]}, "default": {"adapter": "codex"}}
    path.write_text(json.dumps({"tasks": [{"id": "T3"}], "agents": agents}))
    assert agent_for(plan.tasks[2], load_plan(path), settings).adapter == "codex"


def test_the_type_of_an_agent_counts_where_its_task_has_none(toml: Path) -> None:
    toml.write_text(
        '[types.a]\non_done = "shutdown"\n[types.b]\n[agents.x]\ncommand = ["x"]\ntype = "a"\n'
        '[[tasks]]\nid = "T1"\n[[tasks]]\nid = "T2"\ntype = "b"\n'
    )
    plan = load_plan(toml)
    one, two = (agent_for(task, plan, Settings()) for task in plan.tasks)
    assert (one.type, one.policy) == ("a", plan.types["a"])
    assert (two.type, two.policy) == ("b", plan.types["b"])


def test_a_circle_and_an_unknown_id_are_refused_by_name(toml: Path) -> None:
    toml.write_text(
        '[[tasks]]\nid = "A"\ndependencies = ["C"]\n[[tasks]]\nid = "B"\ndependencies = ["A"]\n'
        '[[tasks]]\nid = "C"\ndependencies = ["B"]\n'
    )
    assert "A -> C -> B -> A" in _refusal(toml)
    toml.write_text('[[tasks]]\nid = "A"\ndependencies = ["X"]\n')
    assert "task A depends on X, which is not in the plan" in _refusal(toml)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[tasks]]\nid = "A"\nid = "B"\n', "plan.toml:3: "),
        (
            '[[tasks]]\nid = "A"\n\n[[tasks]]\nid = "B"\nverfy = []\n',
            ":4: task B, verfy: there is no",
        ),
        (
            '[[tasks]]\nid = "A"\n[[tasks]]\nid = "../B"\n',
            ":3: task ../B, id: '../B' is not a usable",
        ),
        ('[[tasks]]\nid = "A"\nverify = "make"\n', ":1: task A, verify: "),
        (
            '[[tasks]]\nid = "A"\nagent = "fast"\n',
            "task A names agent 'fast', but the plan defines: none",
        ),
        ('[agents.x]\nadapter = "cloude"\n[[tasks]]\nid = "A"\n', "agents.x: there is no agent"),
        ('[agents.x]\n\nadapter = "cloude"\n[[tasks]]\nid = "A"\n', "plan.toml:3: agents.x: there"),
        (
            '[agents.x]\nagents = [\n"claude",\n"cloude"]\n[[tasks]]\nid = "A"\n',
            "plan.toml:2: agents.x: there is no agent program 'cloude'",
        ),
        (
            '[agents.x]\nagents = ["claude", "claude"]\n[[tasks]]\nid = "A"\n',
            "plan.toml:2: agents.x.agents: 'claude' is in the chain twice",
        ),
        (
            '[agents.x]\nargs = ["\\u0000"]\nadapter="claude"\n[[tasks]]\nid = "A"\n',
            "plan.toml:2: agents.x.args: it holds a NUL",
        ),
        (
            '[agents.x]\nadapter="claude"\nenv = {"A=B" = "c"}\n[[tasks]]\nid = "A"\n',
            "plan.toml:3: agents.x.env: names of variables only",
        ),
        (
            '[budget]\n\nusd = 0\n[[tasks]]\nid = "A"\n',
            "plan.toml:3: budget.usd: must be a number above 0, not 0",
        ),
        (
            '[[tasks]]\nid = "A"\n[[tasks]]\nid = "B"\n\nbudget = { tokens = 1.5 }\n',
            "plan.toml:6: task B, budget.tokens: must be a whole number above 0, not 1.5",
        ),
        (
            'budget = 5\n[[tasks]]\nid = "A"\n',
            "plan.toml:1: budget: must be a table of tokens, usd, hours, attempts, such as",
        ),
        (
            '[[tasks]]\nid = "A"\n[tasks.budget]\ndollars = 5\n',
            ":4: task A, budget.dollars: there is no field 'dollars'; it may hold tokens, usd",
        ),
        (
            '[[tasks]]\nid = "A"\n\n[types.x]\n\non_error = "restart"\n',
            "plan.toml:6: types.x.on_error: must be 'end', 'requeue' or 'shutdown', not 'restart'",
        ),
        (
            '[types.x]\non_fire = "end"\n[[tasks]]\nid = "A"\n',
            "plan.toml:2: types.x.on_fire: there is no field 'on_fire'",
        ),
        (
            '[types.x]\n[[tasks]]\nid = "A"\ntype = "y"\n',
            "plan.toml:2: task A names type 'y'; the plan defines: x",
        ),
        (
            '[[tasks]]\nid = "A"\n[agents.a]\ncommand = ["x"]\n\ntype = "y"\n',
            "plan.toml:6: agents.a names type 'y'; write a [types.y] table for it",
        ),
        (
            '[[tasks]]\nid = "A"\n[agents.a]\ncommand = ["x"]\npolicy = {on_done = "end"}\n',
            "plan.toml:5: agents.a: what happens after its end is set by a type: write",
        ),
        ("tasks = [5]\n", "task number 1: must be a table"),
        ("tasks = []\n", "has no tasks"),
        ("", "tasks: Field required"),
    ],
)
def test_a_mistake_is_told_with_file_and_line_or_field(toml: Path, text: str, told: str) -> None:
    toml.write_text(text)
    refusal = _refusal(toml)
    assert told in refusal
    assert str(toml) in refusal
    assert "Allowance" not in refusal
    assert "Input should" not in refusal or "verify" in told


def test_a_file_that_is_not_a_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert "there is no plan" in _refusal(path)
    path.write_text('{"tasks": [\n  {"id": }]}')
    assert f"{path}:2: " in _refusal(path)
    path.write_text("[" * 100_000)
    assert "nested too deeply" in _refusal(path)
    path.write_bytes(b"\xff\xfe")
    assert "cannot be read as a plan" in _refusal(path)
    path.write_text("[]")
    assert "an object with `tasks`" in _refusal(path)
    path.rename(tmp_path / "plan.yaml")
    assert "a .toml or .json file" in _refusal(tmp_path / "plan.yaml")


def test_the_plan_at_the_top_of_a_repository_is_found_and_two_are_refused(tmp_path: Path) -> None:
    assert find_plan(tmp_path) is None
    (tmp_path / "loopwright.plan.json").write_text("{}")
    assert find_plan(tmp_path) == tmp_path / "loopwright.plan.json"
    (tmp_path / "loopwright.plan.toml").write_text("")
    with pytest.raises(PlanError, match="name the one to use"):
        find_plan(tmp_path)


def test_what_is_typed_counts_more_than_settings() -> None:
    settings = Settings(command=("./mine",))
    assert chosen_agent("T1", settings, command="a 'b c'").command == ("a", "b c")
    assert chosen_agent("T1", settings, adapter="claude").adapter == "claude"
    assert chosen_agent("T1", settings).command == ("./mine",)
    for wrong, told in (
        ({"command": "a 'b"}, "cannot be split"),
        ({"command": " "}, "is empty"),
        ({"adapter": "x"}, "--agent x: there is no agent program 'x'"),
        ({"adapter": ""}, "--agent '' lacks a name"),
        ({"adapter": "claude,"}, "--agent 'claude,' lacks a name"),
        ({"adapter": "claude, claude"}, "'claude' is in the chain twice"),
        ({"adapter": "claude:"}, "names no model"),
    ):
        with pytest.raises(PlanError, match=told) as refused:
            chosen_agent("T1", settings, **wrong)
        assert "scripted" not in str(refused.value)
    with pytest.raises(PlanError, match="no agent program is set for T1"):
        chosen_agent("T1", Settings())


def test_the_line_of_a_budget_is_found_quickly_in_a_long_plan(toml: Path) -> None:
    task = '[[tasks]]\nid = "T{}"\ndescription = """\n[budget]\nusd = 1\n"""\n'
    toml.write_text("".join(map(task.format, range(300))) + "budget = { usd = -1 }\n")
    begun = time.process_time()
    assert "plan.toml:1801: task T299, budget.usd: " in _refusal(toml)
    assert time.process_time() - begun < 3


def test_a_few_words_become_a_title_and_many_a_description() -> None:
    assert (task_of("Add it", "T1").title, task_of("Add it", "T1").description) == ("Add it", "")
    long = task_of("Add it\n\nas follows: ...", "T1")
    assert (long.title, long.description) == ("Add it", "Add it\n\nas follows: ...")
    wide = task_of("word " * 40, "T1")
    assert len(wide.title) <= 80
    assert wide.description == ("word " * 40).strip()
    with pytest.raises(PlanError, match="task a b: "):
        task_of("x", "a b")


@pytest.mark.parametrize("field", ["title = 'x'\ndescription", "title"])
def test_a_task_that_no_prompt_could_hold_is_refused_when_it_is_read(
    tmp_path: Path, field: str
) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(f"[[tasks]]\nid = 'A'\n[[tasks]]\nid = 'B'\n{field} = '{'x' * 300_000}'\n")
    with pytest.raises(PlanError, match=r"plan.toml:3: the text of task B .*at most 256 KiB"):
        load_plan(path)
    with pytest.raises(PlanError, match="at most 256 KiB"):
        task_of("x" * 300_000, "T001")


def test_each_program_of_a_chain_may_have_its_own_arguments(toml: Path) -> None:
    toml.write_text(
        '[agents.a]\nagents = ["claude:opus", "claude", "codex"]\n'
        'args = { "claude:opus" = ["-o"], claude = ["-c"], codex = ["-x", "y"] }\n'
        '[agents.b]\nadapter = "codex"\nargs = ["-z"]\n[[tasks]]\nid = "T1"\nagent = "a"\n'
    )
    plan = load_plan(toml)
    agent = plan.agents["a"]
    assert agent.args_for("claude", "opus") == ("-o",)
    assert agent.args_for("claude", "sonnet") == agent.args_for("claude") == ("-c",)
    assert agent.args_for("codex") == ("-x", "y")
    assert agent.args_for("gemini") == ()
    assert agent.every_arg == ("-o", "-c", "-x", "y")
    assert plan.agents["b"].args_for("codex") == ("-z",)
    assert type(agent).model_validate_json(agent.model_dump_json()) == agent


@pytest.mark.parametrize(
    ("agent", "line", "why"),
    [
        ('agents = ["claude"]\nargs = { gemini = ["-x"] }', 3, "'gemini' is none of its programs"),
        ('agents = ["claude"]\nargs = { claude = "-x" }', 3, "of claude are a list of texts"),
        ('adapter = "claude"\nargs = "-x"', 3, "are a list of texts"),
        ('adapter = "claude"\nargs = [1]', 3, "are a list of texts"),
        ('command = ["x"]\nargs = { x = ["-x"] }', 3, "need `agents` or `adapter`"),
        ('adapter = "claude"\nargs = { claude = ["\\u0000"] }', 3, "NUL"),
    ],
)
def test_wrong_arguments_are_refused_with_file_and_line(
    toml: Path, agent: str, line: int, why: str
) -> None:
    toml.write_text(f'[agents.a]\n{agent}\n[[tasks]]\nid = "T1"\nagent = "a"\n')
    told = _refusal(toml)
    assert f"{toml}:{line}" in told or f"line {line}" in told
    assert why in told
