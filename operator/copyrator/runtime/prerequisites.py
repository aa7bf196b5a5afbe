"""Prerequisites of the operator's work: an API server, both CRDs, and leadership.

While one is missing the process is live, waits, and reports what it waits for: in /readyz, and in
the log once per change. A CRD whose names aren't accepted would never be established, so its
conditions are read and the remedy is reported.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.kube.resources import BUNDLES, CRDS, RULES, Resource

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.kube.leader import Elector

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_DELAY = 0.5
LONGEST_DELAY = 10.0
"""Seconds between two tries."""


class MissingPrerequisite:
    """The prerequisite that is missing, or None; logs it once per change."""

    def __init__(self, initially: str) -> None:
        self.reason: str | None = initially

    def __call__(self, reason: str | None, *, quiet: bool = False) -> None:
        """Set the reason; a `quiet` one isn't logged, because it is short-lived."""
        if reason is not None and reason != self.reason and not quiet:
            log.warning("Waiting: %s", reason)
        self.reason = reason


async def retry_until_done(
    attempt: Callable[[], Awaitable[T]],
    waiting: MissingPrerequisite,
    what: str,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """Retry with back-off until it succeeds; `what` begins the message that `waiting` reports."""
    delay = FIRST_DELAY
    while True:
        try:
            return await attempt()
        except ApiError as error:
            waiting(f"{what}: {error}")
            pause = max(delay, min(error.retry_after or 0.0, 60.0))
        await sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
        delay = min(delay * 2, LONGEST_DELAY)


async def wait_for_leadership(
    elector: Elector,
    waiting: MissingPrerequisite,
    warm_up: Callable[[], Awaitable[object]],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Return when this replica leads; `warm_up` is called once, where another one leads.

    After `warm_up` a standby is ready: it could take over at once.
    """
    what = f"the Lease {elector.lease} can't be acquired"
    warm = False
    while not await retry_until_done(elector.attempt, waiting, what, sleep):
        if not warm:
            await warm_up()
        warm = True
        waiting(None)
        await sleep(elector.pause)


async def wait_for_crds(
    reader: KubeClient,
    waiting: MissingPrerequisite,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    *,
    readable: bool = True,
) -> None:
    """Return when both CRDs are established; `waiting` reports what is missing.

    Where they aren't `readable`, because no Role grants that, only discovery is used.
    """
    delay = FIRST_DELAY
    while True:
        missing = await retry_until_done(
            lambda: missing_crds(reader, readable=readable),
            waiting,
            "no response from the API server",
            sleep,
        )
        if not missing:
            return
        waiting("; ".join(missing))
        await sleep(delay)
        delay = min(delay * 1.5, LONGEST_DELAY)


async def missing_crds(reader: KubeClient, *, readable: bool = True) -> list[str]:
    """Return a message with the remedy for each CRD that can't be used.

    Raises:
        ApiError: a request failed.
    """
    look = _missing if readable else _unserved
    groups = await reader.request("GET", "/apis")
    listed = {group.get("name") for group in groups.get("groups") or ()}
    sentences = [await look(reader, resource, listed) for resource in (RULES, BUNDLES)]
    return [sentence for sentence in sentences if sentence]


async def _missing(reader: KubeClient, resource: Resource, listed: set[str]) -> str | None:
    name = f"{resource.plural}.{resource.group}"
    try:
        crd = await reader.get(CRDS, None, name)
    except NotFound:
        return f"the CRD {name} is missing: install the chart, or kubectl apply --server-side crds/"
    except Forbidden:
        return await _unserved(reader, resource, listed)
    if sentence := _not_established(crd):
        return sentence
    versions = [version["name"] for version in crd["spec"].get("versions") or ()]
    if versions and resource.version not in versions:
        return (
            f"the CRD {name} has the versions {', '.join(versions)} and not {resource.version}: "
            'docs/adoption.md, "A CRD of our name with other versions", has the steps'
        )
    if not await _served(reader, resource, listed):
        return f"the CRD {name} is established, but the API server doesn't serve it yet"
    return None


async def _unserved(reader: KubeClient, resource: Resource, listed: set[str]) -> str | None:
    """The same where the CRD itself can't be read."""
    if await _served(reader, resource, listed):
        return None
    return (
        f"{resource.plural}.{resource.group} isn't served, and the cause can't be "
        "read: grant get on customresourcedefinitions, and check that the CRD exists"
    )


def _not_established(crd: Mapping[str, Any]) -> str | None:
    name = crd["metadata"]["name"]
    listed = (crd.get("status") or {}).get("conditions") or []
    conditions = {condition["type"]: condition for condition in listed}
    if conditions.get("Established", {}).get("status") == "True":
        return None
    names = conditions.get("NamesAccepted", {})
    if names.get("status") == "False":
        return (
            f"the CRD {name} is not established, its names are taken ({names.get('message')}): "
            f"another CRD of the group {crd['spec']['group']}, such as an older operator's, has "
            "them; export its objects, delete that CRD, apply the objects again"
        )
    return f"the CRD {name} is not established yet"


async def _served(reader: KubeClient, resource: Resource, listed: set[str]) -> bool:
    """Whether discovery has the kind, among the groups that are `listed` and in the group's own.

    It lags some seconds behind an established CRD, and kopf reads it once: a kind that it doesn't
    find is never watched. Every user may read discovery.
    """
    if resource.group not in listed:
        return False
    try:
        served = await reader.request("GET", f"/apis/{resource.group}/{resource.version}")
    except NotFound:
        return False
    return any(entry.get("name") == resource.plural for entry in served.get("resources") or ())
