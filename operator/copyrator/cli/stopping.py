"""Stops the operator and waits until it has stopped, before anything that it needs is removed."""

from __future__ import annotations

import asyncio

from copyrator.cli.faults import Fault
from copyrator.cli.installation import DEPLOYMENTS, Installation, of_deployment
from copyrator.cli.objects import listed
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import PODS

PATIENCE = 90.0
"""Seconds for pods to end: three times their grace period."""


async def stop(client: KubeClient, namespace: str, name: str) -> Installation:
    """Scale the operator's Deployment to 0 and wait until no pod of it is left.

    Raises:
        Fault: a pod doesn't end; it might add finalizers again.
    """
    body = await client.patch(DEPLOYMENTS, namespace, name, {"spec": {"replicas": 0}})
    labels = body["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{label}={value}" for label, value in sorted(labels.items()))
    try:
        async with asyncio.timeout(PATIENCE):
            await _gone(client, namespace, selector)
    except TimeoutError:
        raise Fault(
            f"pods of the Deployment {namespace}/{name} haven't terminated after {PATIENCE:.0f} s: "
            f"kubectl -n {namespace} get pods -l {selector}"
        ) from None
    return of_deployment(body)


async def _gone(client: KubeClient, namespace: str, selector: str) -> None:
    while True:
        if not await listed(client, PODS, namespace, selector=selector, metadata_only=True):
            return
        await asyncio.sleep(0.5)
