"""The server once the MCP package is needed: all calls, resources, and any new form of handshake.

Owns the only use of that package, which is slow: import this module only for a request that it must
answer. Standard output carries the protocol only. It must not decide what a tool does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from communication.errors import CommunicationError
from communication.locked_edit import LOCK_PATIENCE_S
from communication.mcp.handshake import REPLAYED, send
from communication.mcp.lines import Refusal, decoded, refusal_line
from communication.mcp.tools import SERVER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server import ServerRequestContext

    from communication.mcp.lines import LineReader
    from communication.mcp.offer import Readable, ToolOffer
    from communication.mcp.tools import ToolAnswer

_CANCELLED = "notifications/cancelled"


def serve(
    offer: ToolOffer,
    lines: LineReader,
    stdout: int,
    *,
    version: str,
    said: Sequence[dict[str, Any]],
) -> None:
    """Answer the replayed and all further messages, until the lines end."""
    anyio.run(partial(_serve, _server(offer, version), lines, stdout, said))


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


def _server(offer: ToolOffer, version: str) -> Server[Any]:
    turns = anyio.CapacityLimiter(offer.at_once)

    async def tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del context, params
        listed = [types.Tool.model_validate(tool, by_name=False) for tool in offer.listing()]
        return types.ListToolsResult(tools=listed)

    async def call(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        told = context.session.client_params
        client = told.client_info.name if told is not None else ""
        answer = await anyio.to_thread.run_sync(
            offer.call, params.name, params.arguments, client, limiter=turns
        )
        return _result(answer)

    made: Server[Any] = Server(
        SERVER,
        version=version,
        instructions=offer.instructions,
        on_list_tools=tools,
        on_call_tool=call,
        **(_reading(offer.readable, turns) if offer.readable is not None else {}),
    )
    return made


def _reading(readable: Readable, turns: anyio.CapacityLimiter) -> dict[str, Any]:
    """Return what answers requests for resources."""

    async def resources(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        del context, params
        found = await anyio.to_thread.run_sync(readable.listing, limiter=turns)
        listed = [types.Resource.model_validate(each, by_name=False) for each in found]
        return types.ListResourcesResult(resources=listed)

    async def templates(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        del context, params
        listed = [
            types.ResourceTemplate.model_validate(each, by_name=False)
            for each in readable.templates()
        ]
        return types.ListResourceTemplatesResult(resource_templates=listed)

    async def read(
        context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        del context
        try:
            text, kind = await anyio.to_thread.run_sync(readable.read, params.uri, limiter=turns)
        except CommunicationError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        content = types.TextResourceContents(uri=params.uri, mime_type=kind, text=text)
        return types.ReadResourceResult(contents=[content])

    return {
        "on_list_resources": resources,
        "on_list_resource_templates": templates,
        "on_read_resource": read,
    }


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
