"""Helm's records of a release, from the metadata of its Secrets alone, and its namespace."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from copyrator.bundles.deploy.state import Revision, read_revision
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import Forbidden, NotFound
from copyrator.kube.resources import NAMESPACES, SECRETS

log = logging.getLogger(__name__)


async def is_stored(client: KubeClient, namespace: str, release: str) -> bool:
    """Whether Helm has a record of the release.

    Raises:
        ApiError: its Secrets can't be listed.
    """
    async for _ in _list_stored(client, namespace, release):
        return True
    return False


async def stored_revisions(client: KubeClient, namespace: str, release: str) -> list[Revision]:
    """The stored revisions of a release, in no order.

    Raises:
        ApiError: they can't be listed.
    """
    found = [read_revision(metadata) async for metadata in _list_stored(client, namespace, release)]
    return [revision for revision in found if revision]


async def is_namespace_missing(client: KubeClient, namespace: str) -> bool:
    """Whether a release's namespace doesn't exist; False where reading it is forbidden.

    Raises:
        ApiError: it can't be read now.
    """
    try:
        await client.get(NAMESPACES, None, namespace)
    except NotFound:
        return True
    except Forbidden:
        log.debug("namespace %s can't be read", namespace)
    return False


async def _list_stored(
    client: KubeClient, namespace: str, release: str
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the metadata of the Secrets that Helm reads as revisions: it selects by labels only."""
    selector = f"owner=helm,name={release}"
    pages = client.list_pages(SECRETS, namespace, label_selector=selector, metadata_only=True)
    async for page in pages:
        for body in page.items:
            yield body["metadata"]
