"""Runs the operator: with restarts under `copyrator run`, once under `kopf run`.

Both register an App with kopf. A failure of kopf (when a CRD is deleted) or lost leadership
restarts everything, as the kubelet would.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time

import click

from copyrator.handlers import lifecycle
from copyrator.kube.auth import load_connection
from copyrator.kube.client.transport import KubeconfigError
from copyrator.runtime import flags, logs
from copyrator.runtime.app import App
from copyrator.settings.config import Settings

log = logging.getLogger(__name__)

RESTART_CAP_SECONDS = 30.0
"""Longest delay between consecutive failed starts."""

RESET_SECONDS = 60.0
"""After a run of this length the delay is reset."""


def run(settings: Settings) -> int:
    """Run the operator until a signal stops it; return the exit code.

    0: stopped by a signal. 2: the cluster can't be configured. Always with one message.
    """
    logs.configure(settings.log_format, settings.log_level)
    try:
        asyncio.run(_run(settings))
    except KubeconfigError as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    return 0


async def _run(settings: Settings) -> None:
    connection = await load_connection(settings.kubeconfig, settings.context)
    signalled = asyncio.Event()
    delay = 0.0
    while not signalled.is_set():
        started = time.monotonic()
        stop = asyncio.Event()
        app = App(settings, connection, step_down=stop.set)
        await lifecycle.run_kopf(app, signalled, stop, settings.watch_namespaces)
        if signalled.is_set():
            break
        lasted = time.monotonic() - started
        delay = 1.0 if lasted > RESET_SECONDS else min(max(1.0, delay * 2), RESTART_CAP_SECONDS)
        log.warning("Restarting in %.0f s", delay)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(signalled.wait(), delay)


def install() -> None:
    """Register with the registry that `kopf run` uses; settings are read from variables.

    Raises:
        click.UsageError: a setting is invalid; kopf's command line prints it and exits with 2.
    """
    settings = flags.parse(flags.parameters())
    logs.configure(settings.log_format, settings.log_level)
    try:
        connection = asyncio.run(load_connection(settings.kubeconfig, settings.context))
    except KubeconfigError as error:
        raise click.UsageError(str(error)) from None
    lifecycle.join_kopf_run(App(settings, connection, step_down=_end))


def _end() -> None:
    """End `kopf run` in order; its supervisor restarts it, as a standby."""
    signal.raise_signal(signal.SIGTERM)
