"""The kubeconfigs of Bundles: which cluster each stands for, and when its credential ends."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec, TargetCluster
from copyrator.api.bundle_status import BundleStatus, ClusterStatus
from copyrator.api.conditions import ConditionType, NewConditions
from copyrator.api.kubeconfig import InvalidKubeconfigError, Kubeconfig, is_home, kubeconfig_in
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import format_time
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.conditions import with_conditions
from copyrator.bundles.engine.feature import Feature, Parts
from copyrator.bundles.engine.references import (
    Known,
    MissingReferenceError,
    Ref,
    ReferenceReader,
    TargetAccess,
    references_of,
    version_of,
)
from copyrator.bundles.engine.step import Step
from copyrator.bundles.features.cluster.credential import credential_ends, kept_credential_ends
from copyrator.bundles.features.cluster.fields import ClusterSpec
from copyrator.bundles.jobs.identity import hash_of
from copyrator.kube.resources import SECRETS

_USE = "cluster"
"""What a kubeconfig is read for."""


class ClusterFeature(Feature):
    """The clusters of all Bundles with ``spec.kubeConfig``."""

    spec = ClusterSpec
    status = ClusterStatus
    _references: ReferenceReader

    def connect(self, parts: Parts) -> None:
        """Take the reader of what Bundles name."""
        self._references = parts.of(ReferenceReader)

    async def locate(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        take: Callable[[Step], Awaitable[BundleEntry]],
    ) -> tuple[BundleEntry, BundleSpec]:
        """Record the API server that the kubeconfig names, and tell before its credential ends."""
        self._references.watches.follow(entry.key, references_of(spec))
        target = await self._known(entry, spec)
        entry = await take(self._warn_of_end(entry, spec, target.ends))
        status = entry.status.with_part(ClusterStatus(server=target.spec.server or None))
        return await take(Step(entry, status)), target.spec

    async def target(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:
        """The cluster, and the kubeconfig itself, which is read anew and isn't kept."""
        wanted = spec.part(ClusterSpec)
        ref = Ref(SECRETS, spec.namespace, wanted.secret)
        self._references.forget(entry.key, _USE)
        body = await self._references.read(ref)
        found = _read_kubeconfig(ref, wanted.key, body, self._home)
        place, ends = found.place, found.ends
        parts = place.server, place.ca.decode(), place.tls_server_name
        cluster = TargetCluster(place.server, hash_of(*parts))
        known = Known((ref,), (version_of(body),), wanted, (cluster, ends))
        self._references.keep(entry.key, _USE, known)
        _check_end(ref, ends, self.context.clock())
        return TargetAccess(structs.replace(spec, cluster=cluster), found, ends)

    def conditions(self, entry: BundleEntry, status: BundleStatus) -> NewConditions:
        """The warning as it is on record."""
        if not isinstance(entry.spec, BundleSpec) or not entry.spec.uses(ClusterSpec):
            return {}
        return {ConditionType.CERTIFICATE_EXPIRING: kept_credential_ends(status)}

    async def _known(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:
        """The spec with the cluster of its kubeconfig; reads that only if it changed.

        Raises:
            MissingReferenceError: there is no kubeconfig that may be used.
        """
        if (wanted := spec.find(ClusterSpec)) is None:
            return TargetAccess(spec)
        ref = Ref(SECRETS, spec.namespace, wanted.secret)
        known = self._references.recall(entry.key, _USE, (ref,), wanted)
        if known is None:
            return await self.target(entry, spec)
        cluster, ends = known.value
        _check_end(ref, ends, self.context.clock())
        return TargetAccess(structs.replace(spec, cluster=cluster), ends=ends)

    def _warn_of_end(self, entry: BundleEntry, spec: BundleSpec, ends: datetime | None) -> Step:
        """Tell before the credential of ``spec.kubeConfig`` ends."""
        kind, now = ConditionType.CERTIFICATE_EXPIRING, self.context.clock()
        warning = self.context.settings.certificate_warning
        found = credential_ends(spec.find(ClusterSpec), ends, now, warning)
        moments = () if ends is None else (ends - timedelta(seconds=warning), ends)
        due = tuple(one for one in moments if one > now)
        before = kept_credential_ends(entry.status)
        if not entry.status.conditions or found == before:  # of a new Bundle Ready comes first
            return Step(entry, due=due)

        async def tell(written: BundleEntry) -> Step:
            if found is not None:
                self.context.record(written, found.reason, found.message)
            return Step(written)

        return Step(entry, with_conditions(entry.status, {kind: found}, now), due=due, effect=tell)

    @property
    def _home(self) -> tuple[str, ...]:
        """The addresses of the operator's own API server: the one in use, and its ClusterIP."""
        host = self.context.client.connection.host
        return host, os.environ.get("KUBERNETES_SERVICE_HOST", "")


def _read_kubeconfig(
    ref: Ref, key: str, body: Mapping[str, Any] | None, home: Collection[str]
) -> Kubeconfig:
    """The kubeconfig of ``spec.kubeConfig``, which isn't of the operator's own cluster.

    Raises:
        MissingReferenceError: it may not be used.
    """
    where, reason = f"{ref} of spec.kubeConfig", BundleReason.KUBE_CONFIG_INVALID
    if body is None:
        raise MissingReferenceError(f"{where} doesn't exist; create it, or restore it", reason)
    try:
        found = kubeconfig_in(body, key)
    except InvalidKubeconfigError as error:
        raise MissingReferenceError(f"{where}: {error}", reason) from None
    if is_home(found.server, home):
        text = (
            f"{where} names the operator's own cluster, {found.server}; remove spec.kubeConfig: "
            "a Bundle deploys there by spec.serviceAccountName and spec.project_namespace"
        )
        raise MissingReferenceError(text, BundleReason.INVALID_SPEC)
    return found


def _check_end(ref: Ref, ends: datetime | None, now: datetime) -> None:
    """Raise where the credential of the kubeconfig has ended."""
    if ends is None or now < ends:
        return
    raise MissingReferenceError(
        f"{ref} of spec.kubeConfig: its token or certificate has expired at {format_time(ends)}; "
        "write a kubeconfig with a new one into the Secret",
        BundleReason.KUBE_CONFIG_INVALID,
    )


FEATURE = ClusterFeature
