"""What Helm keeps of a release, from the metadata of its Secrets alone."""

from __future__ import annotations

from copyrator.bundles.rollback import Revision, read_revision
from copyrator.kube.client import KubeClient
from copyrator.kube.resources import SECRETS


async def stored_revisions(client: KubeClient, namespace: str, release: str) -> list[Revision]:
    """The revisions that are stored, in no order.

    Raises:
        ApiError: they can't be listed.
    """
    pages = client.list_pages(
        SECRETS, namespace, label_selector=f"owner=helm,name={release}", metadata_only=True
    )
    return [
        revision
        async for page in pages
        for body in page.items
        if (revision := read_revision(body["metadata"]))
    ]
