"""Settings over HTTP: origins, what an agent changed, approved or refused by admins; `doctor`."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

from orchestrator.approval.agent_commits import AgentCommitWatch
from orchestrator.control import approve_settings
from orchestrator.runner.settings_audit import SEEN
from orchestrator.web.edge.passes import VisitorRole
from tests.orchestrator.loopkit import DONE, SETTINGS
from tests.orchestrator.web.pages.browsing import browser
from tests.orchestrator.web.webkit import Site, site
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


async def changed_by_agent(found: Site, planted: str = "wall_limit = 900\n") -> dict[str, Any]:
    """Have an agent's accepted work change a setting; returns what waits then."""
    world = found.world
    world.settings(f"{SETTINGS}wall_limit = 60\n")
    await asyncio.to_thread(world.git, "commit", "--quiet", "-am", "Limit agents")
    _, approvals = await asyncio.to_thread(approve_settings.read, world.repo, os.environ)
    masker = found.engine.shared.masker
    await approvals.keep(found.store, by="Ada", at=1.0, masker=masker)
    text = f"{SETTINGS}{planted}"
    steps = [{"write": {"path": "loopwright.toml", "text": text}}, {"commit": "Tidy up"}, DONE]
    agent = await found.add("tidy", steps)
    await found.comes_to("Completed", agent)
    # A runner does this at the end of each attempt; this one is put together without it.
    since, tip = world.git("rev-parse", "main"), world.git("rev-parse", f"agent/{agent}")
    watch = AgentCommitWatch(world.repo, masker)
    await watch.captured(found.store, agent, [since], [tip])
    await found.post(f"/lifecycles/{agent}/accept")
    held: dict[str, Any] = await found.get("/settings")
    return held


def wall_limit(told: dict[str, Any]) -> dict[str, Any]:
    (row,) = [each for each in told["settings"] if each["name"] == "wall_limit"]
    found: dict[str, Any] = row
    return found


