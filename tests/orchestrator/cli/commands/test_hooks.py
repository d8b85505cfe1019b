"""`loopwright hooks`: looking at deliveries, and having them worked on again."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ci.forge_registry import webhooks_of
from ci.webhook_delivery import Delivery, DeliveryState, Hint, document
from ci.webhooks.receiver import MAX_BODY
from lifecycle.machine.runner_orders import DeliveriesOrder
from lifecycle.paths import Paths
from lifecycle.store.lock import RunnerLock
from tests.orchestrator.filled import HOSTILE, Cli
from tests.orchestrator.loopkit import ASK, of_store, until

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore
    from tests.orchestrator.loopkit import World

NOW = 1_700_000_000.0
PULL = {"action": "closed", "number": 7, "pull_request": {"number": 7, "head": {"ref": "topic"}}}


def delivery(key: str, state: DeliveryState = DeliveryState.MATCHED, **fields: Any) -> Delivery:
    return Delivery(
        **{
            "key": key,
            "provider": key.partition(":")[0],
            "event": "pull_request.closed",
            "received_at": NOW,
            "headers": {"x-github-event": "pull_request", "content-type": "application/json"},
            "body": json.dumps(PULL).encode(),
            "state": state,
            "outcome": "checked at once for agent-T001" if state is DeliveryState.MATCHED else "",
            "settled_at": None if state is DeliveryState.RECEIVED else NOW + 1,
            **fields,
        }
    )


class Hooks(Cli):
    """The command, on a repository with an inbox."""

    def __call__(self, *args: str) -> str:
        return super().__call__("hooks", *args)

    def refused(self, *args: str) -> str:
        """Run what must be refused; return the reason."""
        assert self(*args) == ""
        assert self.code == 2
        return self.err

    def json(self, *args: str) -> Any:
        return json.loads(self(*args, "--json"))

    def holds(self, *deliveries: Delivery) -> None:
        async def add(store: SqliteStore) -> None:
            for each in deliveries:
                assert await store.deliveries.add(each)

        of_store(self.repo, add)

    def kept(self, key: str) -> Delivery:
        found = of_store(self.repo, lambda store: store.deliveries.get(key))
        assert found is not None
        return found

    def orders(self) -> list[object]:
        requests = of_store(self.repo, lambda store: store.requests())
        return [each.event for each in requests if each.agent_id is None]

    def audit(self) -> list[tuple[str, ...]]:
        entries = of_store(self.repo, lambda store: store.trail.entries())
        return [(e.actor, e.action, e.subject, e.outcome, e.reason) for e in entries]


@pytest.fixture
def told(empty: Cli, capsys: pytest.CaptureFixture[str]) -> Hooks:
    """Return the command on a repository with five deliveries, number 1 the oldest."""
    made = Hooks(empty.repo, capsys)
    states = list(DeliveryState)
    made.holds(
        delivery("github:aa11", states[0], received_at=NOW),
        delivery("github:ab22", states[1], received_at=NOW + 1),
        delivery("gitlab:ac33", states[2], received_at=NOW + 2, outcome="nothing waits for it"),
        delivery("generic:44", states[3], event="check"),
        delivery("generic:55", states[4], event="", outcome="its body is not a JSON object"),
    )
    return made


# --- list -------------------------------------------------------------------------------------


def test_an_empty_inbox_is_told(empty: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    made = Hooks(empty.repo, capsys)
    made.holds()
    assert made().startswith("No webhook has arrived yet")
    assert made("list", "--state", "broken") == "There are no such deliveries.\n"
    assert made.json() == {"deliveries": [], "next_cursor": None}


def test_the_newest_come_first_and_what_needs_a_look_stands_out(told: Hooks) -> None:
    head, *rows = told().splitlines()
    assert head.split()[:5] == ["NO", "WHEN", "PROVIDER", "EVENT", "STATE"]
    assert [row.split()[0] for row in rows] == ["5", "4", "3", "2", "1"]
    assert rows[0].endswith("! broken     its body is not a JSON object")
    assert rows[2].endswith("! unmatched  nothing waits for it")
    assert rows[3].endswith("pull_request.closed  matched      checked at once for agent-T001")
    assert sum("!" in row for row in rows) == 2


def test_a_list_is_narrowed_and_paged(told: Hooks) -> None:
    def numbers(*args: str) -> list[int]:
        return [each["cursor"] for each in told.json("list", *args)["deliveries"]]

    assert numbers("--provider", "github") == [2, 1]
    assert numbers("--state", "unmatched") == [3]
    assert numbers("--state", "matched", "--provider", "generic") == []
    assert numbers("--limit", "2") == [5, 4]
    assert told.json("list", "--limit", "2")["next_cursor"] == 4
    assert numbers("--limit", "2", "--before", "4") == [3, 2]
    assert told.json("list", "--limit", "5")["next_cursor"] is None
    told("list", "--limit", "2")
    assert "add --before 4" in told.err


def test_the_json_of_a_list_has_everything_but_the_bodies(told: Hooks) -> None:
    (row,) = told.json("list", "--provider", "gitlab")["deliveries"]
    assert row == {
        "cursor": 3,
        "key": "gitlab:ac33",
        "provider": "gitlab",
        "event": "pull_request.closed",
        "received_at": NOW + 2,
        "headers": {"x-github-event": "pull_request", "content-type": "application/json"},
        "state": "unmatched",
        "outcome": "nothing waits for it",
        "hint": None,
        "settled_at": NOW + 1,
    }


# --- show -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["2", "github:ab22", "github:ab", "ab22", "ab"])
def test_a_delivery_is_found_by_number_key_or_beginning(told: Hooks, text: str) -> None:
    assert told.json("show", text)["key"] == "github:ab22"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", "several deliveries begin with 'a': github:aa11, github:ab22, gitlab:ac33; type"),
        ("g", "'g': generic:44, generic:55, github:aa11, github:ab22, ...; type more"),
        ("99", "no delivery '99'; `loopwright hooks list` shows"),
        ("zz", "no delivery 'zz'"),
        ("9" * 40, "no delivery '999"),
        ("", "several deliveries"),
    ],
)
def test_what_is_not_to_be_found_or_not_clear_is_refused(
    told: Hooks, text: str, reason: str
) -> None:
    said = told.refused("show", text)
    assert reason in said


def test_a_whole_key_is_meant_even_if_others_begin_with_it(told: Hooks) -> None:
    told.holds(delivery("github:aa1"), delivery("github:aa112"))
    assert told.json("show", "aa1")["key"] == "github:aa1"
    assert told.json("show", "github:aa11")["key"] == "github:aa11"


def test_all_of_a_delivery_is_shown(told: Hooks) -> None:
    hint = Hint(repo="o/r", branch="topic", sha="abc", numbers=(7,), event="pull_request.closed")
    told.holds(delivery("github:dd", hint=hint))
    lines = told("show", "dd").splitlines()
    shown = dict(line.split(maxsplit=1) for line in lines[: lines.index("")])
    assert shown["key"] == "github:dd"
    assert shown["state"].startswith("matched since ")
    assert shown["outcome"] == "checked at once for agent-T001"
    assert shown["about"] == "o/r, branch topic, abc, pull request 7"
    assert shown["x-github-event"] == "pull_request"
    assert json.loads("\n".join(lines[lines.index("") :])) == PULL
    assert '    "number": 7,' in lines
    assert told.json("show", "dd")["body"] == PULL


def test_what_strangers_wrote_cannot_fool_a_terminal(told: Hooks) -> None:
    told.holds(
        delivery(
            "github:evil",
            event=HOSTILE,
            outcome=HOSTILE,
            headers={f"x-{HOSTILE}": HOSTILE},
            body=json.dumps({HOSTILE: HOSTILE}, ensure_ascii=False).encode(),
        ),
        delivery("github:raw", body=HOSTILE.encode() + b"\xff", state=DeliveryState.BROKEN),
    )
    assert HOSTILE in told.kept("github:evil").outcome, "it is there"
    for args in (("list",), ("show", "evil"), ("show", "raw")):
        out = told(*args)
        assert out.replace("\n", "").isprintable()
        assert "\\u202e" in out
    assert "\\xff" in told.out


# --- replay -----------------------------------------------------------------------------------


def test_a_delivery_is_worked_on_again(told: Hooks) -> None:
    said = told("replay", "ab22", "--by", "ada")
    assert said.startswith("github:ab22 is queued; it is worked on when a runner starts")
    again = told.kept("github:ab22")
    assert (again.state, again.settled_at) == (DeliveryState.RECEIVED, None)
    assert again.outcome == "to be worked on again, asked for by ada"
    assert told.audit() == [("ada", "replay", "github:ab22", "done", "")]


def test_a_live_runner_is_named_and_finds_the_delivery(told: Hooks) -> None:
    root = Paths.of(told.repo).root
    with RunnerLock(root, who="loopwright up"):
        said = told("replay", "3")
    assert f"the runner (pid {os.getpid()}) takes it up" in said
    assert told.kept("gitlab:ac33").state is DeliveryState.RECEIVED
    assert [type(each) for each in told.orders()] == [DeliveriesOrder]


def test_a_runner_without_a_server_works_on_what_is_handed_in(world: World, tmp_path: Path) -> None:
    file = tmp_path / "body.json"
    file.write_text(json.dumps({"sha": "abc123", "name": "build", "state": "passed"}))
    with world.live("run", "x", "--command", world.script("ask", [ASK])):
        world.comes_to("AwaitingHuman")
        said = world.call("hooks", "replay", str(file), "--provider", "generic").stdout
        assert "takes it up" in said
        until(lambda: "received" not in world.call("hooks", "list").stdout, "it is worked on")


SAVED: dict[str, tuple[str, dict[str, Any], str]] = {
    "github": ("pull_request", PULL, "pull_request.closed"),
    "gitlab": (
        "",
        {
            "object_kind": "merge_request",
            "object_attributes": {"action": "merge", "iid": 7, "source_branch": "topic"},
        },
        "merge_request.merge",
    ),
    "gitea": ("pull_request.closed", PULL, "pull_request.closed"),
    "generic": ("", {"sha": "abc123", "name": "build", "state": "passed"}, "check"),
}


@pytest.mark.parametrize("provider", SAVED)
def test_a_saved_body_comes_in_as_if_it_were_sent(
    told: Hooks, tmp_path: Path, provider: str
) -> None:
    event, body, named = SAVED[provider]
    file = tmp_path / "saved.json"
    file.write_text(json.dumps(body, indent=1))
    told("replay", str(file), "--provider", provider, "--by", "ada", "--event", event)
    assert told.code == 0
    key = told.out.split()[0]
    assert key.startswith(f"{provider}:replay-")
    came = told.kept(key)
    assert (came.state, came.event) == (DeliveryState.RECEIVED, named)
    assert came.body == file.read_bytes()
    # What works on it later has no more than was kept.
    said = document(came.headers, came.body)
    assert said is not None
    assert webhooks_of(provider).hint(came.headers, said) is not None
    assert told.audit() == [("ada", "replay", key, "done", f"unsigned, from {file}")]

    told("replay", str(file), "--provider", provider, "--event", event)
    assert told.out.split()[0] != key, "each time it is another one"


def test_a_saved_body_that_says_too_little_is_refused(told: Hooks, tmp_path: Path) -> None:
    file, huge = tmp_path / "saved.json", tmp_path / "huge.json"
    file.write_text(json.dumps(PULL))
    assert "add --event, for example" in told.refused("replay", str(file), "--provider", "github")
    file.write_text("[1, 2]")
    assert "does not hold a JSON object" in told.refused(
        "replay", str(file), "--provider", "gitlab"
    )
    with huge.open("wb") as stream:
        stream.truncate(MAX_BODY + 1)
    assert f"more than {MAX_BODY} bytes" in told.refused(
        "replay", str(huge), "--provider", "gitlab"
    )
    missing = str(tmp_path / "missing")
    assert "No such file" in told.refused("replay", missing, "--provider", "gitlab")
    assert "a file needs --provider" in told.refused("replay", str(file))
    assert "--provider" in told.refused("replay", str(file), "--event", "push")
    assert told.audit() == []


# --- what is typed ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["show"], "takes a KEY"),
        (["replay"], "takes a KEY"),
        (["list", "12"], "takes no KEY"),
        (["listen", "12"], "takes no KEY"),
        (["show", "12", "--state", "broken"], "takes no --state"),
        (["list", "--port", "0"], "takes no --port"),
        (["list", "--before", "0", "--event", "x"], "takes no --event"),
        (["replay", "12", "--json"], "takes no --json"),
        (["list", "--state", "lost"], "invalid choice"),
        (["forget", "12"], "invalid choice"),
        (["listen", "--port", "1", "--smee", "smee.io/abc"], "is not the address of a channel"),
    ],
)
def test_what_makes_no_sense_is_refused(told: Hooks, args: list[str], reason: str) -> None:
    assert told(*args) == "" or args[0] == "listen"
    assert told.code == 2
    assert reason in told.err
