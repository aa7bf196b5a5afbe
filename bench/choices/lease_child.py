"""One side of `choices-lease`: one candidate. A line on stdout says when it leads, and when not.

Usage: ``python -m bench.choices.lease_child SIDE KUBECONFIG NAME IDENTITY``. SIGTERM ends it as its
side ends. The times are monotonic seconds, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

HOME = "copyrator"

TODAY = "kube/leader"
LIBRARY = "kubernetes.aio"
SIDES = (TODAY, LIBRARY)

LEASE, DEADLINE, RETRY = 10, 7, 2
"""Seconds, as kube/leader has them."""


def say(leads: bool) -> None:
    """Write a line."""
    print(f"{time.monotonic():.3f} {'leads' if leads else 'lost'}", flush=True)


async def today(kubeconfig: str, name: str, identity: str) -> None:
    """The operator's."""
    from copyrator.kube.auth import load_connection
    from copyrator.kube.client.client import KubeClient
    from copyrator.kube.errors import ApiError
    from copyrator.kube.leader.elector import Elector

    client = KubeClient(await load_connection(kubeconfig), alone=True)
    elector = Elector(client, namespace=HOME, name=name, identity=identity)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    while not ended.is_set():
        try:
            if await elector.attempt():
                break
        except ApiError as error:
            print(error, file=sys.stderr)
        await asyncio.sleep(elector.pause)
    say(leads=True)
    elector.keep(say, ended.set)
    await ended.wait()
    await elector.close()


async def library(kubeconfig: str, name: str, identity: str) -> None:
    """The one that comes with the client."""
    from kubernetes.aio.client import ApiClient, Configuration
    from kubernetes.aio.config import load_kube_config
    from kubernetes.aio.leaderelection.electionconfig import Config
    from kubernetes.aio.leaderelection.leaderelection import LeaderElection
    from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

    configuration = Configuration()
    await load_kube_config(config_file=kubeconfig, client_configuration=configuration)  # type: ignore[no-untyped-call]

    async def started() -> None:
        say(leads=True)

    async def stopped() -> None:
        say(leads=False)

    async with ApiClient(configuration) as api:
        config = Config(
            LeaseLock(name, HOME, identity, api),
            lease_duration=LEASE,
            renew_deadline=DEADLINE,
            retry_period=RETRY,
            onstarted_leading=started,
            onstopped_leading=stopped,
        )
        election = asyncio.create_task(LeaderElection(config).run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, election.cancel)
        await election


if __name__ == "__main__":
    run = today if sys.argv[1] == TODAY else library
    asyncio.run(run(*sys.argv[2:]))
