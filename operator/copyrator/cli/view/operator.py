"""Whether the operator runs, and why not: what lists, descriptions and pages say first.

Only the API server's clock counts: its answers have its time, and so have the Lease's managed
fields. The clocks of the user's machine and of the operator's node may be wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from copyrator.api.text import first_of, format_time, said, time_since
from copyrator.cli.core.cluster import all_of
from copyrator.cli.core.faults import hint
from copyrator.cli.core.installation import (
    SELECTOR,
    Installation,
    is_current,
    pod_selector,
    renewed,
)
from copyrator.cli.core.objects import Body, listed
from copyrator.kube import errors
from copyrator.kube.resources import LEASES, PODS
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

SHOWN: Final = 3
"""Namespaces, or pods, that a sentence names."""


@dataclass(frozen=True, slots=True)
class PodsState:
    """The pods of the operator's Deployment."""

    wanted: int
    ready: int
    reasons: Sequence[str] = ()
    """Why those that there are aren't ready."""

    def describe(self, deployment: str) -> str:
        """As the cause of a fault."""
        if self.wanted == 0:
            return f"the Deployment {deployment} is scaled to 0"
        if self.ready:
            return f"the Deployment {deployment} has {self.ready} of {self.wanted} pods ready"
        why = f": {first_of(self.reasons, SHOWN, '; ')}" if self.reasons else ""
        return f"no pod of the Deployment {deployment} is ready{why}"


async def read_pods(client: KubeClient, deployment: Body) -> PodsState:
    """The state of a Deployment's pods; they are listed if none is ready."""
    wanted = deployment["spec"].get("replicas", 1)
    ready = (deployment.get("status") or {}).get("readyReplicas") or 0
    if not wanted or ready:
        return PodsState(wanted, ready)
    namespace = name_of(deployment).namespace
    try:
        found = await listed(client, PODS, namespace, selector=pod_selector(deployment))
    except errors.Forbidden:
        return PodsState(wanted, ready, ("you have no permission to list them",))
    reasons = [reason for pod in found for reason in wait_reasons(pod)]
    return PodsState(wanted, ready, reasons if found else ("there are none",))


def wait_reasons(pod: Body) -> Iterator[str]:
    """What a pod's containers wait for, and how they ended; of one that isn't scheduled, why."""
    status = pod.get("status") or {}
    name = name_of(pod).name
    for container in status.get("containerStatuses") or ():
        state = (container.get("state") or {}).get("waiting") or {}
        last = (container.get("lastState") or {}).get("terminated") or {}
        if state.get("reason"):
            message = f": {state['message']}" if state.get("message") else ""
            ended = f" (exit code {last.get('exitCode')}, {last.get('reason')})" if last else ""
            yield said(f"{name}: {state['reason']}{message}{ended}")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield said(f"{name}: {condition.get('reason')}: {condition.get('message')}")


async def read_downtime(
    client: KubeClient, finding: Awaitable[Installation], scopes: Iterable[str | None]
) -> list[str]:
    """A sentence for each operator of these namespaces (None: all) that is down.

    Nothing is said of what can't be read, nor without leader election.
    """
    with suppress(errors.ApiError):
        return await downtimes(client, await finding, scopes)
    return []


async def downtimes(
    client: KubeClient, found: Installation, scopes: Iterable[str | None]
) -> list[str]:
    """The same.

    Raises:
        ApiError: a Lease can't be read.
    """
    places = list(scopes)
    texts = await all_of(
        _downtime(client, one)
        for one in (found, *found.others)
        if any(place is None or one.settings.serves(place) for place in places)
    )
    return [text for text in texts if text]


async def _downtime(client: KubeClient, installation: Installation) -> str:
    settings, lease = installation.settings, None
    is_hidden = bool(installation.denied)
    if not settings.leader_election or (is_hidden and installation.home is None):
        return ""
    if installation.found or is_hidden:
        try:
            lease = await client.get(LEASES, installation.lease_namespace, settings.lease_name)
        except errors.Forbidden:
            return ""
        except errors.NotFound:
            if is_hidden:  # its name may be another one
                return ""
    if lease is not None and is_current(lease, client.server_time):
        return ""
    body = installation.manifest
    pods = None if body is None else await read_pods(client, body)
    return downtime(installation, pods, lease, client.server_time)


def downtime(
    installation: Installation, pods: PodsState | None, lease: Body | None, now: datetime
) -> str:
    """What is said of an operator without a current Lease; pods: of its Deployment, if known."""
    if lease is None and not installation.found:
        where = f"the namespace {installation.home}" if installation.home else "the cluster"
        return (
            f"No operator was found in {where}: there is neither a Deployment with the label "
            f"{SELECTOR} nor a Lease {installation.settings.lease_name}. What follows may be out "
            f"of date; see: {hint('doctor')}"
        )
    look = hint("doctor", "-n", installation.namespace)
    shown = f"Lease {installation.lease}"
    deployment = f"{installation.namespace}/{installation.deployment}"
    why = pods.describe(deployment) if pods else ""
    last = None if lease is None else renewed(lease)
    served = first_of(installation.settings.watch_namespaces, SHOWN, ", ")
    who = f"The operator for {served}" if served else "The operator"
    if last is None:
        cause = "; ".join(filter(None, (f"its {shown} doesn't exist", why)))
        return f"{who} is down: {cause}. What follows may be out of date; see: {look}"
    time = format_time(last)
    cause = f": {why}" if why else ""
    return (
        f"{who} has been down for {time_since(time, now)}{cause}. What follows is as of {time}, "
        f"when its {shown} was last renewed; see: {look}"
    )
