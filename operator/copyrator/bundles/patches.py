"""Changes Bundles, each only as it was read; what an answer means for others is enqueued."""

from __future__ import annotations

from typing import Any

from copyrator.api import names
from copyrator.bundles.bundle import BundleEntry, read_entry
from copyrator.bundles.context import Context
from copyrator.bundles.engine.feature import Features
from copyrator.bundles.requests import reset_patch
from copyrator.bundles.step import Change
from copyrator.kube.client.client import PatchType
from copyrator.kube.errors import ConflictError, Invalid, NotFound
from copyrator.kube.resources import BUNDLES


class StaleError(Exception):
    """The Bundle changed concurrently; the cache has its new state: reconcile it again."""


class BundlePatcher:
    """Changes finalizers, annotations and statuses of Bundles."""

    def __init__(self, context: Context, features: Features) -> None:
        self._context = context
        self._features = features

    async def patch(
        self,
        entry: BundleEntry,
        body: dict[str, Any],
        *,
        subresource: str | None = None,
    ) -> BundleEntry:
        """Change a Bundle, or its subresource; returns the Bundle as it is then.

        Raises:
            StaleError: another client changed it since ``entry``; nothing was written.
        """
        key, guard = entry.key, {"uid": entry.uid, "resourceVersion": entry.resource_version}
        body = {**body, "metadata": {**body.get("metadata", {}), **guard}}
        try:
            answer = await self._context.client.patch(
                BUNDLES,
                key.namespace,
                key.name,
                body,
                kind=PatchType.MERGE,
                subresource=subresource,
            )
        except ConflictError:
            await self.refresh(entry)
            raise StaleError from None
        return self._take(answer)

    async def ensure_finalizer(self, entry: BundleEntry) -> BundleEntry:
        """Add our finalizer, and remove the original operator's finalizer and annotations."""
        if names.FINALIZER_BUNDLE in entry.finalizers and not entry.leftovers:
            return entry
        kept = [name for name in entry.finalizers if name != names.FINALIZER_KOPF]
        if names.FINALIZER_BUNDLE not in kept:
            kept.append(names.FINALIZER_BUNDLE)
        metadata: dict[str, Any] = {"finalizers": kept}
        if entry.leftovers:
            metadata["annotations"] = await self._kopf_annotations(entry)
        return await self.patch(entry, {"metadata": metadata})

    async def remove_finalizer(self, entry: BundleEntry) -> None:
        """Remove our finalizer (and the original's), so that the deletion completes."""
        ours = {names.FINALIZER_BUNDLE, names.FINALIZER_KOPF}
        kept = [name for name in entry.finalizers if name not in ours]
        if len(kept) == len(entry.finalizers):
            return
        try:
            await self.patch(entry, {"metadata": {"finalizers": kept}})
        except NotFound:
            return

    async def reset_force(self, entry: BundleEntry) -> BundleEntry:
        """Reset ``forceUpdate`` to 0, unless another client changed it; returns the Bundle then."""
        uid = {"op": "test", "path": "/metadata/uid", "value": entry.uid}
        patch = [uid, *reset_patch(entry.status)]
        try:
            answer = await self._context.client.patch(
                BUNDLES,
                entry.key.namespace,
                entry.key.name,
                patch,
                kind=PatchType.JSON,
                subresource="status",
            )
        except Invalid:
            return entry  # the patch's test failed: it isn't 1 any more
        return self._take(answer)

    async def refresh(self, entry: BundleEntry) -> None:
        """Read the Bundle with GET, and store it in the cache."""
        key = entry.key
        try:
            body = await self._context.client.get(BUNDLES, key.namespace, key.name)
        except NotFound:
            before = self._context.bundles.get(key)
            if self._context.bundles.remove(key, entry.uid):
                self.requeue_others(before, None)
            return
        self._take(body)

    def _take(self, body: dict[str, Any]) -> BundleEntry:
        written = read_entry(body, self._context.defaults)
        before = self._context.bundles.get(written.key)
        if self._context.bundles.take(written):
            self.requeue_others(before, written)
        return written

    def requeue_others(self, before: BundleEntry | None, after: BundleEntry | None) -> None:
        """Have the Bundles reconciled that a change of one in the cache concerns."""
        context = self._context
        for key in context.bundles.changed_rivals(before, after):
            context.schedule.changed(key, Change.RIVAL)
        for key, why in self._features.wakes(before, after):
            context.schedule.changed(key, why)

    async def _kopf_annotations(self, entry: BundleEntry) -> dict[str, None]:
        body = await self._context.client.get(BUNDLES, entry.key.namespace, entry.key.name)
        found = body["metadata"].get("annotations") or {}
        return {name: None for name in found if name.startswith(names.KOPF_PREFIX)}
