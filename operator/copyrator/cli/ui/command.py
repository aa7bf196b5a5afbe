"""`copyrator ui`: a local web page of rules, copies and Bundles."""

from __future__ import annotations

import asyncio
import signal
import socket
import webbrowser
from contextlib import suppress

import click
from aiohttp import web

from copyrator.cli.cluster import Target, cluster_options, run
from copyrator.cli.faults import Fault
from copyrator.cli.installation import find_installation, operator_namespace_option
from copyrator.cli.live import Live
from copyrator.cli.ui.pages import Pages
from copyrator.cli.ui.server import ADDRESS, Server
from copyrator.cli.user import username


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
@click.option("--open", "browse", is_flag=True, help="Open the page in the browser.")
def ui(target: Target, home: str | None, port: int, *, browse: bool) -> None:
    """Show rules, copies and Bundles on a local web page, until Ctrl-C.

    It uses your own permissions and needs nothing in the cluster. It listens on 127.0.0.1; the
    printed URL has a token: who has it can act as you while the command runs. All namespaces are
    shown as far as you may list them; -n shows one.
    """
    run(_ui(target, home, port, browse=browse))


async def _ui(target: Target, home: str | None, port: int, *, browse: bool) -> None:
    with _listener(port) as listener:  # first: a port in use is found before any request
        await _show(target, home, listener, browse=browse)


async def _show(target: Target, home: str | None, listener: socket.socket, *, browse: bool) -> None:
    async with target.connect() as client:
        installation = await find_installation(client, home)
        user = await username(client)
        pages = Pages(cluster=client.connection.endpoint.host, user=user)
        async with Live(client, target.namespace_option, target.namespace, patient=False) as live:
            server = Server(target, client, live, pages, installation, home)
            await _serve(server, listener, browse=browse)


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        raise Fault(
            f"can't listen on {ADDRESS}:{port} ({error.strerror}); choose another --port"
        ) from None


async def _serve(server: Server, listener: socket.socket, *, browse: bool) -> None:
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        server.port = runner.addresses[0][1]
        click.echo(f"Serving on {server.url} until Ctrl-C.")
        if browse:
            await asyncio.to_thread(webbrowser.open, server.url)
        await _interrupted()
    finally:
        server.stop()
        await runner.cleanup()


async def _interrupted() -> None:
    """Return at SIGINT or SIGTERM."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
