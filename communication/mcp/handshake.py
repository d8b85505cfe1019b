"""The handshake between an agent's program and the tool server, answered without the MCP package.

Every attempt starts a server, and the package takes half a second to load. So the usual first
requests are answered here; anything else is passed, with all earlier messages, to the package. It
must give the same answers as the package.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from communication.mcp.lines import Refusal, decoded, refusal_line
from communication.mcp.tools import INSTRUCTIONS, SERVER, listing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from communication.mcp.lines import LineReader

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions of the protocol with `initialize` that are accepted as requested."""
FREE_VERSIONS = ("2026-07-28",)
"""Versions of the protocol without it: each request names its version."""
REPLAYED = "loopwright-opening"
"""The id of a replayed first request that was answered already."""

_OURS = "io.modelcontextprotocol/"
_MEMBERS = frozenset({"jsonrpc", "id", "method", "params"})
_BEGUN = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Opening:
    """Answers requests until the package is needed."""

    def __init__(self, lines: LineReader, stdout: int, version: str) -> None:
        self._lines = lines
        self._stdout = stdout
        self._server = {"name": SERVER, "version": version}
        self._said: list[dict[str, Any]] = []
        self._greeted = False

    def run(self) -> list[dict[str, Any]] | None:
        """Answer until another request comes; return messages to replay, None at the end."""
        while (line := self._lines.read()) is not None:
            told = decoded(line)
            if isinstance(told, Refusal):
                send(self._stdout, refusal_line(told))
            elif told == _BEGUN and self._greeted:
                self._said.append(told)
            elif (answer := self._answer(told)) is None:
                return [*self._said, told]
            else:
                said = {"jsonrpc": "2.0", "id": told["id"], "result": answer}
                send(self._stdout, json.dumps(said).encode() + b"\n")
        return None

    def _answer(self, told: Mapping[str, Any]) -> dict[str, Any] | None:
        identity, params = told.get("id"), told.get("params", {})
        known = isinstance(identity, int | str) and not isinstance(identity, bool)
        if not known or told.get("jsonrpc") != "2.0" or not set(told) <= _MEMBERS:
            return None
        meta = params.get("_meta", {}) if isinstance(params, dict) else None
        if not isinstance(meta, dict):
            return None
        if any(key.startswith(_OURS) for key in meta):
            return self._free(told, params, meta)
        if told.get("method") == "initialize":
            return self._greeting(told, params)
        if self._greeted and set(params) <= {"_meta"}:
            return {"tools/list": {"tools": listing()}, "ping": {}}.get(str(told.get("method")))
        return None

    def _greeting(
        self, told: Mapping[str, Any], params: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        client, asked = params.get("clientInfo"), params.get("protocolVersion")
        if self._said or asked not in VERSIONS or not _is_program(client):
            return None
        if not isinstance(params.get("capabilities"), dict):
            return None
        # Only what matters: the package need not parse the rest again.
        plain = {"protocolVersion": asked, "capabilities": {}, "clientInfo": client}
        self._said.append({**told, "id": REPLAYED, "params": plain})
        self._greeted = True
        return {
            "protocolVersion": asked,
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": self._server,
            "instructions": INSTRUCTIONS,
        }

    def _free(
        self, told: Mapping[str, Any], params: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        client = meta.get(f"{_OURS}clientInfo", {"name": "", "version": ""})
        if self._greeted or set(params) != {"_meta"} or not _is_program(client):
            return None
        if meta.get(f"{_OURS}protocolVersion") not in FREE_VERSIONS:
            return None
        if not isinstance(meta.get(f"{_OURS}clientCapabilities"), dict):
            return None
        found: dict[str, dict[str, Any]] = {
            "tools/list": {"tools": listing()},
            "server/discover": {
                "supportedVersions": list(FREE_VERSIONS),
                "capabilities": {"tools": {"listChanged": False}},
                "instructions": INSTRUCTIONS,
            },
        }
        answer = found.get(str(told.get("method")))
        if answer is None:
            return None
        if not self._said:
            self._said.append({**told, "id": REPLAYED})
        told_of_us = {f"{_OURS}serverInfo": self._server}
        lasting = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return {**answer, **lasting, "_meta": told_of_us}


def _is_program(client: object) -> bool:
    return isinstance(client, dict) and all(
        isinstance(client.get(key), str) for key in ("name", "version")
    )


def send(stdout: int, raw: bytes) -> None:
    """Write all of it; if the reader is gone, exit."""
    try:
        while raw:
            raw = raw[os.write(stdout, raw) :]
    except BrokenPipeError:
        os._exit(0)
