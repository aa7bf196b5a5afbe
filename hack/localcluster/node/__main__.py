"""``python -m localcluster.node``: run a process node until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import logging
import re
import signal
import sys
from pathlib import Path

import aiohttp

from .agent import Agent
from .api import Api
from .host import Host
from .kubeconfig import Connection
from .stand_in import StandIn


def main() -> int:
    """Parse the command line and run; 1 and one line when the node can't start."""
    parser = argparse.ArgumentParser(
        prog="python -m localcluster.node",
        description="A Node that runs its pods' containers as local processes. No isolation: "
        "for demo and tests on loopback only.",
    )
    parser.add_argument("--server", required=True, help="the API server's URL")
    parser.add_argument("--pki", type=Path, required=True, help="has ca.crt, node.crt and node.key")
    parser.add_argument("--state-dir", type=Path, required=True, help="gets the folder pods/")
    parser.add_argument("--node-name", default="process-node")
    options = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    directory = options.state_dir.resolve()
    if not re.fullmatch(r"[\w./@+,-]+", str(directory)):
        # Paths in it are written into shell scripts, which may not have them in quotes.
        print(f"error: --state-dir {directory}: no blanks or quotes, please", file=sys.stderr)
        return 1
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (directory / f"{options.node_name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"error: node {options.node_name} runs already in {directory}", file=sys.stderr)
            return 1
        connection = Connection.of(options.server, options.pki)
        asyncio.run(_run(connection, directory, options.node_name))
    return 0


async def _run(connection: Connection, directory: Path, name: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with StandIn(directory / "werf.sock") as stand_in:
        # Every pod in work may hold a request of its own; none of them may wait for the watch.
        connector = aiohttp.TCPConnector(limit=64, ssl=connection.tls)
        headers = {"User-Agent": "localcluster-node"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            await Agent(Host(Api(connection, session), name, directory, stand_in)).run(stop)


if __name__ == "__main__":
    raise SystemExit(main())
