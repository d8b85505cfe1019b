"""`loopwright mcp --operator`, spoken to by the protocol's own client over standard input."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from tests.orchestrator.loopkit import ASK, BIN, DONE, SETTINGS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.orchestrator.loopkit import World

pytestmark = pytest.mark.timeout(240)
READING = ["list", "show", "diff", "add", "answer", "guide"]
WORK = [{"write": {"path": "a.txt", "text": "one\n"}}, {"commit": "Work"}, DONE]


@asynccontextmanager
async def _person(world: World, *more: str) -> AsyncIterator[Client]:
    server = StdioServerParameters(
        command=str(BIN / "loopwright"),
        args=["mcp", "--operator", "--by", "anna", *more],
        env=dict(os.environ),
        cwd=world.repo,
    )
    async with Client(stdio_client(server)) as client:
        yield client


async def _call(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    text = "\n".join(each.text for each in answer.content)  # type: ignore[union-attr]  # texts only
    assert not answer.is_error, text
    return text


async def _refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    return "\n".join(each.text for each in answer.content)  # type: ignore[union-attr]  # as above


@pytest.fixture
def worked(world: World) -> World:
    """Return a repository with a task that asks and one that is done."""
    plan = world.plan_of({"Q": {"attempts": {"1": [ASK], "default": [DONE]}}, "D": WORK})
    world.call("up", plan, "--no-server", "--no-stay", code=3)
    world.settings(f'{SETTINGS}command = ["true"]\n')
    return world


async def test_a_program_sees_asks_and_says_what_a_person_can_and_decides_nothing(
    worked: World,
) -> None:
    async with _person(worked) as client:
        tools = (await client.list_tools()).tools
        assert [each.name for each in tools] == READING
        assert [each.name for each in tools if each.annotations.read_only_hint] == READING[:3]  # type: ignore[union-attr]  # each has them

        rows = json.loads(await _call(client, "list", needs_me=True))["lifecycles"]
        assert {row["task_id"]: row["state"] for row in rows} == {"Q": "needs-you", "D": "done"}
        assert "Blue or green?" in await _call(client, "show", task="Q")
        diff = await _call(client, "diff", task="D")
        assert "+one" in diff
        assert "+one" in await _call(client, "diff", task="D", file="a.txt")

        await _call(client, "answer", task="Q", text="--blue, please")
        await _call(client, "guide", task="agent-D", text="Also a b.txt")
        added = await _call(client, "add", text="--one more")
        assert "added with task" in added

        assert "for the person" in await _refused(client, "accept", task="D", head="1234567")
        assert "no lifecycle '--all'" in await _refused(client, "show", task="--all")
        assert "must be true or false" in await _refused(client, "list", all="yes")
        assert "needs 'text'" in await _refused(client, "answer", task="Q")
        assert "no tool" in await _refused(client, "rm")
    told = await asyncio.to_thread(worked.json, "audit")
    who = {(each["action"], each["actor"]) for each in told}
    client_name = "mcp"
    for action in ("answer", "guide", "add"):
        assert (action, f"anna via {client_name} (mcp)") in who, who


async def test_tasks_diffs_and_summaries_can_be_read_by_address(worked: World) -> None:
    async with _person(worked) as client:
        listed = [each.uri for each in (await client.list_resources()).resources]
        assert "loopwright://tasks/agent-D/diff" in listed
        assert len(listed) == 6
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == [
            "loopwright://tasks/{task}",
            "loopwright://tasks/{task}/diff",
            "loopwright://tasks/{task}/summary",
        ]
        texts = {}
        for part in ("", "/diff", "/summary"):
            read = await client.read_resource(f"loopwright://tasks/D{part}")
            texts[part] = read.contents[0].text  # type: ignore[union-attr]  # texts only
        assert "done" in texts[""]
        assert "+one" in texts["/diff"]
        assert "Task" in texts["/summary"]
        for wrong in ("loopwright://tasks/none", "loopwright://tasks/D/rm", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="there is no"):
                await client.read_resource(wrong)


async def test_with_leave_to_decide_only_what_was_seen_is_merged(worked: World) -> None:
    async with _person(worked, "--allow-decide") as client:
        diff = await _call(client, "diff", task="D")
        head = worked.git("rev-parse", "agent/agent-D")
        assert head[:12] in diff.splitlines()[0]
        moved = await _refused(client, "accept", task="D", head="0" * 12)
        assert head[:7] in moved
        assert "not the id of a commit" in await _refused(client, "accept", task="D", head="")
        assert not (worked.repo / "a.txt").exists()
        await _call(client, "accept", task="D", head=head[:12], why="it is right")
        assert (worked.repo / "a.txt").read_text() == "one\n"
        await _call(client, "reject", task="Q", why="not wanted")
    assert worked.row("agent-Q")["coarse"] == "rejected"


def test_an_agent_gets_no_tools_of_a_person(world: World) -> None:
    place = world.folder / "said"
    line = f"{BIN / 'loopwright'} mcp --operator --allow-decide </dev/null >{place} 2>&1; true"
    steps = [{"run": ["sh", "-c", line]}, DONE]
    world.json("run", "Do it", "--command", world.script("agent", steps))
    assert "only a person may use the tools of a person" in place.read_text()


def test_options_of_the_operator_need_it(world: World) -> None:
    assert "go with --operator" in world.call("mcp", "--allow-decide", code=2).stderr
