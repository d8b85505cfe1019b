"""Settings: which source wins, what is refused and how it is named, and re-reading."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.settings import Settings
from orchestrator.approval.held_settings import ONE_CHOICE
from orchestrator.config.settings import (
    SettingsReader,
    explain_settings,
    load_settings,
)
from orchestrator.config.sources import NOT_SETTINGS
from orchestrator.config.value_forms import allowed_values
from orchestrator.errors import ConfigError
from tests.orchestrator.loopkit import until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with nothing in it."""
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Return a folder that stands for a repository."""
    repo = tmp_path / "repo"
    repo.mkdir()
    return repo


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "PATH": "/bin", **more}


def user_file(home: Path, text: str) -> Path:
    path = home / ".config" / "loopwright" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def refusal(repo: Path, env: dict[str, str], **overrides: object) -> str:
    with pytest.raises(ConfigError) as refused:
        load_settings(repo, environ=env, overrides=overrides)
    return str(refused.value)


def test_without_any_source_all_settings_are_defaults(repo: Path, home: Path) -> None:
    assert load_settings(repo, environ=environ(home)) == Settings()


def test_each_source_comes_before_the_weaker_ones(repo: Path, home: Path) -> None:
    user_file(
        home,
        "max_retries = 1\nmax_attempts = 1\nstuck_limit = 11\nstop_grace = 1\nretry_interval = 1",
    )
    (repo / "pyproject.toml").write_text(
        "[tool.loopwright]\nmax_retries = 2\nmax_attempts = 2\nstuck_limit = 12\nstop_grace = 2\n"
    )
    (repo / "loopwright.toml").write_text("max_retries = 3\nmax_attempts = 3\nstuck_limit = 13\n")
    env = environ(home, LOOPWRIGHT_MAX_RETRIES="4", LOOPWRIGHT_MAX_ATTEMPTS="4")
    settings = load_settings(repo, environ=env, overrides={"max_retries": 5, "verify": None})
    assert settings.max_retries == 5
    assert settings.max_attempts == 4
    assert settings.stuck_limit == 13
    assert settings.stop_grace == 2
    assert settings.retry_interval == 1
    rows = {
        row.name: row for row in explain_settings(repo, environ=env, overrides={"max_retries": 5})
    }
    assert rows["max_retries"].source == "--max-retries"
    assert rows["max_attempts"].source == "LOOPWRIGHT_MAX_ATTEMPTS"
    assert rows["stuck_limit"].source == f"{repo / 'loopwright.toml'}, line 3"
    assert rows["stop_grace"].source == f"{repo / 'pyproject.toml'}, line 5"
    assert rows["retry_interval"].source.endswith("config.toml, line 5")
    assert rows["wall_limit"].source == "default"


def test_the_user_file_follows_xdg_config_home(repo: Path, home: Path, tmp_path: Path) -> None:
    user_file(home, "max_retries = 1")
    folder = tmp_path / "xdg" / "loopwright"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("max_retries = 2")
    env = environ(home, XDG_CONFIG_HOME=str(tmp_path / "xdg"))
    assert load_settings(repo, environ=env).max_retries == 2
    env = environ(home, XDG_CONFIG_HOME="relative")
    assert load_settings(repo, environ=env).max_retries == 1


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("# max_retrys = 1\n\nmax_retrys = 1\n", 3, "did you mean 'max_retries'"),
        ("max-retries = 1\n", 1, "did you mean 'max_retries'"),
        ("verify = [\n 'a',\n]\nbogus = 1\n", 4, "there is no setting 'bogus'"),
        ("test_command = '''\nbogus = 1\n'''\n[bogus]\nx = 1\n", 4, "there is no setting 'bogus'"),
        ('"bogus" = 1\n', 1, "there is no setting 'bogus'"),
        ("max_retries = -1\n", 1, "a whole number from 0 to 1000000, not -1"),
        ("\nmax_retries = 'many'\n", 2, 'not "many"'),
        ("max_retries = true\n", 1, "not true"),
        ("max_retries = 1.5\n", 1, "not 1.5"),
        ("retry_interval = nan\n", 1, "a number from 0 to 86400, not NaN"),
        ("blocked_timeout = inf\n", 1, "a number above 0, not Infinity"),
        ("baseline = 1\n", 1, "baseline must be true or false, not 1"),
        ("verify = [1]\n", 1, "verify must be a list of texts, not [1]"),
        ('command = "claude \'x"\n', 1, "No closing quotation"),
        ("test_command = 1979-05-27\n", 1, "must be a text"),
        ('\nadapter = "cloude"\n', 2, "adapter: there is no agent program 'cloude'; known are"),
        ('adapter = ""\n', 1, "'' names no agent program"),
        ('agents = ["claude", "claude"]\n', 1, "'claude' is in the chain twice"),
        ('agents = ["claude",\n"cloude"]\n', 1, "no agent program 'cloude'"),
        ('agent_args = ["a\\u0000"]\n', 1, "agent_args: it holds a NUL character"),
        ('pass_env = ["FOO=sesame"]\n', 1, "write 'FOO', and set its value in the environment"),
        ('pass_env = ["A B"]\n', 1, "'A B' is not the name of a variable"),
        ('pass_env = ["=sesame"]\n', 1, "'' is not the name of a variable"),
        ("max_retries = 1\nmax_retries = 2\n", 2, "not valid TOML"),
        ("a = 1\nb = \n", 2, "not valid TOML"),
        ("x = 'open", 1, "not valid TOML"),
        ("x = [" * 2000, 1, "not valid TOML"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(
    repo: Path, home: Path, text: str, line: int, said: str
) -> None:
    (repo / "loopwright.toml").write_text(text)
    problem = refusal(repo, environ(home))
    assert said in problem
    where = f"{repo / 'loopwright.toml'}, line {line}: "
    assert problem.startswith(where) or "x = [" in text


def test_a_refusal_quotes_no_value_of_a_variable_and_offers_no_scripted_agent(
    repo: Path, home: Path
) -> None:
    (repo / "loopwright.toml").write_text('pass_env = ["FOO=sesame"]\n')
    assert "sesame" not in refusal(repo, environ(home))
    (repo / "loopwright.toml").write_text('adapter = "cloude"\n')
    assert "scripted" not in refusal(repo, environ(home))


LAYERS = ("user", "pyproject", "repo", "variable")


def say_in(layer: str, repo: Path, home: Path, name: str) -> dict[str, str]:
    """Name the agent in one source, by one of the three ways."""
    text = {"command": "['./mine']", "adapter": "'claude'", "agents": "['claude', 'codex']"}[name]
    if layer == "user":
        user_file(home, f"{name} = {text}\n")
    elif layer == "pyproject":
        (repo / "pyproject.toml").write_text(f"[tool.loopwright]\n{name} = {text}\n")
    elif layer == "repo":
        (repo / "loopwright.toml").write_text(f"{name} = {text}\n")
    else:
        value = {"command": "./mine", "adapter": "claude", "agents": "claude,codex"}[name]
        return {f"LOOPWRIGHT_{name.upper()}": value}
    return {}


@pytest.mark.parametrize("strong", ["command", "adapter", "agents"])
@pytest.mark.parametrize("weak", ["command", "adapter", "agents"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_the_strongest_source_that_names_an_agent_names_the_only_one(
    repo: Path, home: Path, weak: str, strong: str, at: int
) -> None:
    more = say_in(LAYERS[at - 1], repo, home, weak) | say_in(LAYERS[at], repo, home, strong)
    rows = {row.name: row for row in explain_settings(repo, environ=environ(home, **more))}
    named = [name for name in ONE_CHOICE if rows[name].value]
    assert named == [strong]
    assert [rows[name].source for name in ONE_CHOICE if name != strong] == ["default"] * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("adapter = 'claude'\n\ncommand = ['x']\n", "line 1: adapter and command (from "),
        ("command = 'x'\nagents = ['claude', 'codex']\n", "line 2: agents and command (from "),
        ("agents = ['claude']\nadapter = 'codex'\n", "line 1: agents and adapter (from "),
    ],
)
def test_one_source_that_names_two_agents_is_refused_with_both_places(
    repo: Path, home: Path, text: str, said: str
) -> None:
    (repo / "loopwright.toml").write_text(text)
    problem = refusal(repo, environ(home))
    assert said in problem
    assert "keep one of them" in problem
    assert problem.count("loopwright.toml, line ") == 2


def test_two_variables_that_name_an_agent_are_refused_by_name(repo: Path, home: Path) -> None:
    env = environ(home, LOOPWRIGHT_COMMAND="x", LOOPWRIGHT_ADAPTER="claude")
    problem = refusal(repo, env)
    assert problem.startswith("LOOPWRIGHT_ADAPTER: adapter and command (from LOOPWRIGHT_COMMAND)")


def test_an_empty_command_takes_back_who_a_weaker_source_names(repo: Path, home: Path) -> None:
    user_file(home, "adapter = 'claude'\n")
    (repo / "loopwright.toml").write_text("command = []\n")
    settings = load_settings(repo, environ=environ(home))
    assert (settings.command, settings.adapter, settings.agents) == ((), None, ())


def test_bytes_that_are_not_text_are_refused_with_their_line(repo: Path, home: Path) -> None:
    (repo / "loopwright.toml").write_bytes(b"max_retries = 1\n# \xff\n")
    assert "line 2: not UTF-8" in refusal(repo, environ(home))


def test_windows_line_ends_and_a_byte_order_mark_are_read(repo: Path, home: Path) -> None:
    (repo / "loopwright.toml").write_bytes(b"\xef\xbb\xbfmax_retries = 7\r\n")
    assert load_settings(repo, environ=environ(home)).max_retries == 7


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[project]\nname = 'x'\n[tool.loopwright]\nbogus = 1\n", 4),
        ("tool.loopwright.bogus = 1\n", 1),
        ("[tool]\nloopwright = {max_retries = 1, bogus = 2}\n", 2),
        ("[tool.other]\nbogus = 1\n[tool.loopwright]\n\nbogus = 1\n", 5),
    ],
)
def test_pyproject_is_read_in_every_form_and_named_with_its_line(
    repo: Path, home: Path, text: str, line: int
) -> None:
    (repo / "pyproject.toml").write_text(text)
    assert refusal(repo, environ(home)).startswith(f"{repo / 'pyproject.toml'}, line {line}: ")


def test_a_pyproject_without_our_table_is_none_of_our_business(repo: Path, home: Path) -> None:
    (repo / "pyproject.toml").write_text("[tool.other]\nbogus = 1\n")
    assert load_settings(repo, environ=environ(home)) == Settings()
    (repo / "pyproject.toml").write_text("[tool]\nloopwright = 5\n")
    assert "tool.loopwright must be a table" in refusal(repo, environ(home))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("MAX_RETRIES", "7", 7),
        ("RETRY_INTERVAL", "0.5", 0.5),
        ("BASELINE", "no", False),
        ("BASELINE", "1", True),
        ("ADAPTER", "codex", "codex"),
        ("ADAPTER", "", None),
        ("COMMAND", "claude -p 'two words'", ("claude", "-p", "two words")),
        ("COMMAND", '["claude", "-p"]', ("claude", "-p")),
        ("AGENTS", "claude,codex", ("claude", "codex")),
        ("AGENTS", " claude:opus , codex\n", ("claude:opus", "codex")),
        ("AGENTS", "claude\ncodex", ("claude", "codex")),
        ("AGENTS", '["claude", "codex"]', ("claude", "codex")),
        ("VERIFY", "pytest -q", ("pytest -q",)),
        ("VERIFY", "pytest -q\nruff check", ("pytest -q", "ruff check")),
        ("VERIFY", '["pytest -q", "ruff check"]', ("pytest -q", "ruff check")),
    ],
)
def test_a_variable_is_read_as_its_setting_wants(
    repo: Path, home: Path, name: str, text: str, expected: Any
) -> None:
    settings = load_settings(repo, environ=environ(home, **{f"LOOPWRIGHT_{name}": text}))
    assert getattr(settings, name.lower()) == expected


@pytest.mark.parametrize(
    ("variable", "text", "said"),
    [
        ("LOOPWRIGHT_MAX_RETRYS", "1", "did you mean 'max_retries'"),
        ("LOOPWRIGHT_MAX_RETRIES", "many", "a whole number from 0"),
        ("LOOPWRIGHT_WALL_LIMIT", "inf", "a number from 0"),
        ("LOOPWRIGHT_VERIFY", "[pytest", "JSON list"),
        ("LOOPWRIGHT_BASELINE", "perhaps", "true or false"),
        ("LOOPWRIGHT_ADAPTER", "cloude", "no agent program 'cloude'; known are claude, codex"),
        ("LOOPWRIGHT_ADAPTER", "claude:", "names no model; write 'claude'"),
        ("LOOPWRIGHT_ADAPTER", "claude:--resume", "'--resume' is not a model of claude"),
        ("LOOPWRIGHT_ADAPTER", "claude,codex", "is the setting `agents`"),
        ("LOOPWRIGHT_AGENTS", "claude,cloude", "no agent program 'cloude'"),
        ("LOOPWRIGHT_AGENTS", "claude,", "'' names no agent program"),
        ("LOOPWRIGHT_AGENTS", "claude,claude", "'claude' is in the chain twice"),
    ],
)
def test_a_bad_variable_is_refused_by_its_name(
    repo: Path, home: Path, variable: str, text: str, said: str
) -> None:
    problem = refusal(repo, environ(home, **{variable: text}))
    assert problem.startswith(f"{variable}: ")
    assert said in problem


def test_what_agents_are_given_is_not_a_setting(repo: Path, home: Path) -> None:
    env = environ(home, **dict.fromkeys(NOT_SETTINGS, "x"))
    assert load_settings(repo, environ=env) == Settings()


def test_a_bad_option_is_refused_by_its_name(repo: Path, home: Path) -> None:
    problem = refusal(repo, environ(home), max_retries=-1)
    assert problem.startswith("--max-retries: ")


def test_a_reader_sees_a_change_at_once_and_reads_only_then(repo: Path, home: Path) -> None:
    file = repo / "loopwright.toml"
    reader = SettingsReader(repo, environ=environ(home), overrides={"stuck_limit": 9})
    first = reader()
    assert reader() is first
    file.write_text("max_retries = 3\n")
    assert (reader().max_retries, reader().stuck_limit) == (3, 9)
    second = reader()
    assert reader() is second
    file.unlink()
    until(lambda: reader().max_retries == Settings().max_retries, "the file that is gone is seen")


def test_a_file_that_is_being_rewritten_counts_as_before(repo: Path, home: Path) -> None:
    file = repo / "loopwright.toml"
    file.write_text("max_retries = 3\n")
    reader = SettingsReader(repo, environ=environ(home))
    file.unlink()
    assert reader().max_retries == 3
    file.touch()
    assert reader().max_retries == 3
    file.write_text("max_retries = 4\n")
    assert reader().max_retries == 4


def test_a_file_that_becomes_bad_is_told_once_and_leaves_the_last_good_values(
    repo: Path, home: Path
) -> None:
    file = repo / "loopwright.toml"
    file.write_text("max_retries = 3\n")
    told: list[str] = []
    reader = SettingsReader(repo, environ=environ(home), report=told.append)
    file.write_text("max_retries = 'typo\n")
    assert [reader().max_retries, reader().max_retries] == [3, 3]
    assert len(told) == 1
    assert "line 1" in told[0]
    assert "stay in force" in told[0]
    fresh = file.with_suffix(".new")
    fresh.write_text("max_retries = 4\n")
    fresh.replace(file)
    assert reader().max_retries == 4


def test_a_reader_refuses_to_begin_with_a_bad_file(repo: Path, home: Path) -> None:
    (repo / "loopwright.toml").write_text("bogus = 1")
    with pytest.raises(ConfigError):
        SettingsReader(repo, environ=environ(home))


def test_a_former_name_is_still_read_and_warned_of_once(repo: Path, home: Path) -> None:
    (repo / "loopwright.toml").write_text('box_readable = ["~/tools"]\n')
    told: list[str] = []
    env = environ(home, LOOPWRIGHT_BOX_WRITABLE='["/srv/cache"]')
    reader = SettingsReader(repo, environ=env, report=told.append)
    assert reader().sandbox_readable == ("~/tools",)
    assert reader().sandbox_writable == ("/srv/cache",)
    (repo / "loopwright.toml").write_text('box_readable = ["~/more"]\n')
    assert reader().sandbox_readable == ("~/more",)
    assert told == [
        f"{repo}/loopwright.toml, line 1, by the former name box_readable: write sandbox_readable",
        "LOOPWRIGHT_BOX_WRITABLE, by the former name box_writable: write sandbox_writable",
    ]


def test_a_setting_under_both_its_names_is_refused(repo: Path, home: Path) -> None:
    (repo / "loopwright.toml").write_text('sandbox_image = "a"\nbox_image = "b"\n')
    assert refusal(repo, environ(home)) == (
        f"{repo}/loopwright.toml, line 2: box_image is the former name of sandbox_image, which is "
        "set as well; keep only sandbox_image"
    )


def test_an_unreadable_file_is_named(repo: Path, home: Path) -> None:
    (repo / "loopwright.toml").mkdir()
    assert f"{repo / 'loopwright.toml'} cannot be read" in refusal(repo, environ(home))


def test_every_setting_says_what_it_may_be() -> None:
    said = {name: allowed_values(name) for name in Settings.model_fields}
    assert said["max_live_agents"] == "a whole number from 1 to 10000"
    assert said["breakpoint_check_interval"] == "a number above 0 to 3600"
    assert said["test_command"] == "a text"
    assert said["command"] == "a list of texts"
    assert all(said.values())


def test_no_reserved_variable_has_the_name_of_a_setting() -> None:
    names = {f"LOOPWRIGHT_{name.upper()}" for name in Settings.model_fields}
    assert not names & NOT_SETTINGS
    assert not any(name in os.environ for name in names)


@pytest.mark.parametrize(
    ("said", "read"), [("auto", "auto"), ("true", True), ("false", False), ("0", False)]
)
def test_a_choice_beside_true_and_false_is_read_from_a_variable(
    repo: Path, home: Path, said: str, read: object
) -> None:
    given = environ(home, LOOPWRIGHT_REQUIRE_CI=said)
    assert load_settings(repo, environ=given).require_ci == read
    (repo / "loopwright.toml").write_text("require_ci = false")
    assert load_settings(repo, environ=environ(home)).require_ci is False


@pytest.mark.parametrize("bad", ["7", '"never"', "[]"])
def test_a_choice_beside_true_and_false_is_refused_with_all_of_them(
    repo: Path, home: Path, bad: str
) -> None:
    (repo / "loopwright.toml").write_text(f"require_ci = {bad}")
    with pytest.raises(ConfigError, match="require_ci must be true or false or auto"):
        load_settings(repo, environ=environ(home))
