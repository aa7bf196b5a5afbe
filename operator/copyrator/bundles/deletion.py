"""Reconciles a Bundle that is being deleted: uninstalls its release, or reports that it is kept."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import InvalidSpec
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.jobs import Jobs
from copyrator.bundles.ownership import Ownership
from copyrator.bundles.policy import ready_conditions
from copyrator.bundles.policy.jobs.manifest import JobKind
from copyrator.bundles.releases import is_stored
from copyrator.bundles.status import StatusWriter
from copyrator.bundles.uninstalls import Progress, Uninstalls
from copyrator.kube.errors import Forbidden, NotFound
from copyrator.kube.events import NORMAL, WARNING, ObjectRef
from copyrator.kube.resources import NAMESPACES

log = logging.getLogger(__name__)

_DRIVER: Final = "HELM_DRIVER"
"""Variable of ``spec.env`` by which Helm stores releases elsewhere than in Secrets."""


class Deletions:
    """Reconciles Bundles with a deletionTimestamp."""

    def __init__(
        self, context: Context, jobs: Jobs, writer: StatusWriter, ownership: Ownership
    ) -> None:
        self._context = context
        self._jobs = jobs
        self._writer = writer
        self._ownership = ownership
        self._uninstalls = Uninstalls(context, jobs, writer)

    async def visit(self, entry: BundleEntry, *, deploy_runs: bool) -> None:
        """Take the next step towards removing the finalizer."""
        memory = self._context.memory(entry.key)
        held = {names.FINALIZER_BUNDLE, names.FINALIZER_KOPF} & set(entry.finalizers)
        if not held or memory.deploy.remove_finalizer == entry.uid:
            return
        await self._jobs.end_plans(entry.key, entry.uid)
        if await self._skips_uninstall(entry):
            await self._remove_finalizer(entry)
        elif deploy_runs or self._deploy_runs(entry):
            text = "A deploy is running; the deletion continues when it has ended"
            await self._writer.write(entry, entry.status, ready_conditions.uninstalling(text))
        elif await self._has_nothing_to_uninstall(entry):
            await self._remove_finalizer(entry)
        else:
            progress = await self._uninstalls.visit(entry, self._uninstallable(entry))
            if progress is Progress.REFUSED:
                self._orphan(entry, "namespace-terminating")
            if progress is not Progress.UNDER_WAY:
                await self._remove_finalizer(entry)

    async def _remove_finalizer(self, entry: BundleEntry) -> None:
        """Remove the finalizer, once: the cached Bundle has it until the event of its deletion."""
        await self._writer.remove_finalizer(entry)
        self._context.memory(entry.key).deploy.remove_finalizer = entry.uid

    async def _skips_uninstall(self, entry: BundleEntry) -> bool:
        """Whether the release isn't uninstalled: by force-delete, or in a Terminating namespace."""
        if entry.annotations.get(names.ANN_FORCE_DELETE) == "true":
            self._orphan(entry, "force-delete")
        elif await self._is_namespace_terminating(entry.key.namespace):
            self._orphan(entry, "namespace-terminating")
        else:
            return False
        return True

    async def _has_nothing_to_uninstall(self, entry: BundleEntry) -> bool:
        """Whether there is no release to uninstall, or it is to be kept."""
        if not entry.has_release:
            return True
        if entry.orphans:
            self._orphan(entry, "policy")
            return True
        spec = self._uninstallable(entry)
        owner = self._context.bundles.owner((spec.project_namespace, spec.release))
        if owner is not None and owner.key != entry.key:
            if self._ownership.uninstalls(entry):
                return False  # its Job began while it owned the release; the new owner waits for it
            text = (
                f"Release {spec.project_namespace}/{spec.release} isn't uninstalled: it belongs to "
                f"Bundle {owner.key.namespace}/{owner.key.name}"
            )
            self._context.record(entry, NORMAL, "ReleaseKept", text)
            return True
        return not entry.has_deployed and await self._is_never_installed(entry)

    async def _is_namespace_terminating(self, namespace: str) -> bool:
        try:
            body = await self._context.client.get(NAMESPACES, None, namespace)
        except NotFound:
            return True
        return "deletionTimestamp" in body["metadata"]

    async def _is_never_installed(self, entry: BundleEntry) -> bool:
        """Whether all attempts failed before Helm stored a release.

        Then no uninstall Job is needed, which might be unable to start for the same cause.
        """
        spec = self._uninstallable(entry)
        if isinstance(entry.spec, BundleSpec) and _DRIVER in entry.spec.env:
            return False  # of a gated Bundle too, which may have had no gate when it deployed
        client = self._context.client
        try:
            return not await is_stored(client, spec.project_namespace, spec.release)
        except Forbidden:  # bundles.allowedSecrets of the chart
            return False

    def _orphan(self, entry: BundleEntry, cause: str) -> None:
        """Report a release that isn't uninstalled: log, metric and an Event on the namespace."""
        if not entry.has_release:
            return
        spec = self._uninstallable(entry)
        text = (
            f"Release {spec.project_namespace}/{spec.release} of Bundle {entry.key.namespace}/"
            f"{entry.key.name} is orphaned ({cause}): the operator doesn't uninstall it"
        )
        log.warning("%s: %s", entry.key, text)
        self._context.metrics.orphaned_releases.labels(cause).inc()
        namespace = ObjectRef("v1", "Namespace", "", entry.key.namespace)
        self._context.recorder.record(namespace, WARNING, "ReleaseOrphaned", text)

    def _deploy_runs(self, entry: BundleEntry) -> bool:
        jobs = self._jobs.of(entry.key, entry.uid)
        return any(job.kind is JobKind.DEPLOY and not job.done for job in jobs)

    def _uninstallable(self, entry: BundleEntry) -> BundleSpec:
        """The spec for the uninstall, with the release's namespace by the status."""
        spec = entry.spec
        if isinstance(spec, InvalidSpec):
            spec = self._context.default_spec(entry.key)
        spec = self._context.effective(spec)
        where = entry.status.deployed.namespace or entry.status.attempted.namespace
        return replace(spec, project_namespace=where) if where else spec
