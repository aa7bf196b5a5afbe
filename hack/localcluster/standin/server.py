"""Runs the stand-in in forks of a process that has imported it: a fifth of the processor time.

`python -m localcluster.standin.server SOCKET` serves until its standard input ends. A fork dies
with the process that asked for it, as one that process had become.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

from forks import follow

# What cli.py imports when a command needs it.
from . import cli, deploy, kubectl, registry, uninstalling  # noqa: F401


def serve(path: Path) -> socket.socket | None:
    """Fork for each that connects; return the connection in a fork, None at the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are not waited for
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen(128)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                return None
            connection, _ = listener.accept()
            if os.fork() == 0:
                return connection
            connection.close()


def become(connection: socket.socket) -> list[str]:
    """Make a fork what its request says; return the program and its arguments.

    Raises:
        SystemExit: who connected has gone.
    """
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as stream:
        body = stream.read(int.from_bytes(size))
    if not body or len(body) < int.from_bytes(size):
        sys.exit()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    directory, count, *words = os.fsdecode(body).split("\0")
    os.chdir(directory)
    os.environ.clear()
    for word in words[int(count) :]:
        name, _, os.environ[name] = word.partition("=")
    follow(os.environ.get("PYTHONPATH", ""))
    threading.Thread(target=heed, args=(connection,), daemon=True).start()
    return words[: int(count)]


def heed(connection: socket.socket) -> None:
    """Hand on the signals of the process that asked, and end with it."""
    main = threading.main_thread().ident
    assert main is not None
    while number := connection.recv(1):
        signal.pthread_kill(main, number[0])
    os.killpg(0, signal.SIGKILL)


def run(arguments: list[str]) -> int:
    """Run a command as the script `werf` does."""
    sys.argv = arguments
    try:
        return cli.main(arguments[1:])
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1


def main() -> None:
    """Serve; in a fork, run one command."""
    connection = serve(Path(sys.argv[1]))
    if connection is None:
        return
    code = run(become(connection))
    sys.stdout.flush()
    connection.sendall(bytes([code]))
    os._exit(code)  # the connection's end ends the thread, and that all


if __name__ == "__main__":
    main()
