"""Which of several Bundles owns a release, the others' message, and which may begin a Job.

The order is that of BundleCache.bundles_of. Jobs are checked, too: while one of another Bundle
changes a release, no other begins.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.deploy.jobs import JobClient
from copyrator.bundles.deploy.pod import JobKind
from copyrator.bundles.status import StaleError
from copyrator.kube.events import NORMAL

log = logging.getLogger(__name__)

_REMEDY: Final = "rename this one, set another project_namespace, or delete one of the two"


class ReleaseOwnership:
    """Whether a Bundle owns the release that it names."""

    def __init__(self, context: Context, jobs: JobClient) -> None:
        self._context = context
        self._jobs = jobs
        self._beginning: dict[tuple[str, str], BundleEntry] = {}

    def conflict(self, entry: BundleEntry, spec: BundleSpec) -> tuple[BundleReason, str] | None:
        """The reason and message where a Bundle may not deploy its release; None where it may."""
        where_it_is = entry.status.deployed.namespace
        if where_it_is and where_it_is != spec.project_namespace:
            return BundleReason.NAMESPACE_CHANGED, (
                f"the release is deployed in {where_it_is}, and project_namespace is now "
                f"{spec.project_namespace}: the old release would remain installed. Set it back, "
                "or delete and recreate the Bundle"
            )
        release = spec.project_namespace, spec.release
        named = self._context.bundles.bundles_of(release)
        if named and named[0].key != entry.key:
            return BundleReason.RELEASE_CONFLICT, _belongs(release, named[0])
        for rival in named[1:]:
            if self.uninstalls(rival):
                return BundleReason.RELEASE_CONFLICT, (
                    f"a Job of Bundle {_name(rival)} is uninstalling release {_text(release)}; "
                    "this Bundle deploys it when that Job has ended"
                )
        return None

    def uninstalls(self, entry: BundleEntry) -> bool:
        """Whether an uninstall Job of a Bundle hasn't ended yet."""
        if not entry.deleting:
            return False
        jobs = self._jobs.of(entry.key, entry.uid)
        return any(job.kind is JobKind.UNINSTALL and not job.done for job in jobs)

    @contextmanager
    def beginning(self, entry: BundleEntry, spec: BundleSpec) -> Iterator[None]:
        """Record an attempt and create its Job while no other Bundle of the release can do so.

        Raises:
            StaleError: another Bundle has become the release's owner.
        """
        release = spec.project_namespace, spec.release
        holder = self._beginning.get(release)
        if self.conflict(entry, spec) or (holder is not None and holder.key != entry.key):
            raise StaleError
        self._record_takeover(entry, release)
        self._beginning[release] = entry
        try:
            yield
        finally:
            del self._beginning[release]

    def _record_takeover(self, entry: BundleEntry, release: tuple[str, str]) -> None:
        """Emit an Event where another Bundle deployed the release, which isn't accepted there."""
        if entry.installed_release == release:
            return
        for rival in self._context.bundles.bundles_of(release)[1:]:
            if rival.installed_release == release and not rival.deleting:
                text = (
                    f"Release {_text(release)} was deployed by Bundle {_name(rival)}, which "
                    f"namespace {release[0]} hasn't accepted; this Bundle takes it over"
                )
                self._context.record(entry, NORMAL, "ReleaseTakenOver", text)
                log.info("%s: %s", entry.key, text)


def _belongs(release: tuple[str, str], owner: BundleEntry) -> str:
    if owner.installed_release == release:
        return f"Bundle {_name(owner)} already deploys release {_text(release)}; {_REMEDY}"
    if owner.running_release == release:
        return (
            f"a Job of Bundle {_name(owner)} is deploying release {_text(release)}; this Bundle is "
            f"reconciled again when it has ended. To resolve the conflict now, {_REMEDY}"
        )
    why = "which is older"
    if owner.key.namespace == release[0]:
        why = "which is in the release's own namespace"
    return f"release {_text(release)} belongs to Bundle {_name(owner)}, {why}; {_REMEDY}"


def _text(release: tuple[str, str]) -> str:
    return "/".join(release)


def _name(entry: BundleEntry) -> str:
    return f"{entry.key.namespace}/{entry.key.name}"
