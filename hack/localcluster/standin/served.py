"""Having a command run by the server of `server.py`, as if it ran here; imports little."""

from __future__ import annotations

import _socket  # `socket` takes twice as long as Python's start
import array
import os
import signal
from collections.abc import Sequence

SERVER = "STANDIN_WERF_SERVER"
"""The variable with the path of the server's socket."""


def run(path: str, arguments: Sequence[str]) -> int | None:
    """Run a command with this process's variables, directory and open files.

    Args:
        path: the server's socket.
        arguments: the program and its arguments.

    Returns:
        Its exit code; None if no server answers there.
    """
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        server.connect(path)
    except OSError:
        server.close()
        return None
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    directory = os.getcwd()  # noqa: PTH109 - pathlib's import takes longer than all the rest
    words = [directory, str(len(arguments)), *arguments, *variables]
    request = os.fsencode("\0".join(words))
    files = array.array("i", [0, 1, 2])
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)
    server.sendmsg([len(request).to_bytes(8)], [rights])
    server.sendall(request)
    # Not before: a signal's number must not come into the middle of the request.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: server.send(bytes([number])))
    code = server.recv(1)
    return code[0] if code else 128 + signal.SIGKILL
