"""A fake runner to be attacked: it listens, and ends when its input does.

A script: `victim.py NAME SOCKET`. Its secret is in its environment; it sends it to every client.
Prints its port once it is ready.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import socket
import sys

_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = -1
SECRET = "LOOPWRIGHT_VICTIM_SECRET"  # noqa: S105  # the name of a variable


def main() -> int:
    """Listen until the input ends."""
    name, path = sys.argv[1:]
    # Where only parents may trace, allow all: only the sandbox must prevent it.
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(_PR_SET_PTRACER_ANY), 0, 0, 0)
    addresses = (
        (socket.AF_INET, ("127.0.0.1", 0)),
        (socket.AF_UNIX, "\0" + name),
        (socket.AF_UNIX, path),
    )
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        ends = []
        for family, address in addresses:
            end = socket.socket(family, socket.SOCK_STREAM)
            end.bind(address)
            end.listen()
            ends.append(end)
            selector.register(end, selectors.EVENT_READ, end)
        print(ends[0].getsockname()[1], flush=True)  # noqa: T201  # a script
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    return 0
                with key.data.accept()[0] as caller:
                    caller.send(os.environ[SECRET].encode())


if __name__ == "__main__":
    sys.exit(main())
