"""How a process is to be started: arguments, variables, files; and adapters from elsewhere."""

from __future__ import annotations

import json
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from runtime.agents.adapter import Adapter, LaunchRequest, McpServer, plan
from runtime.agents.catalogue import BUILT_IN, adapter, adapters, built_in
from runtime.errors import SpawnError

if TYPE_CHECKING:
    from pathlib import Path

SERVER = McpServer("loopwright", ("/bin/tool server", "mcp", 'a"b'), {"SPAWN": "s1"})
REAL = BUILT_IN[:-1]


def of(name: str, **wanted: object) -> LaunchRequest:
    known: dict[str, object] = {"config_folder": "/private"}
    if name == "command":
        known["command"] = ("./my-agent", "--fast")
    return LaunchRequest(**(known | wanted))  # type: ignore[arg-type]  # checked by the product's own use


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_prompt_is_no_argument_and_nothing_is_left_to_fill_in(name: str) -> None:
    launch = plan(built_in(name), of(name, model="" if name == "command" else "m-1"))
    assert not any("{" in part for part in launch.argv)
    if name != "command":
        assert launch.argv[0] == name
        assert "m-1" in launch.argv


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        (
            "claude",
            (
                "claude -p --output-format stream-json --verbose --dangerously-skip-permissions "
                "--model m --resume s --max-turns 9"
            ),
        ),
        (
            "codex",
            (
                "codex exec resume s --json --skip-git-repo-check "
                "--dangerously-bypass-approvals-and-sandbox -m m -"
            ),
        ),
        ("gemini", "gemini --output-format stream-json --yolo -m m --resume s"),
        (
            "opencode",
            "opencode run --format json --print-logs --log-level ERROR --auto -m m --session s",
        ),
        ("copilot", "copilot --no-color --output-format json --allow-all --model m --resume s"),
    ],
)
def test_the_whole_command_line(name: str, argv: str) -> None:
    wanted = of(name, model="m", resume="s", session_id="new", max_turns=9)
    assert plan(built_in(name), wanted).argv == tuple(argv.split())


@pytest.mark.parametrize("name", REAL)
def test_a_watched_agent_gets_no_leave_to_do_everything(name: str) -> None:
    launch = plan(built_in(name), of(name, unattended=False))
    assert not {"--yolo", "--auto", "--allow-all", "--dangerously-skip-permissions"} & set(
        launch.argv
    )
    assert "allow" not in "".join(launch.env.values())


def test_only_claude_as_root_is_told_that_it_is_in_a_sandbox() -> None:
    assert plan(built_in("claude"), of("claude", as_root=True)).env["IS_SANDBOX"] == "1"
    assert "IS_SANDBOX" not in plan(built_in("claude"), of("claude")).env
    assert (
        "IS_SANDBOX"
        not in plan(built_in("claude"), of("claude", as_root=True, unattended=False)).env
    )


@pytest.mark.parametrize("name", REAL)
def test_a_key_reaches_the_program_only_when_it_was_asked_for(name: str) -> None:
    known = built_in(name)
    key = known.keys[0]
    source = dict.fromkeys((*known.keys, *known.passes), "secret")
    env = plan(known, of(name)).environment({"PATH": "/bin", key: "leaked"}, source)
    assert not set(env) & set(known.keys)
    assert set(known.passes) <= set(env)
    asked = plan(known, of(name, passes=(key,))).environment({"PATH": "/bin"}, source)
    assert set(asked) & set(known.keys) == {key}


@pytest.mark.parametrize("name", REAL)
def test_a_tool_server_is_made_known_in_the_programs_own_form(name: str) -> None:
    launch = plan(built_in(name), of(name, mcp=SERVER, as_root=True))
    files = {file.path: json.loads(file.text) for file in launch.files}
    if name == "claude":
        (path,) = files
        assert launch.argv[-3:] == ("--mcp-config", path, "--strict-mcp-config")
        assert launch.env["ENABLE_TOOL_SEARCH"] == "false"
        entry = files[path]["mcpServers"]["loopwright"]
        assert (entry["command"], entry["args"]) == (SERVER.command[0], ["mcp", 'a"b'])
    elif name == "codex":
        at = [n for n, part in enumerate(launch.argv) if part == "-c"]
        told = tomllib.loads("\n".join(launch.argv[n + 1] for n in at))
        assert told["mcp_servers"]["loopwright"] == {
            "command": SERVER.command[0],
            "args": ["mcp", 'a"b'],
            "required": True,
            "env": {"SPAWN": "s1"},
        }
    elif name == "gemini":
        path = launch.env["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"]
        assert files[path]["mcpServers"]["loopwright"]["env"] == {"SPAWN": "s1"}
    elif name == "opencode":
        told = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
        assert told["mcp"]["loopwright"]["command"] == list(SERVER.command)
    else:
        (path,) = files
        assert launch.argv[-2:] == ("--additional-mcp-config", f"@{path}")
    assert all(path.startswith("/private/") for path in files)


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("claude", "mcp__loopwright__report"),
        ("codex", "mcp__loopwright__report"),
        ("gemini", "mcp_loopwright_report"),
        ("opencode", "loopwright_report"),
        ("copilot", "loopwright-report"),
    ],
)
def test_the_name_of_a_tool_is_known(name: str, tool: str) -> None:
    form = built_in(name).mcp
    assert form is not None
    assert form.tool_name("loopwright", "report") == tool


