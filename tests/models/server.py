"""A model server on loopback that plays scripts to real programs, in each API's own form.

    with ModelServer() as server:
        played = server.play(Shell("echo hi > note"), Say("Done."))
        ... start a program with `played.url` and `played.key`; see `clis` ...
        assert [each.outcome for each in played.turns] == ["200", "200"]

Speaks Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini, streamed or not. Many
scripts are played at once, each below a path of its own. A request takes one turn, whichever
process sends it, so a script continues over restarts; one that offers no tools is aside and takes
none. After the last turn comes `again`, for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.models import anthropic, chat, gemini, responses, wire
from tests.models.conversation import Conversation, Request
from tests.models.forms import Form, Question, Telling
from tests.models.script import Answer, Fault, Hang, Turn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Self

__all__ = ["Conversation", "ModelServer", "Request", "model_server", "refusing"]

FORMS: dict[str, ModuleType] = {
    "/messages": anthropic,
    "/responses": responses,
    "/chat/completions": chat,
    ":generateContent": gemini,
    ":streamGenerateContent": gemini,
}
COUNTS = {"/messages/count_tokens": "input_tokens", ":countTokens": "totalTokens"}
CREDENTIALS = ("x-api-key", "authorization", "x-goog-api-key", "api-key")
TOKENS = 1200
PATIENCE = 10.0


class ModelServer:
    """Plays scripts, in a thread of its own."""

    def __init__(self) -> None:
        self.url = ""
        self._played: dict[str, Conversation] = {}
        self._numbers = itertools.count(1)
        self._thread = threading.Thread(target=self._run, name="model server")
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends: asyncio.Event | None = None
        self._connections: set[asyncio.Task[None]] = set()

    def play(self, *turns: Turn, again: Turn | None = None) -> Conversation:
        """Begin a script."""
        identity = str(next(self._numbers))
        made = Conversation(identity, f"{self.url}/s/{identity}", turns, again)
        self._played[identity] = made
        return made

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(PATIENCE) or not self.url:
            raise RuntimeError(f"the model server did not start in {PATIENCE} s")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._ends is not None:
            self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._ends = asyncio.get_running_loop(), asyncio.Event()
        listener = await asyncio.start_server(
            self._connected, "127.0.0.1", 0, limit=wire.HEAD_AT_MOST
        )
        self.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._ends.wait()
        listener.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await listener.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        # Cancelled at the end: the streams of Python 3.11 would report that as an error.
        ends = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        try:
            with contextlib.suppress(*ends):
                while not writer.is_closing():
                    await self._exchange(await wire.read(reader, writer), reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(
        self, arrived: wire.Arrived, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        identity, slash, rest = arrived.path.removeprefix("/s/").partition("/")
        conversation, path = self._played.get(identity), slash + rest
        if conversation is None:
            writer.write(_json(404, {"error": {"message": f"no script is played at {path}"}}))
            return
        form = next((FORMS[end] for end in FORMS if path.endswith(end)), None)
        request = Request(
            number=0,
            path=path,
            own_key=_key(arrived) == conversation.key,
            body=_read_json(arrived.body),
        )
        conversation.record(request)
        if form is None or arrived.method != "POST":
            conversation.end(request, "beside")
            writer.write(_beside(path))
            return
        telling = _Exchange(cast("Form", form), conversation, request, writer)
        if not await wire.until_hung_up(telling.tell(), reader):
            conversation.end(request, "abandoned")
            writer.close()


class _Exchange:
    """One answer, being told."""

    def __init__(
        self,
        form: Form,
        conversation: Conversation,
        request: Request,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._form = form
        self._conversation = conversation
        self._request = request
        self._writer = writer

    async def tell(self) -> None:
        """Answer; what goes wrong with the script is kept for the test to see."""
        try:
            await self._tell()
        except ConnectionError:
            raise
        except Exception as error:  # a script's functions may raise anything
            self._conversation.note(f"turn {self._request.turn}: {error!r}")
            raise

    async def _tell(self) -> None:
        question = self._form.question(self._request.path, self._request.body)
        self._request.offered = tuple(
            f"{each.namespace}__{each.name}" if each.namespace else each.name
            for each in question.tools
        )
        told, blocks = self._conversation.take(self._request, question.tools)
        if isinstance(told, Hang):
            await asyncio.Event().wait()
        elif isinstance(told, Fault):
            failure = self._form.failure(told)
            self._end(str(failure.status))
            self._writer.write(_json(failure.status, failure.body, failure.headers))
            await self._writer.drain()
        else:
            identity = f"{self._conversation.identity}n{self._request.number}"
            telling = Telling(identity, blocks, told.usage, slow=told.every > 0)
            await (self._stream if question.stream else self._whole)(question, told, telling)

    async def _whole(self, question: Question, told: Answer, telling: Telling) -> None:
        sent = _json(200, self._form.whole(question, telling))
        await self._send(told, [sent[: len(sent) // 2], sent[len(sent) // 2 :]], 1)

    async def _stream(self, question: Question, told: Answer, telling: Telling) -> None:
        events = self._form.events(question, telling)
        kind = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        self._writer.write(wire.start(200, kind))
        pieces = [wire.chunk(each) for each in events]
        pieces[-1] += wire.chunk(b"")
        await self._send(told, pieces, len(events) // 2)

    async def _send(self, told: Answer, pieces: list[bytes], middle: int) -> None:
        for number, piece in enumerate(pieces):
            if number == middle and told.cut:
                self._end("cut")
                self._writer.close()
                return
            await asyncio.sleep(told.every)
            if piece is pieces[-1]:
                # Said before: the program may hang up, or ask on, as soon as it has the last of it.
                self._end("200")
            self._writer.write(piece)
            await self._writer.drain()

    def _end(self, outcome: str) -> None:
        self._conversation.end(self._request, outcome)


def _key(arrived: wire.Arrived) -> str:
    found = (arrived.headers[name] for name in CREDENTIALS if name in arrived.headers)
    return next(found, arrived.query.get("key", "")).removeprefix("Bearer ")


def _beside(path: str) -> bytes:
    for end, name in COUNTS.items():
        if path.endswith(end):
            return _json(200, {name: TOKENS})
    return _json(404, {"error": {"message": f"{path} is not served here"}})


def _read_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return {}


def _json(status: int, body: Any, headers: Any = None) -> bytes:
    return wire.document(status, json.dumps(body).encode(), headers or {})


@contextlib.contextmanager
def refusing() -> Iterator[str]:
    """Return an address that nobody listens at, kept from everybody else meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture(scope="session")
def model_server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running
