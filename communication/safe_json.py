"""Reads one JSON object from a file written by an untrusted process.

Owns every check between a path and a dictionary: kind of file, size, encoding, nesting, strictness.
Must not block on a pipe, follow a link, or write. Must start fast: the agent's `signal` imports it.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from typing import Any

from communication.errors import ContentError
from communication.words import shown

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 200_000
"""Small values use many times their bytes in memory, and time to build."""

_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# Possessive and with an optional end, so that no input makes it look at a byte twice.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_CURLY_AS_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_BOM = b"\xef\xbb\xbf"


def read_object(path: str, max_bytes: int = MAX_BYTES) -> dict[str, Any] | None:
    """Return the file's object, None if there is no file; raise ContentError otherwise."""
    raw = _read(path, max_bytes)
    return None if raw is None else parse_object(raw)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse strictly: UTF-8, bounded nesting, no doubled keys, no NaN, an object on top."""
    try:
        text = raw.removeprefix(_BOM).decode("utf-8")
        if not text.strip():
            raise ContentError("the file is empty", b"empty")
        check_shape(raw)
        value = _DECODER.decode(text)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ContentError(f"it is not UTF-8 text (byte {error.start})", raw) from error
    except UnicodeEncodeError as error:
        raise ContentError(
            "it holds half a surrogate pair, which is not a character", raw
        ) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ContentError(f"it is not valid JSON: {error.msg} ({where})", raw) from error
    except (ValueError, RecursionError) as error:
        raise ContentError(f"it is not valid JSON: {error}", raw) from error
    if not isinstance(value, dict):
        raise ContentError(f"its top level is a {type(value).__name__}, not an object", raw)
    return value


def _read(path: str, max_bytes: int) -> bytes | None:
    try:
        # Checked before opening, because opening alone may already act on a device.
        _check_file(os.lstat(path), max_bytes)
        descriptor = os.open(path, _READ_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ContentError("it is a symbolic link, not a regular file") from error
        raise _unreadable("opened", error) from error
    try:
        found = os.fstat(descriptor)
        _check_file(found, max_bytes)
        return _read_bounded(descriptor, found.st_size, max_bytes)
    except OSError as error:
        raise _unreadable("read", error) from error
    finally:
        os.close(descriptor)


def _unreadable(step: str, error: OSError) -> ContentError:
    return ContentError(
        f"it cannot be {step}: {error.strerror}",
        machine_at_fault=error.errno not in (errno.EACCES, errno.EPERM, errno.ENXIO),
    )


def _check_file(found: os.stat_result, max_bytes: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for test, name in _KINDS if test(found.st_mode)), "something else")
        raise ContentError(f"it is {kind}, not a regular file")
    # 0 is fine: the file was replaced between open and look.
    if found.st_nlink > 1:
        raise ContentError("it is a hard link: the file has another name elsewhere")
    if found.st_size > max_bytes:
        raise _too_large(found.st_size, max_bytes)


def _too_large(size: int, max_bytes: int) -> ContentError:
    return ContentError(f"it is too large: {size:,} bytes, at most {max_bytes:,}", b"too large")


def _read_bounded(descriptor: int, expected: int, max_bytes: int) -> bytes:
    chunks = []
    total = 0
    while True:
        asked = max(expected - total, 0) + 1
        chunk = os.read(descriptor, asked)
        chunks.append(chunk)
        total += len(chunk)
        if total > max_bytes:
            raise _too_large(total, max_bytes)
        if len(chunk) < asked:
            return b"".join(chunks)
        # It grew while we read; take larger bites from here on.
        expected = min(total * 2, max_bytes)


def check_shape(raw: bytes) -> None:
    """Refuse deep nesting before the parser recurses into it, and floods of values.

    Peels innermost pairs off the bare brackets, one level per pass, so that a hostile file costs a
    few fast passes instead of a look at each bracket.
    """
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH and raw.count(b",") <= MAX_VALUES:
        return
    bare = _STRING.sub(b"", raw)
    brackets = bare.translate(_CURLY_AS_SQUARE, _NOT_BRACKETS)
    if brackets.count(b"[") + bare.count(b",") > MAX_VALUES:
        raise ContentError(f"it holds more than {MAX_VALUES:,} values", raw)
    for _ in range(MAX_DEPTH):
        peeled = brackets.replace(b"[]", b"")
        if len(peeled) == len(brackets):
            break
        brackets = peeled
    # What is left open would be entered by the parser before it finds the end missing.
    if b"[]" in brackets or brackets.count(b"[") > MAX_DEPTH:
        raise ContentError(f"it nests deeper than {MAX_DEPTH} levels", raw)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {shown(key)} occurs twice in one object")
            seen.add(key)
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {shown(digits)} is out of range")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
)