def test_gemini_gets_no_file_that_it_would_not_read() -> None:
    launch = plan(built_in("gemini"), of("gemini", mcp=SERVER, max_turns=7))
    assert launch.files == ()
    assert "GEMINI_CLI_SYSTEM_DEFAULTS_PATH" not in launch.env
    private = plan(built_in("gemini"), of("gemini", mcp=SERVER, private_config=True))
    (file,) = private.files
    assert json.loads(file.text)["mcpServers"]["loopwright"]["trust"] is True


def test_private_settings_of_gemini_are_in_its_own_home() -> None:
    launch = plan(built_in("gemini"), of("gemini", private_config=True, max_turns=7))
    (file,) = launch.files
    assert launch.env["GEMINI_CLI_HOME"] == "/private"
    assert file.path == "/private/.gemini/settings.json"
    told = json.loads(file.text)
    assert told["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert told["model"]["maxSessionTurns"] == 7


def test_braces_of_a_user_stay_what_they_are() -> None:
    launch = plan(built_in("claude"), of("claude", model="{resume}", resume="x{model}"))
    assert launch.argv[-4:] == ("--model", "{resume}", "--resume", "x{model}")
    command = ("run", "{model}", "{program}")
    assert plan(built_in("command"), LaunchRequest(command=command)).argv == command


@pytest.mark.parametrize(
    ("name", "wanted", "told"),
    [
        ("command", LaunchRequest(), "give its command line"),
        ("claude", LaunchRequest(command=("x",)), "has its own command line"),
        ("command", LaunchRequest(command=("x",), mcp=SERVER), "supports no tool server"),
        ("claude", LaunchRequest(mcp=SERVER), "needs a folder"),
        ("codex", LaunchRequest(private_config=True), "needs a folder"),
        ("codex", LaunchRequest(model="--yolo"), "looks like an option"),
        ("codex", LaunchRequest(resume="-c"), "looks like an option"),
        ("codex", LaunchRequest(model="a\0b"), "NUL"),
    ],
)
def test_what_cannot_be_started_is_refused_with_what_to_do(
    name: str, wanted: LaunchRequest, told: str
) -> None:
    with pytest.raises(SpawnError, match=told):
        plan(built_in(name), wanted)


def test_files_do_not_show_their_text_in_logs() -> None:
    (file,) = plan(built_in("claude"), of("claude", mcp=SERVER)).files
    assert "SPAWN" not in repr(file)


def test_an_unknown_adapter_is_refused_with_those_there_are() -> None:
    with pytest.raises(SpawnError, match="there are: claude, codex"):
        adapter("clod")


def _package(folder: Path, name: str, points: str, code: str) -> None:
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[loopwright.adapters]\n{points}\n")


def test_installed_packages_add_adapters_and_broken_ones_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _package(
        tmp_path,
        "plug_qwen",
        "\n".join(f"{name} = plug_qwen:{name}" for name in ("mine", "again", "bad", "odd", "out")),
        "from dataclasses import replace\n"
        "from runtime.agents.adapters.claude import ADAPTER\n"
        "mine = replace(ADAPTER, name='qwen', programs=('qwen',))\n"
        "def again():\n    return [ADAPTER]\n"
        "odd = 5\n"
        "def out():\n    raise SystemExit(3)\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    complaints: list[tuple[str, str]] = []
    try:
        found = adapters(lambda point, why: complaints.append((point, why)))
        assert adapter("qwen").programs == ("qwen",)
    finally:
        sys.modules.pop("plug_qwen", None)
    assert tuple(found) == (*BUILT_IN, "qwen")
    assert isinstance(found["qwen"], Adapter)
    assert found["claude"] is built_in("claude")
    assert {point for point, _ in complaints} == {"again", "bad", "odd", "out"}
    assert dict(complaints)["out"] == "3"
