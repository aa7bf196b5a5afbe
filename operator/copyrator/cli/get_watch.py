"""The changes that `copyrator get --watch` prints."""

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
    """One watch; the namespace None is the whole cluster."""

    resource: Resource
    namespace: str | None
    selector: str | None
    metadata_only: bool


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
    version: str | None = None
    try:
        while True:
            if version is None:
                pages = client.list_pages(
                    resource,
                    watched.namespace,
                    label_selector=watched.selector,
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
                    resource_version=version,
                ):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK":
                        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
                        changes.put_nowait({**event.object, **kind})
            except errors.Gone:
                version = None
    except errors.ApiError as error:
        changes.put_nowait(error)
