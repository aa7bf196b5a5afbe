"""Names of hosts that lead to ports of this machine, for all that asks Python's resolver.

A copy of this file that ends with a call of `install` is the `sitecustomize` of processes whose
PYTHONPATH begins with its folder: the operator, its children and the stand-in for werf. So it needs
nothing but the standard library.

What isn't in the file and isn't this machine doesn't exist: no such process asks the real world.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any


def install(path: Path | str) -> Callable[[], None]:
    """Replace `socket.getaddrinfo`; returns what undoes it.

    Args:
        path: a JSON file, read at each lookup: `hosts` maps "name" or "name:port" to an address
            and a port, and `log` is a file to which "name port" of each lookup is added.
    """
    real = socket.getaddrinfo

    def lookup(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if not name:
            return real(host, port, *args, **options)
        name = name.rstrip(".").lower()
        settings = json.loads(Path(path).read_text())
        with open(settings["log"], "a") as log:  # noqa: PTH123 - in one write, from many processes
            log.write(f"{name!a} {port}\n")
        hosts = settings["hosts"]
        found = hosts.get(f"{name}:{port}") or hosts.get(name)
        if found is not None:
            return real(found[0], found[1], *args, **options)
        if name != "localhost" and not _is_loopback(name):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, port, *args, **options)

    def undo() -> None:
        socket.getaddrinfo = real

    socket.getaddrinfo = lookup
    return undo


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
