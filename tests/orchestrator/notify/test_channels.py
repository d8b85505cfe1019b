"""Each way into a channel, on real receivers, and `loopwright notify` before them."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message

from lifecycle.notify.channel import NotifyChannel
from lifecycle.notify.message import Notification
from orchestrator.notify import apprise_urls
from orchestrator.notify.channels import ChannelSender, key_of, signed
from orchestrator.notify.errors import ChannelError
from orchestrator.notify.forms import message
from tests.orchestrator.loopkit import World
from tests.orchestrator.notify.receivers import SECRET, receiver, told, verified

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage
    from pathlib import Path

KEYS = {
    "id", "type", "at", "repository", "agent_id", "task_id", "reason", "text", "url", "command",
}  # fmt: skip


class _Mails(Message):
    def __init__(self) -> None:
        super().__init__()
        self.got: list[EmailMessage] = []

    def handle_message(self, message: Any) -> None:
        self.got.append(message)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def mails() -> Iterator[tuple[_Mails, int]]:
    handler = _Mails()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(handler, hostname="127.0.0.1", port=port)
    controller.start()
    yield handler, port
    controller.stop()


def test_a_command_gets_one_line_of_json(world: World) -> None:
    file = world.folder / "told.jsonl"
    world.settings(f'[[notify]]\nname = "mine"\ncommand = "cat >> {file}"\n')

    done = world.call("notify", "test")

    assert done.stdout == "mine (command): sent\n"
    (line,) = told(file)
    assert set(line) == KEYS
    assert (line["type"], line["repository"]) == ("test", str(world.repo))


def test_a_command_that_fails_says_why(world: World) -> None:
    world.settings('[[notify]]\ncommand = "echo no network >&2; exit 3"\n[[notify]]\nbell = true\n')
    failed = world.json("notify", "test", code=2)["channels"]
    assert [each["ok"] for each in failed] == [False, False]
    assert failed[0]["problem"] == "the command ended with 3. no network"
    assert "no terminal" in failed[1]["problem"]


def test_a_command_gets_nothing_of_our_environment_but_what_agents_get(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2hunter2")
    file = world.folder / "env"
    world.settings(f'[[notify]]\ncommand = "env > {file}"\n')
    world.call("notify", "test")
    assert "hunter2" not in file.read_text()


def test_a_webhook_is_signed_as_standard_webhooks_asks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    with receiver() as got:
        world.settings(f'[[notify]]\nwebhook = "{got.url}"\nsecret = "env:HOOK_SECRET"\n')
        world.call("notify", "test")
        assert got.signed == [True]
        assert got.ids == [got.got[0]["id"]]
        got.refuse = 1
        done = world.call("notify", "test", code=2)
    assert "answered 503" in done.stdout
    assert "/hook" not in done.stdout


def test_a_signature_is_that_of_the_standard() -> None:
    # The example of the specification's reference libraries.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105  # published
    headers = signed("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', secret, at=1614265330)
    wanted = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["webhook-signature"] == wanted
    assert verified(headers, b'{"test": 2432232314}', secret)
    with pytest.raises(ChannelError, match="base64"):
        key_of("whsec_?")


def test_a_secret_that_is_not_there_is_named_and_not_shown(world: World) -> None:
    world.settings(
        '[[notify]]\nwebhook = "http://127.0.0.1:9/x"\nsecret = "env:NO_SUCH_VARIABLE"\n'
        '[[notify]]\nurl = "file:missing.txt"\n'
    )
    first, second = world.json("notify", "test", code=2)["channels"]
    assert "NO_SUCH_VARIABLE is not set" in first["problem"]
    assert "missing.txt cannot be read" in second["problem"]


def test_mail_goes_through_apprise(world: World, mails: tuple[_Mails, int]) -> None:
    handler, port = mails
    (world.folder / "mail.txt").write_text(
        f"mailto://127.0.0.1:{port}?from=loop@example.org&to=me@example.org&mode=insecure\n"
    )
    world.settings(f'[[notify]]\nname = "mail"\nurl = "file:{world.folder}/mail.txt"\n')

    done = world.call("notify", "test")

    assert done.stdout == "mail (url): sent\n"
    (mail,) = handler.got
    assert mail["To"] is not None
    assert "me@example.org" in mail["To"]
    assert "Loopwright, repo: test" in mail["Subject"]
    assert "nothing needs you" in mail.as_string()


def test_an_apprise_url_that_fails_says_why_and_hides_itself(world: World) -> None:
    world.settings('[[notify]]\nurl = "json://user:hunter2hunter2@127.0.0.1:9/"\n')
    (failed,) = world.json("notify", "test", code=2)["channels"]
    assert failed["problem"]
    assert "hunter2" not in json.dumps(failed)
    world.settings('[[notify]]\nurl = "nonsense://x"\n')
    assert "Apprise" in world.json("notify", "test", code=2)["channels"][0]["problem"]


@pytest.mark.parametrize(
    ("status", "for_good"), [(400, True), (413, True), (408, False), (429, False), (503, False)]
)
def test_what_is_refused_through_apprise_is_known_as_a_refusal_of_this_message(
    status: int, *, for_good: bool
) -> None:
    with receiver() as got:
        got.refuse, got.status = 1, status
        with pytest.raises(ChannelError, match=f"error={status}") as refused:
            apprise_urls.send(got.url.replace("http://", "json://"), "Loopwright", "All is done")
    assert refused.value.refused is for_good


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "apprise", None)
    with pytest.raises(ChannelError, match=r"loopwright\[notify\]"):
        apprise_urls.check("json://x")


def test_one_channel_can_be_tested_alone(world: World) -> None:
    assert "no channel is configured" in world.call("notify", "test", code=2).stderr
    world.settings('[[notify]]\nname="a"\ncommand="true"\n[[notify]]\nname="b"\ncommand="false"\n')
    assert world.call("notify", "test", "--channel", "a").stdout == "a (command): sent\n"
    assert "there are a, b" in world.call("notify", "test", "--channel", "c", code=2).stderr


def test_doctor_says_what_a_channel_lacks(world: World) -> None:
    world.settings(
        '[[notify]]\nname="a"\ncommand="true"\n[[notify]]\nname="b"\nurl="env:NO_SUCH"\n'
    )
    checks = {each["what"]: each for each in world.json("doctor", code=None)["checks"]}
    assert checks["notify a"]["level"] == "ok"
    assert checks["notify b"]["level"] == "bad"
    assert "NO_SUCH" in checks["notify b"]["found"]


async def test_a_webhook_says_when_it_may_be_asked_again(tmp_path: Path) -> None:
    with receiver() as got:
        got.refuse = 1
        channel = NotifyChannel(webhook=got.url, secret="env:HOOK_SECRET")  # noqa: S106  # its place
        sender = ChannelSender(
            repo=tmp_path,
            environ={"HOOK_SECRET": SECRET},
            commands=None,
            now=lambda: 1e9,
            ring=lambda: False,
        )
        told = Notification(id="msg_1", at=1.0, type="test")
        with pytest.raises(ChannelError, match="answered 503") as refused:
            await sender.send(channel, message(told, repository="/shop", address=""))
    assert refused.value.wait == 7.0
