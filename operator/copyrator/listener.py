"""A port of ours: what the health checks and the webhook have in common."""

from __future__ import annotations

import os

from aiohttp import web


class ListenError(Exception):
    """The port can't be had; the message says which and what to do."""


class Listener:
    """Serves one application; ``what`` and ``option`` are for the message of a taken port.

    An empty address means all of this machine's. Port 0 means any that is free.
    """

    def __init__(self, *, address: str, port: int, what: str, option: str) -> None:
        self.port = port
        self._address = address
        self._what = what
        self._option = option
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it listens, for people."""
        return f"http://{self._address or '*'}:{self.port}"

    async def start(self, app: web.Application) -> None:
        """Listen; afterwards `port` is the real one, also where 0 was asked for.

        Raises:
            ListenError: the port is taken, or the address isn't one of this machine's.
        """
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, self._address or None, self.port, reuse_address=True)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise ListenError(
                f"Can't listen on {self._address or '*'}:{self.port} for {self._what} "
                f"({os.strerror(error.errno or 0)}): choose another {self._option}."
            ) from error
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening; safe to call twice."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
