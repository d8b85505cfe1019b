"""What an agent's commit names is not copied out of the user's checkout before that is approved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestrator.loopkit import DONE, SETTINGS, until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

INCLUDE = ".worktreeinclude"
PLANTS = [{"write": {"path": INCLUDE, "text": ".env\n"}}, {"commit": "Small things"}]


def _secret(world: World, more: str = "") -> None:
    (world.repo / ".env").write_text("TOKEN=mine\n")
    (world.repo / ".gitignore").write_text(".env\n")
    world.settings(f'{SETTINGS}test_command = "true"\n{more}')
    world.git("add", "-A")
    world.git("commit", "--quiet", "-m", "Ignore what is mine")


def _looking(world: World) -> dict[str, Any]:
    """Return the step by which an agent tells what lies in its workspace."""
    return {"run": ["sh", "-c", f"ls -A > {world.folder}/seen"]}


def _seen(world: World) -> list[str]:
    return (world.folder / "seen").read_text().split()


def test_an_accepted_list_of_files_to_copy_copies_nothing_before_it_is_approved(
    world: World,
) -> None:
    _secret(world)
    world.call("run", "x", "--command", world.script("one", [*PLANTS, DONE]))
    world.call("accept", "agent-T001")
    assert (world.repo / INCLUDE).read_text() == ".env\n"
    two = world.script("two", [_looking(world), {"commit": "y"}, DONE])
    again = world.call("run", "y", "--command", two)
    assert f"Not in force: {INCLUDE}" in again.stderr
    assert ".env" not in _seen(world)
    held = {each["name"] for each in world.json("settings")["held"]}
    assert held == {INCLUDE}

    world.call("settings", "approve")
    world.call("run", "z", "--command", two)
    assert ".env" in _seen(world)


def test_a_pull_request_with_such_a_list_is_not_merged_unasked_and_then_waits(
    world: World,
) -> None:
    _secret(world, "auto_merge = true\npr_merge_timeout = 30\n")
    opened = {"attempts": {"1": [*PLANTS, {"breakpoint": "pr_created"}],
                           "default": [_looking(world), {"commit": "y"}, DONE]}}  # fmt: skip
    with world.live("run", "x", "--command", world.script("agent", opened)) as live:
        world.comes_to("PrPending")

        def refused() -> str:
            pulls = world.json("pr", "list")["pull_requests"]
            assert all(pull["state"] == "open" for pull in pulls)
            return "".join(pull["merge_refused"] for pull in pulls)

        assert INCLUDE in until(refused, "the provider says why it does not merge")
        world.call("pr", "merge", "1")
        live.ends(0)
    assert (world.repo / INCLUDE).exists()
    assert ".env" not in _seen(world)


@pytest.mark.parametrize("copy", ["*/.env", "lnk", "**/.env"])
def test_no_link_that_an_agent_committed_leads_a_copy_out_of_the_checkout(
    world: World, copy: str
) -> None:
    _secret(world, f'copy = ["{copy}", "own/**"]\n')
    outside = world.folder / "outside"
    (outside / "own").mkdir(parents=True)
    (outside / ".env").write_text("TOKEN=another\n")
    (outside / "own" / "conf").write_text("a person's own link\n")
    (world.repo / ".git" / "info" / "exclude").write_text("/own\n")
    (world.repo / "own").symlink_to(outside / "own")
    link = {"run": ["ln", "-s", str(outside), "lnk"]}
    world.call("run", "x", "--command", world.script("one", [link, {"commit": "A link"}, DONE]))
    world.call("accept", "agent-T001")
    assert (world.repo / "lnk" / ".env").exists()
    # The next agent takes the link away: what is copied there would not go through it any more.
    away = [{"run": ["git", "rm", "-q", "lnk"]}, {"commit": "No link"}, {"exit": 1}]
    look = {"run": ["sh", "-c", f"ls -A . lnk own > {world.folder}/seen || true"]}
    two = {"attempts": {"1": away, "default": [look, {"commit": "y"}, DONE]}}
    world.call("run", "y", "--command", world.script("two", two))
    assert "lnk:" not in _seen(world)
    assert "conf" in _seen(world), "a person's own link may lead anywhere"
