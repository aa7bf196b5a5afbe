"""The objects of a Bundle's release, read with the user's permissions, and their health."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from copyrator.api import names
from copyrator.api.fields import InvalidSpec
from copyrator.api.health import Result, Status, compute
from copyrator.bundles.health.judge import find_deploy_fault, other_manager, release_of
from copyrator.cli.core.cluster import all_of
from copyrator.cli.core.objects import listed, skipped
from copyrator.cli.view.bundle import BundleView, target_cluster
from copyrator.kube import errors
from copyrator.kube.resources import DAEMONSETS, DEPLOYMENTS, JOBS, STATEFULSETS, Resource

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

Body = Mapping[str, Any]

_JUDGED = (DEPLOYMENTS, STATEFULSETS, DAEMONSETS, JOBS)
"""The kinds that have a health."""
SIDE_BY_SIDE = 16
"""Kinds that are listed at the same time."""


async def release_objects(
    client: KubeClient, body: Body, kinds: Awaitable[Sequence[Resource]]
) -> tuple[list[Body], str]:
    """The objects of a Bundle's release in its namespace, and what couldn't be read of them."""
    view = BundleView(body, datetime.now(UTC))
    spec = view.spec
    if isinstance(spec, InvalidSpec) or find_deploy_fault(spec, view.status) is not None:
        return [], ""
    if spec.kube_config is not None:
        return [], f"The release's objects aren't shown: they are in {target_cluster(view)}."
    manager = other_manager(body["metadata"].get("labels") or {}, spec.env) or names.HELM
    selector = f"{names.LABEL_MANAGED_BY}={manager}"
    place, limit = spec.project_namespace, asyncio.Semaphore(SIDE_BY_SIDE)
    denied: list[errors.Forbidden] = []
    failed: list[str] = []

    async def read(resource: Resource) -> list[dict[str, Any]]:
        only = resource not in _JUDGED
        try:
            async with limit:
                return await listed(client, resource, place, selector=selector, metadata_only=only)
        except errors.Forbidden as error:
            denied.append(error)
        except errors.ApiError as error:
            failed.append(f"{resource.key}: {error}")
        return []

    try:
        lists = await all_of(map(read, await kinds))
    except errors.ApiError as error:
        return [], f"The release's objects aren't shown: the discovery of kinds failed: {error}"
    name = view.name.name
    found = [one for part in lists for one in part if release_of(one["metadata"]) == name]
    notes = [skipped(denied), *(f"Not shown: {text}." for text in failed)]
    unique = {str(one["metadata"].get("uid")): one for one in found}
    return list(unique.values()), " ".join(filter(None, notes))


def health_of(body: Body) -> Result | None:
    """The health of an object of a release; None where its kind has none."""
    kind = (body["apiVersion"], body["kind"])
    if any(kind == (one.api_version, one.kind) for one in _JUDGED):
        return compute(str(body["kind"]), body)
    if "deletionTimestamp" in body["metadata"]:
        return Result(Status.TERMINATING, "it is being deleted")
    return None
