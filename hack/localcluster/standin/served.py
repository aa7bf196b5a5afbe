"""Having a command run by the server of `server.py`, as if it ran here; imports little."""

from __future__ import annotations

import os
import signal
import socket
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
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(path)
        except OSError:
            return None
        variables = [f"{name}={value}" for name, value in os.environ.items()]
        directory = os.getcwd()  # noqa: PTH109 - pathlib's import takes longer than all the rest
        words = [directory, str(len(arguments)), *arguments, *variables]
        request = os.fsencode("\0".join(words))
        socket.send_fds(server, [len(request).to_bytes(8)], [0, 1, 2])
        server.sendall(request)
        # Not before: a signal's number must not come into the middle of the request.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: server.send(bytes([number])))
        code = server.recv(1)
    return code[0] if code else 128 + signal.SIGKILL
