"""Writing a breakpoint into the mailbox in every way agents do it, right and wrong.

It must not read a mailbox defensively: it plays the agents that readers must defend against.
"""

from __future__ import annotations

import fcntl
import json
import os
import time

TYPE_CHECKING = False  # typing itself would cost start-up time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_STATES = {"task_complete": "complete"}
_DEEP = 100_000
_STEP = 7
_CHUNK = 1 << 20


class MailboxFault:
    """How to write, how long to pause between halves, and the size of a huge file."""

    def __init__(self, how: str, pause: float, size: int) -> None:
        self.how = how
        self.pause = pause
        self.size = size


def signal(
    path: str, agent_id: str, state: str | None, word: dict[str, Any], fault: MailboxFault
) -> None:
    """Write a breakpoint into an agent's entry, under the lock that correct writers share."""
    with open(f"{path}.lock", "a", encoding="ascii") as lock:  # noqa: PTH123  # pathlib costs start-up time
        fcntl.flock(lock, fcntl.LOCK_EX)
        document = _read(path)
        entry = document.get(agent_id)
        entry = entry if isinstance(entry, dict) else {}
        before = entry.get("breakpoint")
        last = before.get("seq") if isinstance(before, dict) else None
        entry["lifecycle_state"] = state or _STATES.get(word["type"], word["type"])
        entry["breakpoint"] = {"seq": last + 1 if isinstance(last, int) else 1, **word}
        document[agent_id] = entry
        WAYS[fault.how](path, document, fault)


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123  # as above
            document = json.load(stream)
    except (FileNotFoundError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _text(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1).encode()


def _rename(path: str, document: dict[str, Any], _: MailboxFault) -> None:
    _replace(path, _text(document))


def _whole(path: str, document: dict[str, Any], _: MailboxFault) -> None:
    _overwrite(path, _text(document))


def _halves(path: str, document: dict[str, Any], fault: MailboxFault) -> None:
    data = _text(document)
    with open(path, "wb", buffering=0) as stream:  # noqa: PTH123  # as above
        stream.write(data[: len(data) // 2])
        time.sleep(fault.pause)
        stream.write(data[len(data) // 2 :])


def _in_place(path: str, document: dict[str, Any], _: MailboxFault) -> None:
    data = _text(document)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        for start in range(0, len(data), _STEP):
            os.write(descriptor, data[start : start + _STEP])
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


def _symlink(path: str, document: dict[str, Any], _: MailboxFault) -> None:
    target = f"{path}.elsewhere"
    _overwrite(target, _text(document))
    _remove(path)
    os.symlink(target, path)  # noqa: PTH211  # as above


def _fifo(path: str, _document: dict[str, Any], _: MailboxFault) -> None:
    _remove(path)
    os.mkfifo(path)


def _invalid(path: str, document: dict[str, Any], _: MailboxFault) -> None:
    _replace(path, _text(document).replace(b'"', b"'"))


def _deep(path: str, document: dict[str, Any], _: MailboxFault) -> None:
    data = _text({**document, "deep": "@"})
    _replace(path, data.replace(b'"@"', b"[" * _DEEP + b"]" * _DEEP))


def _huge(path: str, document: dict[str, Any], fault: MailboxFault) -> None:
    head, tail = _text({**document, "huge": "@"}).split(b"@")
    with open(f"{path}.tmp", "wb") as stream:  # noqa: PTH123  # as above
        stream.write(head)
        stream.writelines(
            b"x" * min(_CHUNK, fault.size - at) for at in range(0, fault.size, _CHUNK)
        )
        stream.write(tail)
    os.replace(f"{path}.tmp", path)  # noqa: PTH105  # as above


def _binary(path: str, _document: dict[str, Any], _: MailboxFault) -> None:
    _replace(path, bytes(range(256)) * 16)


def _torn(path: str, document: dict[str, Any], _: MailboxFault) -> None:
    data = _text(document)
    _overwrite(path, data[: len(data) // 2])


def _overwrite(path: str, data: bytes) -> None:
    with open(path, "wb", buffering=0) as stream:  # noqa: PTH123  # as above
        stream.write(data)


def _replace(path: str, data: bytes) -> None:
    _overwrite(f"{path}.tmp", data)
    os.replace(f"{path}.tmp", path)  # noqa: PTH105  # as above


def _remove(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108  # as above
    except FileNotFoundError:
        return


WAYS: dict[str, Callable[[str, dict[str, Any], MailboxFault], None]] = {
    "rename": _rename,
    "whole": _whole,
    "halves": _halves,
    "in_place": _in_place,
    "symlink": _symlink,
    "fifo": _fifo,
    "invalid": _invalid,
    "deep": _deep,
    "huge": _huge,
    "binary": _binary,
    "torn": _torn,
}
