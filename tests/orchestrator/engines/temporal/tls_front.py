"""A server's TLS end, as a load balancer is one: it opens what comes, and carries it on or refuses.

Certificates are made for each test by an authority of its own.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path

_CHUNK = 1 << 16
_PREFACE = 24
_HEADERS, _SETTINGS = 1, 4
_END_ALL = 0x05
# RFC 7541, appendix B: the codes of what our key is made of.
_CODES = {
    "B": "1011101", "r": "101100", " ": "010100", "0": "00000", "1": "00001", "2": "00010",
    "a": "00011", "c": "00100", "e": "00101", "i": "00110", "o": "00111", "s": "01000",
    "t": "01001",
}  # fmt: skip


def on_the_wire(value: str) -> bytes:
    """Return a header's value as HTTP/2 carries it."""
    bits = "".join(_CODES[each] for each in value)
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8)


class Authority:
    """Signs certificates; its own is `ca.pem` in the folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, folder.name)])
        self.ca = folder / "ca.pem"
        self._write("ca", self._name, self._key, ca=True)

    def certificate(self, name: str) -> tuple[Path, Path]:
        """Return the files of a new certificate for 127.0.0.1, and of its key."""
        named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._write(name, named, ec.generate_private_key(ec.SECP256R1()), ca=False)
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def _write(
        self, name: str, named: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool
    ) -> None:
        now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made = (
            x509.CertificateBuilder()
            .subject_name(named)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=3650))
            .not_valid_after(now + dt.timedelta(days=36500))
            .add_extension(here, critical=False)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        (self.folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        (self.folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


class Front:
    """Takes TLS connections; carries them to a server, or refuses each call with some words."""

    def __init__(self, context: ssl.SSLContext, to: str = "", refuses: str = "") -> None:
        self.heard = bytearray()
        self._to, self._refuses = to, refuses
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(self._begin(context))
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _begin(self, context: ssl.SSLContext) -> asyncio.Server:
        return await asyncio.start_server(self._take, "127.0.0.1", 0, ssl=context)

    async def _take(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await (self._refuse(near, back) if self._refuses else self._carry(near, back))
        finally:
            self._open.discard(task)
            back.close()

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        host, _, port = self._to.rpartition(":")
        far, there = await asyncio.open_connection(host, int(port))
        try:
            await asyncio.gather(self._copy(near, there, self.heard), self._copy(far, back))
        finally:
            there.close()

    @staticmethod
    async def _copy(
        source: asyncio.StreamReader, to: asyncio.StreamWriter, heard: bytearray | None = None
    ) -> None:
        while data := await source.read(_CHUNK):
            if heard is not None:
                heard += data
            to.write(data)
            await to.drain()
        to.close()

    async def _refuse(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Answer each call as gRPC says that nobody may make it."""
        await near.readexactly(_PREFACE)
        back.write(_frame(_SETTINGS, 0, 0, b""))
        answer = b"\x88" + b"".join(
            b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value
            for name, value in (
                (b"content-type", b"application/grpc"),
                (b"grpc-status", b"16"),
                (b"grpc-message", self._refuses.encode()),
            )
        )
        while True:
            head = await near.readexactly(9)
            await near.readexactly(int.from_bytes(head[:3]))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:])
            if kind == _HEADERS:
                back.write(_frame(_HEADERS, _END_ALL, stream, answer))
            elif kind == _SETTINGS and not flags:
                back.write(_frame(_SETTINGS, 1, 0, b""))
            await back.drain()

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for each in tuple(self._open):
                each.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + body


@contextmanager
def front(
    authority: Authority, to: str = "", *, asks: bool = True, refuses: str = ""
) -> Iterator[Front]:
    """Have a TLS end of this authority; it `asks` clients for a certificate of the same."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.certificate("server"))
    context.set_alpn_protocols(["h2"])
    if asks:
        context.load_verify_locations(authority.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    made = Front(context, to, refuses)
    try:
        yield made
    finally:
        made.close()
