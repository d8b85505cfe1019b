"""A package offers a source of tasks by an entry point: the example for Linear does."""

from __future__ import annotations

import asyncio
import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from graphql import parse

from tests.ci.forge_server import answers, forge_server

if TYPE_CHECKING:
    from tests.ci.forge_server import Asked, Reply
    from tests.orchestrator.loopkit import World

EXAMPLE = Path(__file__).parents[3] / "examples" / "linear_tasks"


@pytest.fixture
def linear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the example as if it were installed."""
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    info = tmp_path / "site" / "linear_tasks-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: linear-tasks\nVersion: 0.1.0\n")
    lines = [f"{name} = {value}" for name, value in points["loopwright.tasks"].items()]
    (info / "entry_points.txt").write_text("\n".join(("[loopwright.tasks]", *lines)))
    monkeypatch.syspath_prepend(str(info.parent))
    monkeypatch.syspath_prepend(str(EXAMPLE))


def issue(name: str, priority: int, *blockers: str) -> dict[str, Any]:
    relations = [{"type": "blocks", "issue": {"identifier": each}} for each in blockers]
    relations.append({"type": "related", "issue": {"identifier": "ENG-1"}})
    return {
        "identifier": name, "title": f"Do {name}", "description": None, "priority": priority,
        "url": f"https://linear.app/acme/issue/{name}", "labels": {"nodes": [{"name": "ready"}]},
        "inverseRelations": {"nodes": relations},
    }  # fmt: skip


PAGES = {
    None: ([issue("ENG-3", 0, "ENG-2", "ENG-9"), issue("ENG-2", 2)], "c1"),
    "c1": ([issue("ENG-4", 1)], None),
}


def graphql(asked: Asked) -> Reply:
    parse(asked.json()["query"])
    if asked.headers["authorization"] != "a-key":
        return answers({"errors": [{"message": "Authentication required"}]})
    variables = asked.json()["variables"]
    nodes, after = PAGES[variables["after"]] if variables["label"] == "ready" else ([], None)
    page = {"hasNextPage": after is not None, "endCursor": after}
    return answers({"data": {"issues": {"nodes": nodes, "pageInfo": page}}})


@pytest.mark.usefixtures("linear")
async def test_issues_of_linear_become_a_plan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with forge_server() as server:
        server.route("POST", "/graphql", graphql)
        monkeypatch.setenv("LINEAR_API_URL", f"{server.url}/graphql")
        monkeypatch.setenv("LINEAR_API_KEY", "a-key")
        typed: tuple[str, ...] = ("tasks", "import", "linear:label=ready")
        read = await asyncio.to_thread(world.json, *typed)
        tasks = [(each["id"], each.get("dependencies", [])) for each in read["tasks"]]
        assert tasks == [("ENG-4", []), ("ENG-2", []), ("ENG-3", ["ENG-2"])]
        assert read["tasks"][0]["source"] == "https://linear.app/acme/issue/ENG-4"
        again = await asyncio.to_thread(world.json, *typed, "--append")
        assert again["known"] == ["ENG-4", "ENG-2", "ENG-3"]
        for source, told in {
            "linear:label=nobody": "linear:label=nobody: the plan has no tasks",
            "linear:all": "write linear:label=NAME",
            "lineal:x": "gitea:, command:, linear",
        }.items():
            typed = ("tasks", "import", source, "--dry-run")
            refused = await asyncio.to_thread(partial(world.call, *typed, code=2))
            assert told in refused.stderr
        monkeypatch.setenv("LINEAR_API_KEY", "another")
        typed = ("tasks", "import", "linear:label=ready", "--dry-run")
        refused = await asyncio.to_thread(partial(world.call, *typed, code=2))
        assert "Authentication required" in refused.stderr
