"""Settings, plans, variables and commands that the pages of the agents show are the code's."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from lifecycle.plan import Plan
from lifecycle.settings import Settings
from orchestrator.cli.main import COMMANDS
from orchestrator.config.field_docs import field_docs
from runtime.agents.catalogue import BUILT_IN, built_in
from runtime.agents.outcome import Ending
from tests.docs.agent_texts import TEXTS, blocks, each_page, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrator.terminal.options import CommandLineParser

VARIABLE = re.compile(r"^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$")
SETTING = re.compile(r"^[a-z]+(?:_[a-z]+)+$")


@each_page
def test_settings_and_plans_that_a_page_shows_are_valid(page: str) -> None:
    for text in blocks(page, "toml"):
        bare = text.replace("# pass_env", "pass_env")
        for each in (text, bare):
            given = tomllib.loads(each)
            if "tasks" in given or ("agents" in given and isinstance(given["agents"], dict)):
                Plan.model_validate({"tasks": [{"id": "T001"}], **given})
            else:
                Settings.model_validate(given)


@each_page
def test_keys_that_a_page_passes_on_are_known_to_its_adapter(page: str) -> None:
    named = [
        name
        for text in [*blocks(page, "toml"), *quoted(page)]
        for found in re.findall(r"pass_env = (\[[^\]]*\])", text)
        for name in json.loads(found)
    ]
    if page in ("README", "command"):
        known = {key for name in BUILT_IN for key in built_in(name).keys} | {"MY_PROVIDER_KEY"}
    else:
        # A variable that only tunes the program is passed on by the same setting.
        known = {*built_in(page).keys, "CLAUDE_CODE_MAX_RETRIES"}
    assert set(named) <= known


@each_page
def test_settings_that_a_page_speaks_of_exist(page: str) -> None:
    words = {text.partition(" = ")[0] for text in quoted(page)}
    named = {word for word in words if SETTING.match(word)}
    assert named <= set(Settings.model_fields) | set(Ending) | NOT_SETTINGS


NOT_SETTINGS = {"is_error", "rate_limit_event"}
"""Words of that form that are the programs' own."""


@each_page
def test_a_sign_in_for_the_sandbox_is_one_that_the_sandbox_knows(page: str) -> None:
    known = field_docs(Settings)["sandbox_login"]
    for name in re.findall(r'sandbox_login = "(\w+)"', TEXTS[page]):
        assert name in known
        assert page in ("README", name)


@each_page
def test_variables_that_a_page_names_are_the_adapters_or_ours(page: str) -> None:
    adapters = [built_in(page)] if page in BUILT_IN else [built_in(name) for name in BUILT_IN]
    known = {
        variable
        for adapter in adapters
        for variable in (*adapter.passes, *adapter.keys, *adapter.env, *adapter.root_env)
    }
    named = {word for word in quoted(page) if VARIABLE.match(word)}
    ours = {
        "AGENT_ID",
        "TASK_ID",
        "ATTEMPT",
        "SPAWN_ID",
        "COMM_FILE",
        "SUMMARY_FILE",
        "REMARKS",
        "PORT",
    }
    assert named <= known | {f"LOOPWRIGHT_{name}" for name in ours}


def commands() -> Iterator[tuple[str, list[str]]]:
    for page in TEXTS:
        lines = [line for text in blocks(page, "sh") for line in text.splitlines()]
        for line in [*lines, *quoted(page)]:
            if re.match(r"loopwright [a-z]", line):
                yield page, shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize(("page", "words"), list(commands()), ids=str)
def test_commands_that_a_page_shows_parse(page: str, words: list[str]) -> None:
    del page
    name, *args = words
    assert name in COMMANDS
    module = import_module(f"orchestrator.cli.commands.{COMMANDS[name]}")
    if not args:
        return
    parser: CommandLineParser = module.parser(name)
    parser.parse_args(args)
