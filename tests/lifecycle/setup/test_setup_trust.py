"""What an agent wrote judges nothing by way of a set-up, and gets no network by it."""

from __future__ import annotations

import sys

import pytest

from lifecycle.machine.events import GatesFinished, Unblocked
from lifecycle.machine.states import About, AwaitingHuman
from lifecycle.result import LoopResultType
from tests.lifecycle.setup.setups import lock, sh
from tests.lifecycle.world import AGENT, DONE, World, commit
from tests.tools.machine import gives

# --- nobody poisons it ------------------------------------------------------------------------

SITE = ".venv/lib/python3*/site-packages"
VENV = (
    f"{sys.executable} -m venv --without-pip .venv",
    f"for site in {SITE}; do cp tool.lock $site/tool.py; done",
)
TOOL = "assert open('answer.txt').read() == 'right'\n"
"""A test tool among the installed packages, and what it tests."""
JUDGED = ["sh tests.sh", ".venv/bin/python -m tool"]
FORGE = f"for tool in {SITE}/tool.py; do "


@pytest.mark.parametrize("poison", [
    FORGE + "touch -r $tool was; printf '%-44s' pass > $tool; touch -r was $tool; done",
    FORGE + "echo pass > forged; mv forged $tool; done",
    FORGE + "echo 'import os; os._exit(0)' > ${tool%tool.py}sitecustomize.py; done",
    FORGE + "rm $tool; mkdir ${tool%.py}; cd ${tool%.py}; touch __init__.py __main__.py; done",
    "mv .venv away; mkdir -p .venv/bin; echo : > .venv/bin/python; chmod +x .venv/bin/python",
    "rm .venv/bin/python; ln -s /bin/true .venv/bin/python",
])  # fmt: skip
async def test_what_a_test_leaves_among_installed_packages_judges_no_later_attempt(
    world: World, poison: str
) -> None:
    (world.repo / "tool.lock").write_text(TOOL)
    lock(world)
    result = await world.run(
        {1: [*commit("answer.txt", "wrong"), *commit("tests.sh", f"{poison}; exit 1"), DONE],
         2: [*commit("tests.sh", "true"), DONE]},
        task=world.task(verify=JUDGED), setup=VENV, max_retries=1, baseline=False,
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES, "a forged tool judged the change"
    verdicts = [entry.event for entry in await world.journal()]
    last = [event for event in verdicts if isinstance(event, GatesFinished)][-1]
    assert [gate.ok for gate in last.gates] == [True, False]
    assert "AssertionError" in last.gates[1].excerpt


async def test_what_a_hook_of_one_commit_leaves_in_its_set_up_judges_no_other_commit(
    world: World,
) -> None:
    (world.repo / "tool.lock").write_text(TOOL)
    lock(world)
    hook = FORGE + "echo pass > $tool; done"
    drop = sh("git rm -q hook.sh")
    result = await world.run(
        {1: [*commit("answer.txt", "wrong"), *commit("hook.sh", hook), DONE],
         2: [drop, *commit("more.txt"), DONE]},
        task=world.task(verify=["test ! -e hook.sh", JUDGED[1]]), max_retries=1, baseline=False,
        setup=(*VENV, "F=hook; test ! -e $F.sh || sh $F.sh"),
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES, "a forged tool judged the change"


async def test_a_forged_tool_is_made_again_before_the_next_gate_of_the_same_verdict(
    world: World,
) -> None:
    (world.repo / "tool.lock").write_text(TOOL)
    lock(world)
    forge = FORGE + "echo pass > $tool; done"
    result = await world.run(
        [*commit("answer.txt", "wrong"), *commit("tests.sh", forge), DONE],
        task=world.task(verify=JUDGED), setup=VENV, max_retries=0, baseline=False,
    )  # fmt: skip
    assert "`.venv/bin/python -m tool` ended with code 1" in str(result.error)


async def test_packages_that_an_agent_committed_are_not_taken_for_installed_ones(
    world: World,
) -> None:
    lock(world)
    forced = "mkdir -p node_modules; echo exit 0 > node_modules/check; git add -f node_modules"
    result = await world.run(
        [sh(forced), {"commit": "my own tools"}, DONE],
        task=world.task(verify=["sh node_modules/check"]), max_retries=0, baseline=False,
        setup=("mkdir -p node_modules && echo 'exit 1' > node_modules/check",),
    )  # fmt: skip
    assert result.result_type is LoopResultType.MAX_RETRIES
    (judged,) = [
        entry.event for entry in await world.journal() if isinstance(entry.event, GatesFinished)
    ]
    assert "git rm -r --cached node_modules" in judged.gates[0].excerpt


@pytest.mark.parametrize("network", ["allow", "none"])
async def test_folders_that_are_only_called_like_installed_packages_may_be_committed(
    world: World, network: str
) -> None:
    if not gives(network=network):
        return
    lock(world)
    made = sh("mkdir -p data/venv venv; echo 1 | tee data/venv/a > venv/a; git add -f data venv")
    result = await world.run(
        [made, {"commit": "data"}, DONE], baseline=False, network=network, max_retries=0,
        task=world.task(verify=["test -f venv/a && test -f node_modules/check"]),
        setup=("mkdir -p node_modules && echo 'exit 1' > node_modules/check",),
    )  # fmt: skip
    assert result.result_type is LoopResultType.TASK_COMPLETE, result


# --- the network of a set-up ------------------------------------------------------------------

ONLINE = (
    "import socket, sys; names = [name for _, name in socket.if_nameindex() if name != 'lo']; "
    "sys.exit(0 if names or not open('lock.txt').read().startswith('new') else 'no network')"
)
NEEDS_NETWORK = (f'{sys.executable} -c "{ONLINE}"', "mkdir -p deps && cp lock.txt deps/")
"""Can install what `lock.txt` names at first; for what is new it needs the network."""


async def test_new_packages_of_an_agent_without_network_are_decided_by_a_person(
    world: World,
) -> None:
    if not gives(network="none"):
        return
    lock(world, "deps")
    steps = [sh("echo new > lock.txt"), {"commit": "new package"}, DONE]
    task = world.task(verify=["grep -q new deps/lock.txt"])
    async with world.running(
        steps, task=task, setup=NEEDS_NETWORK, network="none", setup_network="allow"
    ) as running:
        await running.at("AwaitingHuman")
        waiting = await world.work()
        assert isinstance(waiting, AwaitingHuman)
        assert waiting.about is About.SETUP
        assert "what the set-up installs (lock.txt) and has no network" in waiting.text
        assert f"`loopwright unblock {AGENT}`" in waiting.text
        await running.ask(Unblocked)
        result = await running.result()
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 1), result


async def test_what_a_person_let_through_serves_the_work_that_builds_on_it(world: World) -> None:
    if not gives(network="none"):
        return
    lock(world, "deps")
    verify = ["grep -q new deps/lock.txt"]
    steps = [sh("echo new > lock.txt"), {"commit": "new package"}, DONE]
    async with world.running(
        steps, task=world.task(verify=verify), setup=NEEDS_NETWORK, network="none"
    ) as running:
        await running.at("AwaitingHuman")
        await running.ask(Unblocked)
        await running.result()
        after = world.task("T002", dependencies=["T001"], verify=verify)
        agent = world.agent([sh("cat deps/lock.txt"), *commit("x.txt"), DONE], "agent-T002")
        result = await running.loop.run_agent_loop(agent, after)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 1), result


