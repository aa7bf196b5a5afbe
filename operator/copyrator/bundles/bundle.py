"""One Bundle in the cache: its spec and status, parsed, and the metadata that reconciling needs.

Everything else that is to be known of a Bundle follows from these, and is computed when it is
needed (docs/adr/0036-a-parsed-status-in-the-cache.md).
"""

from __future__ import annotations

import logging
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from copyrator.api import names
from copyrator.api.bundle import bound_status, parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleDeletionPolicy, BundleSpec
from copyrator.api.bundle_status import (
    BundleStatus,
    parse_status,
)
from copyrator.api.conditions import ConditionStatus, ConditionType
from copyrator.api.fields import InvalidSpec
from copyrator.api.health import HealthMode
from copyrator.api.keys import BundleKey
from copyrator.bundles.deploy.identity import release_metadata, spec_hash
from copyrator.bundles.deploy.requests import FORCE_UPDATE, DeployRequest, pending_request
from copyrator.bundles.plan.record import requested_plan
from copyrator.settings import limits

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleEntry:
    """One Bundle at one resourceVersion."""

    key: BundleKey
    uid: str
    resource_version: str
    generation: int
    created: str
    spec: BundleSpec | InvalidSpec
    spec_hash: str
    status: BundleStatus
    unread: bytes
    """The status as compressed JSON, where what is parsed of it isn't all of it; else empty."""
    labels: Mapping[str, str]
    """Those that are passed on to the release."""
    annotations: Mapping[str, str]
    """Those that are passed on to the release, and the operator's own."""
    finalizers: tuple[str, ...]
    deleting: bool
    orphans: bool
    """``spec.deletionPolicy`` is Orphan, also where the rest of the spec isn't valid."""
    leftovers: bool
    """It still has the original operator's finalizer or kopf's annotations."""

    @property
    def depends_on(self) -> tuple[BundleKey, ...]:
        """The Bundles that its new versions wait for."""
        return () if isinstance(self.spec, InvalidSpec) else self.spec.depends_on

    @property
    def promoted_from(self) -> tuple[BundleKey, ...]:
        """The Bundles that it is promoted from."""
        return () if isinstance(self.spec, InvalidSpec) else self.spec.promote_from.bundles

    @property
    def is_paused(self) -> bool:
        """Whether updates are disabled: no requests to the registry, no plans, no deploys."""
        return names.ANN_DISABLE_AUTOUPDATE in self.annotations

    @property
    def health(self) -> str:
        """The status of Healthy, if it is a valid one, and the spec has ``health``; else empty."""
        if isinstance(self.spec, InvalidSpec) or self.spec.health is HealthMode.OFF:
            return ""
        found = self.status.condition(ConditionType.HEALTHY).get("status")
        return next((one for one in ConditionStatus if found == one), "")

    @property
    def request(self) -> DeployRequest | None:
        """A user's request that hasn't been handled yet."""
        return pending_request(self.annotations, self.status)

    @property
    def plan_request(self) -> str | None:
        """A user's request for a plan that hasn't been handled yet."""
        return requested_plan(self.annotations, self.status)

    @property
    def attempted_namespace(self) -> str | None:
        """The namespace of the newest attempt, whatever its outcome; None where there was none."""
        if not self.status.attempted.attempt:
            return None
        known = None if isinstance(self.spec, InvalidSpec) else self.spec.project_namespace
        return self.status.attempted.namespace or known

    @property
    def release(self) -> tuple[str, str] | None:
        """Namespace and name of the release; None while the spec isn't valid."""
        if isinstance(self.spec, InvalidSpec):
            return None
        return self.spec.project_namespace, self.spec.release

    @property
    def installed_release(self) -> tuple[str, str] | None:
        """Namespace and name of the release that it deployed successfully, by its status."""
        if not self.status.has_deployed:
            return None
        where = self.status.deployed.namespace or (self.release or (None,))[0]
        return (where, self.key.name) if where else None

    @property
    def running_release(self) -> tuple[str, str] | None:
        """Namespace and name of the release of its running attempt; None where none runs."""
        return self._attempted_release if self.status.attempted.is_running else None

    @property
    def releases(self) -> tuple[tuple[str, str], ...]:
        """The releases that it has, is deploying, or is to deploy.

        A Bundle whose release is elsewhere can't deploy what its spec names now, and one that is
        being deleted deploys nothing: neither blocks other Bundles of that release.
        """
        found = {self.running_release, self.installed_release}
        if self.deleting:
            held = {names.FINALIZER_BUNDLE, names.FINALIZER_KOPF} & set(self.finalizers)
            # Without our finalizer its deletion is complete, even if another finalizer keeps it.
            found = found | {self._attempted_release} if held else {self.running_release}
        elif self.installed_release is None:
            found.add(self.release)
        return tuple(sorted(one for one in found if one is not None))

    @property
    def _attempted_release(self) -> tuple[str, str] | None:
        """The release of its newest attempt, whatever its outcome; None where there was none."""
        where = self.attempted_namespace
        return (where, self.key.name) if where else None


def stored_status(entry: BundleEntry) -> dict[str, Any]:
    """The status as stored, including what can't be parsed, but for ``forceUpdate``."""
    if not entry.unread:
        return entry.status.to_dict()
    found: dict[str, Any] = msgspec.json.decode(zlib.decompress(entry.unread))
    return found


def read_entry(body: Mapping[str, Any], defaults: BundleDefaults) -> BundleEntry:
    """Read a Bundle as the API server returns it."""
    metadata = body["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    finalizers = tuple(metadata.get("finalizers") or ())
    ours = {
        key: value[: limits.BUNDLE_REQUEST]
        for key, value in annotations.items()
        if key.startswith(names.BUNDLE_PREFIX)
    }
    raw_spec = body.get("spec")
    raw_spec = raw_spec if isinstance(raw_spec, Mapping) else {}
    spec = _read_spec(body, defaults)
    valid = not isinstance(spec, InvalidSpec)  # else of any size, and not deployed
    raw_status = bound_status(body.get("status"))
    status = parse_status({"status": raw_status})
    rest = {name: value for name, value in raw_status.items() if name != FORCE_UPDATE}
    return BundleEntry(
        key=BundleKey(metadata["namespace"], metadata["name"]),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 0),
        created=metadata.get("creationTimestamp", ""),
        spec=spec,
        spec_hash=spec_hash(raw_spec, labels, annotations) if valid else "",
        status=status,
        unread=zlib.compress(msgspec.json.encode(rest)) if status.to_dict() != rest else b"",
        labels=(release_metadata(labels) if valid else None) or _NONE,
        annotations=ours | (release_metadata(annotations) if valid else {}) or _NONE,
        finalizers=tuple(sys.intern(str(name)) for name in finalizers),
        deleting="deletionTimestamp" in metadata,
        orphans=raw_spec.get("deletionPolicy") == BundleDeletionPolicy.ORPHAN,
        leftovers=names.FINALIZER_KOPF in finalizers
        or any(key.startswith(names.KOPF_PREFIX) for key in annotations),
    )


def _read_spec(body: Mapping[str, Any], defaults: BundleDefaults) -> BundleSpec | InvalidSpec:
    """The spec; on an internal error an InvalidSpec, so that only this Bundle is affected."""
    try:
        return parse_bundle(body, defaults)
    except Exception as error:
        what = type(error).__name__
        log.exception("the spec of a Bundle can't be read: %s", what)
        text = f"the operator failed to parse it ({what}); report a bug with the Bundle's spec"
        return InvalidSpec("spec", text)


_NONE: Final[Mapping[str, str]] = {}
"""Shared by all entries without relevant labels or annotations; never changed."""
