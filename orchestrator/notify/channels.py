"""How a notification goes into one channel: a command, a webhook, Apprise, a desktop, a bell.

Owns the ways. When something is sent, and what follows when that fails, is `outbox`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import shlex
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING

from ci.errors import CIError
from orchestrator.notify import apprise_urls
from orchestrator.notify.errors import ChannelError
from orchestrator.notify.forms import MessageForm, title, words
from orchestrator.notify.secret_values import value_of
from runtime.errors import RuntimeFault
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lifecycle.notify.channel import NotifyChannel
    from runtime.commands import CommandRunner

TIMEOUT = 30.0
"""Seconds that one message may take."""
_SAID = 300
_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
_SECRET = "whsec_"  # noqa: S105  # how Standard Webhooks marks one, none itself
_APPLESCRIPT = "on run {heading, said}\ndisplay notification said with title heading\nend run"


@dataclass(frozen=True, slots=True)
class ChannelSender:
    """What all channels of one repository send with."""

    repo: Path
    environ: Mapping[str, str]
    commands: CommandRunner | None
    """Without one nothing can be run."""
    now: Callable[[], float]
    ring: Callable[[], bool]
    """Rings the bell of the terminal; False without one."""
    timeout: float = TIMEOUT

    async def send(self, channel: NotifyChannel, told: MessageForm) -> None:
        """Send; ChannelError says why the channel did not take it."""
        way = {
            "command": self._command,
            "webhook": self._webhook,
            "url": self._apprise,
            "desktop": self._desktop,
            "bell": self._bell,
        }[channel.kind]
        try:
            async with asyncio.timeout(self.timeout + 5.0):
                await way(channel, told)
        except TimeoutError as problem:
            raise ChannelError(f"it was not taken within {self.timeout:g} s") from problem
        except ChannelError:
            raise
        except (RuntimeFault, CIError, OSError) as problem:
            raise ChannelError(str(problem)) from problem
        except Exception as problem:  # a defect of one way is no reason to lose a message
            raise ChannelError(f"{type(problem).__name__}: {problem}") from problem

    async def _command(self, channel: NotifyChannel, told: MessageForm) -> None:
        await self._run(channel.command_line, json.dumps(told) + "\n")

    async def _desktop(self, channel: NotifyChannel, told: MessageForm) -> None:
        del channel
        heading, said = title(told), words(told)
        line = ["notify-send", "--app-name=Loopwright", "--", heading, said]
        if sys.platform == "darwin":
            line = ["osascript", "-e", _APPLESCRIPT, heading, said]
        env = {name: self.environ[name] for name in _DESKTOP if name in self.environ}
        await self._run(shlex.join(line), "", env)

    async def _bell(self, channel: NotifyChannel, told: MessageForm) -> None:
        del channel, told
        if not self.ring():
            raise ChannelError("the runner has no terminal to ring")

    async def _apprise(self, channel: NotifyChannel, told: MessageForm) -> None:
        url = value_of(channel.url, repo=self.repo, environ=self.environ)
        await _in_thread(partial(apprise_urls.send, url, title(told), words(told)))

    async def _webhook(self, channel: NotifyChannel, told: MessageForm) -> None:
        from ci.http.post import post  # noqa: PLC0415  # httpx is heavy, and few have a webhook

        kept = {"repo": self.repo, "environ": self.environ}
        address = value_of(channel.webhook, **kept)  # type: ignore[arg-type]  # by name
        secret = value_of(channel.secret, **kept)  # type: ignore[arg-type]  # as above
        body = json.dumps(told).encode()
        now = self.now()
        headers = signed(told["id"], body, secret, at=now)
        if refusal := await post(address, body, headers, seconds=self.timeout, now=now):
            raise ChannelError(refusal.why, wait=refusal.wait, refused=refusal.lasts)

    async def _run(self, line: str, text: str, env: Mapping[str, str] | None = None) -> None:
        if self.commands is None:
            raise ChannelError("no command can be run here")
        with scratch("notification") as folder:
            given, log = folder / "notification.json", folder / "log"
            given.write_text(text, encoding="utf-8")
            result = await self.commands.run(
                line,
                cwd=self.repo,
                log=log,
                timeout=self.timeout,
                env=env,
                mark=f"notify-{token_hex(8)}",
                stdin=given,
            )
        if result.ok:
            return
        end = f"ended with {result.code}"
        if result.timed_out:
            end = f"was ended after {self.timeout:g} s"
        elif result.code is None:
            end = f"was ended by signal {result.signal}"
        refused = result.code is not None and not result.timed_out
        said = f"the command {end}. {result.excerpt[-_SAID:]}".strip()
        raise ChannelError(said, refused=refused)


async def _in_thread(call: Callable[[], None]) -> None:
    """Call in a thread that holds up no process which ends, as those of asyncio do."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def settle(problem: Exception | None) -> None:
        if not over.done():
            over.set_result(None) if problem is None else over.set_exception(problem)

    def run() -> None:
        problem = None
        try:
            call()
        except Exception as failure:  # noqa: BLE001  # raised where it is awaited
            problem = failure
        with suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(settle, problem)

    threading.Thread(target=run, name="notification", daemon=True).start()
    await over


def signed(message_id: str, body: bytes, secret: str, *, at: float) -> dict[str, str]:
    """Return the headers of a message as Standard Webhooks asks for them."""
    stamp = str(int(at))
    content = f"{message_id}.{stamp}.".encode() + body
    digest = hmac.new(key_of(secret), content, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "user-agent": "loopwright",
        "webhook-id": message_id,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def key_of(secret: str) -> bytes:
    """Return the key that a secret stands for: `whsec_` and base64, else its own characters."""
    if not secret.startswith(_SECRET):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_SECRET), validate=True)
    except ValueError as problem:
        raise ChannelError("the secret begins with whsec_ but no base64 follows") from problem


def ring_terminal() -> bool:
    """Ring the bell of the terminal, if standard error is one."""
    if sys.stderr is None or not sys.stderr.isatty():
        return False
    sys.stderr.write("\a")
    sys.stderr.flush()
    return True