async def test_code_of_an_agent_without_network_gets_none_by_the_set_up(world: World) -> None:
    if not gives(network="none"):
        return
    hook = "import socket; print(len(socket.if_nameindex()) > 1)"
    (world.repo / "hook.py").write_text(hook)
    lock(world, "deps")
    # The set-up runs a file that is none of its inputs, as hooks of packages and builds are.
    setup = f"mkdir -p deps && F=hook; {sys.executable} $F.py > deps/said"
    record = f"{hook}\nprint('agent was here')"
    result = await world.run(
        [*commit("hook.py", record), DONE], setup=(setup,), network="none", baseline=False,
        task=world.task(verify=["cat deps/said; ! grep -q 'agent was here' deps/said"]),
    )  # fmt: skip
    assert result.result_type is LoopResultType.TASK_COMPLETE, result


async def test_what_an_agent_left_in_its_workspace_gets_no_network_by_the_set_up(
    world: World,
) -> None:
    if not gives(network="none"):
        return
    lock(world, ".env", "tools")
    (world.repo / ".env").write_text("KEY=1\n")
    escaped = world.folder / "escaped"
    setup = ("mkdir -p tools; test -f tools/run || echo true > tools/run", "sh tools/run")
    plant = sh(f"rm .env; echo 'ls /sys/class/net > {escaped}' > tools/run")
    result = await world.run(
        {1: [plant, {"exit": 1}], 2: [sh("grep KEY .env"), *commit("x.txt"), DONE]},
        setup=setup, copy=(".env",), network="none",
    )  # fmt: skip
    assert result.result_type is LoopResultType.TASK_COMPLETE, result
    assert "KEY=1" in world.paths.log(AGENT, 2).read_text()
    assert not escaped.exists(), "code of the agent ran with network"
