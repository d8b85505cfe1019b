"""Work is reviewed over HTTP: what is shown is what is merged, and marks hold what was seen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.orchestrator.loopkit import ASK, DONE
from tests.orchestrator.web.webkit import Site, site

if TYPE_CHECKING:
    from pathlib import Path

ADA = {"X-Loopwright-Actor": "ada"}
BEA = {"X-Loopwright-Actor": "bea"}


def _writes(name: str, text: str = "x") -> list[dict[str, Any]]:
    return [
        {"run": ["sh", "-c", f"mkdir -p $(dirname {name}); echo {text} >> {name}"]},
        {"commit": f"writes {name}"},
    ]


async def _done(found: Site, name: str, *steps: dict[str, Any], **more: Any) -> str:
    agent = await found.add(name, [*steps, DONE], **more)
    await found.comes_to("Completed", agent)
    return agent


async def test_the_queue_the_evidence_and_the_diff_of_one_lifecycle(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        script = [*_writes("a.txt"), *_writes("tests/test_a.py")]
        work = await _done(found, "w", *script, verify=["sh -c 'ls a?txt'"])
        asks = await found.add("q", [ASK])
        await found.comes_to("AwaitingHuman", asks)
        items = (await found.get("/review"))["items"]
        assert {each["agent_id"]: each["needs"] for each in items} == {
            work: "review",
            asks: "answer",
        }
        told = await found.get(f"/lifecycles/{work}/review")
        assert told["words"] == "all done"
        assert [(gate["command"], gate["ok"], gate["before"]) for gate in told["gates"]] == [
            ("sh -c 'ls a?txt'", True, False)
        ]
        assert told["flagged"] == [{"path": "tests/test_a.py", "reason": "it is a test"}]
        diff = await found.get(f"/lifecycles/{work}/diff")
        assert [each["path"] for each in diff["files"]] == ["tests/test_a.py", "a.txt"]
        assert diff["head"] == told["head"]
        split = await found.get(f"/lifecycles/{work}/diff?view=split&file=a.txt")
        assert split["files"][0]["hunks"][0]["pairs"][0]["right"]["text"] == "x"
        assert (await found.get(f"/lifecycles/{work}/merge"))["would"] == "merge"
        await found.get(f"/lifecycles/{work}/diff?of=since:99", 404)
        await found.get(f"/lifecycles/{work}/diff?of=nonsense", 422)
        await found.get(f"/lifecycles/{work}/diff?file=none", 404)


async def test_what_was_not_looked_at_is_not_merged(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        script = {"attempts": {
            "1": [*_writes("a.txt"), DONE], "default": [*_writes("b.txt"), DONE],
        }}  # fmt: skip
        agent = await found.add("w", script)
        await found.comes_to("Completed", agent)
        seen = (await found.get(f"/lifecycles/{agent}/diff"))["head"]
        await found.post(f"/lifecycles/{agent}/guide", {"text": "more"}, headers=BEA)
        await found.comes_to("Completed", agent)
        now = (await found.get(f"/lifecycles/{agent}/diff"))["head"]
        before = found.world.git("rev-parse", "main")
        path = f"/lifecycles/{agent}/accept"
        refused = await found.post(path, {"expect_head": seen}, 409, headers=ADA)
        assert refused["error"]["code"] == "moved"
        assert now in refused["error"]["text"]
        assert found.world.git("rev-parse", "main") == before
        await found.post(path, {"expect_head": "not hex"}, 422)
        await found.post(path, {"expect_head": now}, headers=ADA)
        entries = await found.store.trail.entries()
        asked = [each for each in entries if each.action == "accept"]
        assert any(now in each.details and each.actor == "ada" for each in asked)


async def test_of_two_who_accept_at_once_one_merges_and_both_are_told(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await _done(found, "w", *_writes("a.txt"))
        head = (await found.get(f"/lifecycles/{agent}/diff"))["head"]
        body = {"expect_head": head}
        path = f"/lifecycles/{agent}/accept"
        both = await asyncio.gather(
            found.post(path, body, headers=ADA), found.post(path, body, headers=BEA)
        )
        assert {each["lifecycle"]["state"] for each in both} == {"accepted"}
        merges = found.world.git("rev-list", "--min-parents=2", "--count", "main")
        assert merges == "1"


async def test_of_several_only_those_at_the_commit_that_was_seen_are_merged(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        one = await _done(found, "one", *_writes("a.txt"))
        two = await _done(found, "two", *_writes("c.txt"))
        told = await found.post("/accept", {"agents": [one, two], "heads": {two: "0000000"}})
        results = {each["agent_id"]: each for each in told["items"]}
        assert results[one]["merged"]
        assert "moved on while you looked" in results[two]["text"]
        assert not results[two]["merged"]


async def test_a_conflict_names_files_and_places(tmp_path: Path) -> None:
    async with site(tmp_path) as found:
        agent = await _done(found, "w", *_writes("README.md", "theirs"))
        (found.world.repo / "README.md").write_text("Hello\nours\n")
        found.world.git("commit", "-qam", "ours")
        told = await found.get(f"/lifecycles/{agent}/merge")
        assert told["would"] == "conflict"
        (conflict,) = told["conflicts"]
        (place,) = conflict["places"]
        assert conflict["path"] == "README.md"
        assert (place["first"], place["last"], place["left_out"]) == (2, 6, 0)
        assert (place["base"], place["work"]) == (["ours"], ["theirs"])
        refused = await found.post(f"/lifecycles/{agent}/accept", status=409)
        assert "both changed README.md; it goes back to an agent" in refused["error"]["text"]


async def test_marks_are_kept_for_each_person_and_end_where_a_file_changes(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as found:
        script = {"attempts": {
            "1": [*_writes("a.txt"), *_writes("b.txt"), DONE],
            "default": [*_writes("b.txt", "more"), DONE],
        }}  # fmt: skip
        agent = await found.add("w", script)
        await found.comes_to("Completed", agent)
        path = f"/lifecycles/{agent}/marks"
        head = (await found.get(path, headers=ADA))["head"]
        mine: dict[str, Any] = {
            "head": head,
            "seen": ["a.txt", "b.txt"],
            "comments": [{"file": "b.txt", "line": 1, "text": "why?"}],
        }
        answer = await found.client.put(f"/api/v1{path}", json=mine, headers=ADA)
        assert answer.status_code == 200, answer.text
        other = await found.get(path, headers=BEA)
        assert other["mine"]["seen"] == []
        assert other["others"][0]["person"] == "ada"
        sent = {"text": "Please mend this.", "marked": True}
        await found.post(f"/lifecycles/{agent}/guide", sent, headers=ADA)
        await found.comes_to("Completed", agent)
        journal = (await found.get(f"/lifecycles/{agent}/events?limit=200"))["items"]
        (guided,) = [each["event"] for each in journal if each["event"]["kind"] == "Guided"]
        assert guided["text"] == "Please mend this.\n\nb.txt, line 1: why?"
        left = (await found.get(path, headers=ADA))["mine"]
        assert left == {"person": "ada", "seen": ["a.txt"], "comments": []}
        late = await found.client.put(f"/api/v1{path}", json=mine, headers=ADA)
        assert (late.status_code, late.json()["error"]["code"]) == (409, "moved")
