"""The changes that `copyrator get --watch` and `events --watch` print."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Watched:
    """One watch; the namespace None is the whole cluster.

    Without a `version` it begins with what changes from now on.
    """

    resource: Resource
    namespace: str | None
    selector: str | None = None
    metadata_only: bool = False
    fields: str | None = None
    """A field selector."""
    version: str | None = None
    """Of a list, whose later changes are watched."""
    deletions: bool = True
    """Whether a deleted object counts as changed."""


async def changes_of(
    client: KubeClient, watched: Sequence[Watched]
) -> AsyncIterator[dict[str, Any]]:
    """Yield each changed object; ends by cancellation only.

    Raises:
        ApiError: it can't be watched.
    """
    changes: asyncio.Queue[dict[str, Any] | errors.ApiError] = asyncio.Queue()
    tasks = [asyncio.create_task(_follow(client, one, changes)) for one in watched]
    try:
        while True:
            change = await changes.get()
            if isinstance(change, errors.ApiError):
                raise change
            yield change
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(
    client: KubeClient, watched: Watched, changes: asyncio.Queue[dict[str, Any] | errors.ApiError]
) -> None:
    """Queue the changes of one watch, reopening it when it ends."""
    resource = watched.resource
    version = watched.version
    try:
        while True:
            if version is None:
                pages = client.list_pages(
                    resource,
                    watched.namespace,
                    label_selector=watched.selector,
                    field_selector=watched.fields,
                    metadata_only=True,
                    limit=1,
                )
                version = (await anext(pages)).resource_version
                await pages.aclose()
            try:
                async for event in client.watch(
                    resource,
                    watched.namespace,
                    metadata_only=watched.metadata_only,
                    label_selector=watched.selector,
                    field_selector=watched.fields,
                    resource_version=version,
                ):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type == "DELETED" and not watched.deletions:
                        continue
                    if event.type != "BOOKMARK":
                        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
                        changes.put_nowait({**event.object, **kind})
            except errors.Gone:
                version = None
    except errors.ApiError as error:
        changes.put_nowait(error)
