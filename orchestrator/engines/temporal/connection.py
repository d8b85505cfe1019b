"""Connects to the server that the settings name, by TLS and with an API key where they say so.

The one place that reads certificates and the key. No text of it holds the key.
"""

from __future__ import annotations

import logging
import re
import uuid
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from lifecycle.clock import SystemClock
from orchestrator.engines.temporal.payloads import CONVERTER
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifecycle.settings import EngineSettings

REFUSES = (
    "the server at {} refuses ({}): check temporal_namespace, what temporal_api_key_env holds, and "
    "temporal_tls_cert"
)
_REFUSED = re.compile(r"code: (Unauthenticated|PermissionDenied)\b")
"""As the SDK prints what a server said to its first call."""
_PROBE = timedelta(seconds=10)
"""How long what is asked of the clock may stay; nobody ever takes it up."""


class ServerError(OrchestratorError):
    """The server cannot be reached, or refuses."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself."""

    version: str
    has_namespace: bool
    skew: float
    """Seconds by which its clock is ahead of ours at least: how slow it answered may hide more."""


async def connect(settings: EngineSettings, environ: Mapping[str, str], **more: Any) -> Client:
    """Return a client; ServerError says what keeps us from the server."""
    key = environ.get(settings.temporal_api_key_env) if settings.temporal_api_key_env else None
    try:
        return await Client.connect(
            settings.temporal_address,
            namespace=settings.temporal_namespace,
            api_key=key,
            tls=_tls(settings) if settings.wants_tls else False,
            **more,
        )
    except (RuntimeError, RPCError) as problem:
        # What the SDK says may go on for lines, and hold what was sent.
        said = " ".join(str(problem).split())
        said = (said.replace(key, "***") if key else said)[:300]
        if (code := _REFUSED.search(said)) is not None:
            raise ServerError(REFUSES.format(settings.temporal_address, code[1])) from None
        raise ServerError(
            f"no Temporal server answers at {settings.temporal_address} ({said}): "
            f"{_mend(settings, said)}"
        ) from None


def _mend(settings: EngineSettings, said: str) -> str:
    """Say what a person may correct where no connection was made."""
    if "InvalidCertificate" in said:
        return "correct temporal_tls_ca, by which its certificate is checked, or temporal_address"
    asks = settings.wants_tls and not settings.temporal_tls_cert
    more = "; if it asks for a certificate, set temporal_tls_cert" if asks else ""
    return f"start it, or correct temporal_address and temporal_tls{more}"


def _tls(settings: EngineSettings) -> TLSConfig:
    return TLSConfig(
        server_root_ca_cert=_read(settings.temporal_tls_ca),
        client_cert=_read(settings.temporal_tls_cert),
        client_private_key=_read(settings.temporal_tls_key),
    )


def _read(file: str) -> bytes | None:
    return Path(file).expanduser().read_bytes() if file else None


async def joined(settings: EngineSettings, environ: Mapping[str, str], name: str) -> Client:
    """Return a client of a process with this name, which has its lifecycles at the namespace."""
    # What it says of calls that are made again would be in between the lines for people.
    logger = logging.getLogger("temporalio")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    client = await connect(settings, environ, data_converter=CONVERTER, identity=name)
    if not await _has_namespace(client, settings):
        namespace = settings.temporal_namespace
        raise ServerError(
            f"the server at {settings.temporal_address} has no namespace {namespace}: create it "
            f"with `temporal operator namespace create -n {namespace}`, or correct "
            "temporal_namespace"
        )
    return client


async def facts_of(settings: EngineSettings, environ: Mapping[str, str]) -> ServerFacts:
    """Ask the server about itself and its clock."""
    client = await connect(settings, environ)
    service = client.workflow_service
    version = (await service.get_system_info(GetSystemInfoRequest())).server_version
    if not await _has_namespace(client, settings):
        return ServerFacts(version, has_namespace=False, skew=0.0)
    return ServerFacts(version, has_namespace=True, skew=await _skew(client))


async def _has_namespace(client: Client, settings: EngineSettings) -> bool:
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=settings.temporal_namespace)
        )
    except RPCError as problem:
        if problem.status is not RPCStatusCode.NOT_FOUND:
            name = problem.status.name.replace("_", " ").title().replace(" ", "")
            raise ServerError(REFUSES.format(settings.temporal_address, name)) from None
        return False
    return True


async def _skew(client: Client) -> float:
    """Compare clocks by a workflow on a queue where nobody works: only its start is wanted."""
    name = f"lw.doctor.{uuid.uuid4().hex}"
    now = SystemClock().now
    before = now()
    handle = await client.start_workflow(name, id=name, task_queue=name, execution_timeout=_PROBE)
    after = now()
    started = (await handle.describe()).start_time.timestamp()
    await handle.terminate("asked for the time")
    return started - max(before, min(started, after))
