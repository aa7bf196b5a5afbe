"""Runs the operator: again and again under `copyrator run`, once under `kopf run`.

Both register an App with kopf. What kopf can't stand (a CRD that is deleted), and a lead that is
lost, are answered by starting everything again, as the kubelet would.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time

import click

from copyrator.handlers import lifecycle
from copyrator.kube.auth import KubeconfigError, load_connection
from copyrator.runtime import logs
from copyrator.runtime.app import App
from copyrator.settings import options
from copyrator.settings.config import Settings

log = logging.getLogger(__name__)

RESTART_CAP_SECONDS = 30.0
"""Starts that fail one after the other are this far apart at most."""

CALM_SECONDS = 60.0
"""What has run for so long starts again at once."""


def run(settings: Settings) -> int:
    """Run the operator until it is told to stop; return the exit code.

    0: stopped by a signal. 2: there is no way to the cluster. Always with one message.
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
        delay = 1.0 if lasted > CALM_SECONDS else min(max(1.0, delay * 2), RESTART_CAP_SECONDS)
        log.warning("Starting again in %.0f s", delay)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(signalled.wait(), delay)


def install() -> None:
    """Register the operator with the registry that `kopf run` uses, settings from variables.

    Raises:
        click.UsageError: a setting is wrong; kopf's command line shows it and ends with code 2.
    """
    settings = options.from_environment()
    logs.configure(settings.log_format, settings.log_level)
    try:
        connection = asyncio.run(load_connection(settings.kubeconfig, settings.context))
    except KubeconfigError as error:
        raise click.UsageError(str(error)) from None
    lifecycle.join_kopf_run(App(settings, connection, step_down=_end))


def _end() -> None:
    """End `kopf run` in order; whoever runs it starts it again, as a standby."""
    signal.raise_signal(signal.SIGTERM)
