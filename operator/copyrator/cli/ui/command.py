"""`copyrator ui`, `top` and `report`: rules and Bundles on a web page, in a terminal, in a file."""

# ruff: noqa: PLC0415 - what they show, and a web server, are imported late: not for --help

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.installation import find_installation, operator_namespace_option, username
from copyrator.cli.core.output import Format, answer_option, prose

if TYPE_CHECKING:
    from copyrator.cli.ui.server import Server


@click.command()
@cluster_options()
@operator_namespace_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port on 127.0.0.1; default: any that is free.",
)
async def ui(target: Target, home: str | None, port: int) -> None:
    """Show rules, copies and Bundles on a local web page, until Ctrl-C.

    It uses your own permissions and needs nothing in the cluster. It listens on 127.0.0.1; the
    printed URL opens one session: whoever opens it first can act as you while the command runs.
    All namespaces are shown as far as you may list them; -n shows one.
    """
    with _listener(port) as listener:  # first: a port in use is found before any request
        await _show(target, home, listener)


async def _show(target: Target, home: str | None, listener: socket.socket) -> None:
    from copyrator.cli.ui.pages import Pages
    from copyrator.cli.ui.server import Server
    from copyrator.cli.view.live import Live

    async with target.connect() as client:
        installation = await find_installation(client, home)
        pages = Pages(cluster=client.connection.endpoint.host, user=await username(client))
        async with Live(
            client, target.namespace_option, target.namespace, patient=False, operator=home
        ) as live:
            server = Server(target, client, live, pages, installation, home)
            await _serve(server, listener)


def _listener(port: int) -> socket.socket:
    from copyrator.cli.ui.server import ADDRESS

    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        raise Fault(
            f"can't listen on {ADDRESS}:{port} ({error.strerror}); choose another --port"
        ) from None


async def _serve(server: Server, listener: socket.socket) -> None:
    from aiohttp import web

    stopped = _interrupted()
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        server.port = runner.addresses[0][1]
        click.echo(f"Serving on {server.url} until Ctrl-C.")
        await stopped.wait()
    finally:
        server.stop()
        await runner.cleanup()


def _interrupted() -> asyncio.Event:
    """Set at SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    return stopped


@click.command()
@cluster_options()
@operator_namespace_option
@click.option("--once", is_flag=True, help="Print it once, instead of keeping it up to date.")
@answer_option
async def top(target: Target, home: str | None, *, once: bool, shape: Format | None) -> None:
    """Show rules and Bundles in the terminal, the worst first, until q or Ctrl-C.

    The head counts them and their copies, and names the certificate that expires first. Below it
    each has a line, in the order Failing, Waiting, Suspended, Ready, with rollouts in progress
    before others.

    Columns: STATUS; NAME, with kind and namespace; REASON of its condition Ready, or what it waits
    for; SINCE, how long that has been so; COPIES/VERSION, of a rule the copies that are ready, of a
    Bundle the deployed version; MESSAGE, the fault, if any. On a narrow terminal SINCE and
    COPIES/VERSION are omitted, and long names and messages are shortened.

    Keys: arrows, j and k scroll by a line, PgUp, PgDn, b and Space by a page; Home, End, g and G go
    to the ends; q and Ctrl-C quit.

    All namespaces are shown as far as you may list them; -n shows one. Without a terminal, and with
    -o, it is printed once.
    """
    from copyrator.cli.get.top import show_problems

    await show_problems(target, home, shape, once=once)


@click.command()
@click.option(
    "--html",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="File to write; - writes to stdout.",
)
@cluster_options()
@operator_namespace_option
def report(target: Target, home: str | None, file: Path) -> None:
    """Write the state of all rules and Bundles to one HTML file.

    The file needs no other file and runs no code. It has what you may list, in all namespaces or
    (-n) in one, and no values of Secrets.
    """
    text = run(_report(target, home))
    if str(file) == "-":
        click.echo(text)
        return
    try:
        file.write_text(text)
    except OSError as error:
        raise Fault(f"can't write {file} ({error.strerror}); choose another --html") from None
    prose([f"{file} written."], err=True)


async def _report(target: Target, home: str | None) -> str:
    from copyrator.cli.ui.pages import Pages
    from copyrator.cli.view.live import Live
    from copyrator.cli.view.overview import overview

    async with target.connect() as client:
        installation = await find_installation(client, home)
        pages = Pages(cluster=client.connection.endpoint.host, user=await username(client))
        async with Live(client, target.namespace_option, target.namespace, operator=home) as live:
            seen, now = live.now, datetime.now(UTC)
            return pages.report(seen, overview(seen, now), installation, now)
