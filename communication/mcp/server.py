"""The tool server once the MCP package is needed: all calls, and any new form of handshake.

Owns the only use of that package, which is slow: import this module only for a request that it must
answer. Standard output carries the protocol only. It must not decide anything about signals.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from communication.locked_edit import LOCK_PATIENCE_S
from communication.mcp.handshake import REPLAYED, send
from communication.mcp.lines import Refusal, decoded, refusal_line
from communication.mcp.tools import INSTRUCTIONS, SERVER, listing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server import ServerRequestContext

    from communication.mcp.lines import LineReader
    from communication.mcp.tools import ToolAnswer, Toolbox

_CANCELLED = "notifications/cancelled"


def serve(
    toolbox: Toolbox,
    lines: LineReader,
    stdout: int,
    *,
    version: str,
    said: Sequence[dict[str, Any]],
) -> None:
    """Answer the replayed and all further messages, until the lines end."""
    anyio.run(partial(_serve, _server(toolbox, version), lines, stdout, said))


async def _serve(
    server: Server[Any], lines: LineReader, stdout: int, said: Sequence[dict[str, Any]]
) -> None:
    pending = _Pending()
    to_server, inbound = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbound, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_hear, lines, stdout, to_server, said, pending)
        tasks.start_soon(_speak, stdout, from_server, pending)
        async with outbound:
            await server.run(inbound, outbound, server.create_initialization_options())


def _server(toolbox: Toolbox, version: str) -> Server[Any]:
    # One call at a time: two breakpoints of one message keep their order.
    turn = anyio.CapacityLimiter(1)

    async def tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del context, params
        return types.ListToolsResult(tools=_forms())

    async def call(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        del context
        answer = await anyio.to_thread.run_sync(
            toolbox.call, params.name, params.arguments, limiter=turn
        )
        return _result(answer)

    return Server(
        SERVER,
        version=version,
        instructions=INSTRUCTIONS,
        on_list_tools=tools,
        on_call_tool=call,
    )


def _forms() -> list[types.Tool]:
    return [types.Tool.model_validate(tool, by_name=False) for tool in listing()]


def _result(answer: ToolAnswer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=text) for text in answer.texts], is_error=answer.failed
    )


async def _hear(
    lines: LineReader,
    stdout: int,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    said: Sequence[dict[str, Any]],
    pending: _Pending,
) -> None:
    async def take(told: dict[str, Any] | Refusal) -> None:
        message = _message(told)
        if isinstance(message, Refusal):
            send(stdout, refusal_line(message))
        else:
            pending.note(message.message)
            await to_server.send(message)

    async with to_server:
        for each in said:
            await take(each)
        while (line := await anyio.to_thread.run_sync(lines.read)) is not None:
            await take(decoded(line))
        # The package drops unfinished calls when the input ends.
        await pending.settled()


def _message(value: dict[str, Any] | Refusal) -> SessionMessage | Refusal:
    if isinstance(value, Refusal):
        return value
    params = value.get("params")
    if isinstance(params, dict) and not isinstance(params.get("arguments"), dict | None):
        return Refusal("the arguments of a tool must be an object", value.get("id"))
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_python(value, by_name=False))
    except ValueError:
        return Refusal("this is not a JSON-RPC 2.0 request", value.get("id"))


async def _speak(
    stdout: int,
    from_server: MemoryObjectReceiveStream[SessionMessage],
    pending: _Pending,
) -> None:
    async with from_server:
        async for each in from_server:
            identity = getattr(each.message, "id", None)
            if identity != REPLAYED:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                send(stdout, text.encode() + b"\n")
            pending.forget(identity)


class _Pending:
    """The requests that wait for an answer, so that those before the end still get one."""

    def __init__(self) -> None:
        self._open: set[object] = set()
        self._changed = anyio.Event()

    def note(self, message: types.JSONRPCMessage) -> None:
        """Record a request, or its cancellation."""
        if isinstance(message, types.JSONRPCRequest):
            self._open.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CANCELLED:
            dropped = (message.params or {}).get("requestId")
            if isinstance(dropped, int | str):
                self.forget(dropped)

    def forget(self, identity: object) -> None:
        """Record an answer."""
        self._open.discard(identity)
        self._changed.set()

    async def settled(self) -> None:
        """Wait until all are answered, at most as long as a call may wait for the mailbox."""
        with anyio.move_on_after(LOCK_PATIENCE_S):
            while self._open:
                self._changed = anyio.Event()
                await self._changed.wait()