async def test_every_setting_is_told_with_its_origin_and_what_it_means(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        found.world.settings(f"{SETTINGS}wall_limit = 60\n")
        told = await found.get("/settings")
        row = wall_limit(told)
        assert (row["value"], row["restricts"]) == (60, True)
        assert "loopwright.toml" in row["source"]
        by_name = {each["name"]: each for each in told["settings"]}
        assert by_name["port"]["source"] == "default"
        assert by_name["port"]["value"] == by_name["port"]["default"]
        assert all(each["about"] for each in told["settings"])
        assert told["held"] == []


async def test_a_change_by_an_agent_waits_with_both_values_and_its_commit_until_approved(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        told = await changed_by_agent(found)
        (held,) = told["held"]
        assert (held["name"], held["file"]) == ("wall_limit", "loopwright.toml")
        assert (held["approved"], held["value"]) == (60, 900)
        assert held["agent_id"] == "tidy"
        assert held["commit"]["subject"] == "Tidy up"
        assert held["refused"] is None
        assert wall_limit(told)["value"] == 60
        wrong = {"changes": ["0" * 16]}
        error = (await found.post("/settings/approve", wrong, 409))["error"]
        assert "does not wait any more" in error["text"]
        told = await found.post("/settings/approve", {"changes": [held["id"]]})
        assert told["held"] == []
        assert wall_limit(told)["value"] == 900
        await found.post("/settings/approve", {"changes": [held["id"]]}, 409)
        await found.post("/settings/approve", {"changes": []}, 422)


async def test_an_approval_is_one_entry_of_the_audit_by_who_approved(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        (held,) = (await changed_by_agent(found))["held"]
        await found.post("/settings/approve", {"changes": [held["id"]]})
        await runner_saw(found, 900)
        assert await acts_on_wall_limit(found) == [("api", "approved", 900)]
        found.world.settings(f"{SETTINGS}wall_limit = 800\n")
        await runner_saw(found, 800)
        found.world.settings(f"{SETTINGS}wall_limit = 900\n")
        await runner_saw(found, 900)
        assert [to for _, _, to in await acts_on_wall_limit(found)] == [900, 800, 900]


async def runner_saw(found: Site, value: int) -> None:
    """Wait until it has: it looks with each turn, which a waiting one passes in an instant."""

    async def seen() -> bool:
        return (await found.store.all(SEEN)).get(SEEN, {}).get("wall_limit") == value

    await until(seen, f"the runner has seen wall_limit = {value}")


async def acts_on_wall_limit(found: Site) -> list[tuple[str, str, int]]:
    """Return who did what with it, and to which value, since an agent was to change it."""
    entries = await found.store.trail.entries()
    return [
        (each.actor, each.outcome, json.loads(each.details)["to"])
        for each in entries
        if (each.action, each.subject) == ("setting", "wall_limit")
    ][1:]


async def test_a_refused_change_stays_out_of_force_and_says_who_refused_it(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        (held,) = (await changed_by_agent(found))["held"]
        told = await found.post("/settings/refuse", {"changes": [held["id"]], "why": "too long"})
        (held,) = told["held"]
        assert (held["refused"]["by"], held["refused"]["why"]) == ("api", "too long")
        assert wall_limit(told)["value"] == 60
        entry = (await found.store.trail.entries())[-1]
        assert (entry.subject, entry.outcome) == ("wall_limit", "refused")
        assert entry.reason.endswith("by the work of tidy: too long")


async def test_only_admins_approve_settings(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        (held,) = (await changed_by_agent(found))["held"]
        async with browser(found, VisitorRole.OPERATOR) as visit:
            await visit.page("/")
            answer = await visit.client.post(
                "/api/v1/settings/approve",
                json={"changes": [held["id"]]},
                headers={"x-csrf-token": visit.guard, "accept": "application/json"},
            )
            assert answer.status_code == 403, answer.text
        assert wall_limit(await found.get("/settings"))["value"] == 60


async def test_doctor_is_asked_in_a_process_of_its_own_and_not_for_each_request(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        first, second = await asyncio.gather(found.get("/doctor"), found.get("/doctor"))
        assert first == second
        names = {each["what"] for each in first["checks"]}
        assert {"git", "python"} <= names, first
        assert all(each["level"] in {"ok", "warn", "bad"} for each in first["checks"])


async def test_the_command_refuses_and_then_names_it_as_waiting_no_more(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        await changed_by_agent(found)
        call = found.world.call
        before = (await asyncio.to_thread(call, "settings")).stdout
        assert "Waits: wall_limit" in before
        wrong = await asyncio.to_thread(call, "settings", "refuse", "nothing", code=2)
        assert "no change of nothing waits" in wrong.stderr
        done = await asyncio.to_thread(
            call, "settings", "refuse", "wall_limit", "--by", "Ada", "--why", "too long"
        )
        assert "wall_limit: stays 60" in done.stdout
        after = (await asyncio.to_thread(call, "settings")).stdout
        assert "Refused by Ada: wall_limit" in after
        assert "Waits" not in after
        assert approve_settings.waiting(found.world.repo, os.environ) == ""
        assert (await found.get("/settings"))["held"][0]["refused"]["why"] == "too long"


LITERAL = {
    "option": ("tR4nspor7Word", 'command = ["send", "--api-token", "{}"]'),
    "header": (
        "s3cretOfThePager",
        "command = \"curl -H 'Authorization: Bearer {}' https://p.example\"",
    ),
    "assigned": ("wordOfTheBot77", 'command = "TOKEN={} ./send"'),
    "path": ("B1ABCDEFGHabcdefgh", 'command = "curl https://hooks.example/services/{}"'),
    "webhook": ("0b9c3f1e-a1b2", 'webhook = "https://hooks.example/in/x?key={}"\nsecret = "env:X"'),
    "apprise": ("12345:botword99", 'url = "tgram://{}/77"'),
}


async def test_secrets_that_were_written_into_the_settings_are_shown_nowhere(
    tmp_path: Path,
) -> None:
    entries = [f'[[notify]]\nname = "{name}"\n{line.format(secret)}\n'
               for name, (secret, line) in LITERAL.items()]  # fmt: skip
    async with site(tmp_path) as found:
        found.world.settings(SETTINGS + "\n".join(entries))
        async with browser(found, VisitorRole.VIEWER) as visit:
            page = await visit.page("/settings")
        told = json.dumps(await found.get("/settings"))
        listed = await asyncio.to_thread(found.world.call, "settings")
        listed_json = await asyncio.to_thread(found.world.call, "settings", "--json")
        checked = await asyncio.to_thread(found.world.call, "doctor", "--json", code=None)
    texts = (page, told, listed.stdout, listed_json.stdout, checked.stdout)
    for name, (secret, _) in LITERAL.items():
        for place, text in enumerate(texts):
            assert name in text, (name, place)
            assert secret not in text, (name, place)
    assert "https://p.example" in listed_json.stdout
