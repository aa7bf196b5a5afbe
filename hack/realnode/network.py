"""The node's network: a CNI plug-in that gives each pod a namespace, an address and two ways out.

Called by containerd as the CNI specification says (version 0.4: command and names in variables,
the configuration on stdin, the result on stdout). A pod gets a pair of interfaces to this machine,
so that the kubelet's probes reach it. No packet is forwarded. What a pod reaches are the listeners
that `forward` opens inside of its namespace: the cluster's address of the API server and the
registry's loopback port, each connected to the real one on this machine's loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

HOST_ADDRESS = "198.18.231.1"
"""This machine's end of every pair: of the range for benchmarks, which no network uses."""

_NEWNET = 0x40000000
_CHUNK = 65536


def main() -> None:
    """A call of the plug-in."""
    configuration = json.load(sys.stdin)
    command = os.environ["CNI_COMMAND"]
    if command == "VERSION":
        result: dict[str, Any] = {"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}
    elif configuration["type"] == "loopback":
        result = _result("lo", "127.0.0.1/8")
    elif command == "ADD":
        result = _add(configuration)
    else:
        result = {}
        if command == "DEL":
            _delete(configuration)
    print(json.dumps(result))  # the specification's answer


def _add(configuration: dict[str, Any]) -> dict[str, Any]:
    container, namespace = os.environ["CNI_CONTAINERID"], os.environ["CNI_NETNS"]
    home = Path(configuration["stateDir"])
    address = _next_address(home)
    outside = f"pod{container[:10]}"
    inside = ["nsenter", f"--net={namespace}", "ip"]
    peer = ("peer", "name", "eth0", "netns", Path(namespace).name)
    _run("ip", "link", "add", outside, "type", "veth", *peer)
    _run("ip", "address", "add", HOST_ADDRESS, "peer", address, "dev", outside)
    _run("ip", "link", "set", outside, "up")
    _run(*inside, "link", "set", "lo", "up")
    _run(*inside, "address", "add", address, "peer", HOST_ADDRESS, "dev", "eth0")
    _run(*inside, "link", "set", "eth0", "up")
    for listener in configuration["forward"]:
        host = listener["from"].rpartition(":")[0]
        if not host.startswith("127."):
            _run(*inside, "address", "add", f"{host}/32", "dev", "lo")
    forwarder = subprocess.Popen(
        [sys.executable, __file__, "forward", namespace, json.dumps(configuration["forward"])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert forwarder.stdout is not None
    if forwarder.stdout.readline() != b"ready\n":
        sys.exit(f"no listeners in {namespace}")
    (home / container).write_text(json.dumps([forwarder.pid, namespace]), encoding="ascii")
    return _result("eth0", f"{address}/32")


def _delete(configuration: dict[str, Any]) -> None:
    record = Path(configuration["stateDir"]) / os.environ["CNI_CONTAINERID"]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        forwarder, _ = json.loads(record.read_text(encoding="ascii"))
        record.unlink()
        os.kill(forwarder, signal.SIGTERM)


def _result(interface: str, address: str) -> dict[str, Any]:
    return {
        "cniVersion": "0.4.0",
        "interfaces": [{"name": interface, "sandbox": os.environ.get("CNI_NETNS", "")}],
        "ips": [{"version": "4", "interface": 0, "address": address}],
        "dns": {},
    }


def _next_address(home: Path) -> str:
    """The next of 240 addresses; no test has that many pods at a time."""
    with (home / "next-address").open("a+", encoding="ascii") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        number = int(counter.read() or 0) % 240 + 1
        counter.truncate(0)
        counter.write(str(number))
    return f"{HOST_ADDRESS.rpartition('.')[0]}.{number + 9}"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # The specification's form of an error.
        print(json.dumps({"cniVersion": "0.4.0", "code": 100, "msg": done.stderr.strip()}))
        sys.exit(1)


async def forward(namespace: str, listeners: list[dict[str, str]]) -> None:
    """Listen inside a network namespace, connect outside of it."""
    opened = [(_listen_in(namespace, one["from"]), one["to"]) for one in listeners]
    for listener, target in opened:
        await asyncio.start_server(_Relay(target).connect, sock=listener)
    print("ready", flush=True)
    await asyncio.Event().wait()


class _Relay:
    """Carries connections to one address."""

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.rpartition(":")

    async def connect(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Carry one connection until both sides are done."""
        try:
            far, out = await asyncio.open_connection(self._host, int(self._port))
        except OSError:
            back.close()
            return
        await asyncio.gather(_pump(near, out), _pump(far, back))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
    sink.close()


def _listen_in(namespace: str, address: str) -> socket.socket:
    """A listening socket stays in the namespace that it was made in; its process needn't."""
    host, _, port = address.rpartition(":")
    with Path("/proc/self/ns/net").open("rb") as own, Path(namespace).open("rb") as pods:
        _enter(pods.fileno())
        try:
            return socket.create_server((host, int(port)))
        finally:
            _enter(own.fileno())


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


if __name__ == "__main__":
    if sys.argv[1:2] == ["forward"]:
        asyncio.run(forward(sys.argv[2], json.loads(sys.argv[3])))
    else:
        main()
