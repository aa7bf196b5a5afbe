"""One Bundle in the cache: only the fields that reconciling needs, a few KB for any spec.

Its status is the largest part, and is read only while the Bundle is reconciled: it is kept as
compressed JSON, and parsed at each reconcile.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    BundleReason,
    BundleStatus,
    ConsentState,
    ConsentStatus,
    parse_status,
)
from copyrator.api.conditions import ConditionStatus
from copyrator.api.fields import InvalidSpec
from copyrator.api.health import HealthMode
from copyrator.api.keys import BundleKey
from copyrator.bundles.policy.plans.record import PreviewRequest
from copyrator.bundles.policy.requests import Request


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
    packed_status: bytes
    """Compressed JSON; ``status`` reads it."""
    reason: str
    """Of the Ready condition; empty where there is none."""
    pending: str
    """Reason of the condition UpdatePending where it is True; else empty."""
    quarantined: bool
    """Its newest attempt failed, and isn't retried automatically."""
    is_running: bool
    """An attempt is recorded that has no outcome yet."""
    is_inherited: bool
    """The original operator deployed it, and this one has recorded nothing yet."""
    observed_generation: int | None
    deployed_namespace: str | None
    """The namespace of the deployed release."""
    deployed_at: str
    """The time of that deploy, RFC 3339; empty where it isn't known."""
    has_deployed: bool
    """Something was deployed, by this operator or the original."""
    attempted_namespace: str | None
    """The namespace of the newest attempt, whatever its outcome."""
    request: Request | None
    """A user's request that hasn't been handled yet."""
    retry_at: datetime | None
    """When a failed attempt is retried. With these fields a poll that finds no change doesn't parse
    the status.
    """
    judge_at: datetime | None
    """When a waiting gate is evaluated again."""
    is_held: bool
    """A gate keeps a version from being deployed."""
    is_planning: bool
    """A plan is recorded that has no outcome yet."""
    plan_jobs: tuple[str, ...]
    """The Jobs of all plans that are recorded without an outcome: of the next deploy, previews,
    checks for drift.
    """
    is_decided: bool
    """The annotations decide about its plan, and the status doesn't have that yet."""
    awaits_approval_since: datetime | None
    """When the plan that waits for a decision was made."""
    is_unreviewed: bool
    """It isn't known yet which permissions that plan's deploy lacks."""
    plan_request: str | None
    """A user's request for a plan that hasn't been handled yet."""
    preview_request: PreviewRequest | None
    """The same for a plan of another version."""
    has_preview: bool
    """The status has such a plan, a preview."""
    drift_at: datetime | None
    """When the next check for drift is due; None where the status requires none."""
    is_checking: bool
    """A check for drift is recorded that has no outcome yet."""
    checked_at: datetime | None
    """When the last check for drift ended."""
    correctable: str | None
    """The Job that found the drift that is to be corrected."""
    drifted: str
    """Reason of the condition Drifted where it is True; else empty."""
    consent: ConsentStatus | None
    """Whether the release's namespace accepts it; None where it hasn't been asked."""
    health: str
    """Status of the condition Healthy; empty where there is none."""
    soak_hash: int
    """Changes with ``status.soak``; 0 where it is empty."""
    waits_for: tuple[str, ...]
    """The gates that keep a version from being deployed, by the status."""
    waits_since: datetime | None
    """Since when one of them does."""
    is_untrusted: bool
    """What is deployed has no trusted signature, though one is required."""
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
    def status(self) -> BundleStatus:
        """The whole status. Cached only for the Bundles that were read last."""
        return unpack_status(self.packed_status)

    @property
    def raw_status(self) -> dict[str, Any]:
        """The status as stored, including what can't be parsed."""
        raw = msgspec.json.decode(zlib.decompress(self.packed_status))
        return raw if isinstance(raw, dict) else {}

    @property
    def depends_on(self) -> tuple[BundleKey, ...]:
        """The Bundles that its new versions wait for."""
        return () if isinstance(self.spec, InvalidSpec) else self.spec.depends_on

    @property
    def promoted_from(self) -> tuple[BundleKey, ...]:
        """The Bundles that it is promoted from."""
        return () if isinstance(self.spec, InvalidSpec) else self.spec.promote_from.bundles

    @property
    def may_be_promoted(self) -> bool:
        """Whether Bundles of other namespaces may be promoted from it."""
        return names.ANN_PROMOTE_TO in self.annotations

    @property
    def is_ready(self) -> bool:
        """Whether all that its spec requests is deployed."""
        seen = self.observed_generation == self.generation
        return seen and self.reason == BundleReason.DEPLOYED and not self.deleting

    @property
    def is_healthy(self) -> bool:
        """Whether its release is healthy, or isn't watched."""
        if isinstance(self.spec, InvalidSpec) or self.spec.health is HealthMode.OFF:
            return True
        return self.health == ConditionStatus.TRUE

    @property
    def is_paused(self) -> bool:
        """Whether updates are disabled: no requests to the registry, no plans, no deploys."""
        return names.ANN_DISABLE_AUTOUPDATE in self.annotations

    def without_status(self) -> BundleEntry:
        """The Bundle with an empty status and without pending requests."""
        return replace(self, packed_status=_EMPTY, is_inherited=False, request=None)

    @property
    def release(self) -> tuple[str, str] | None:
        """Namespace and name of the release; None while the spec isn't valid."""
        if isinstance(self.spec, InvalidSpec):
            return None
        return self.spec.project_namespace, self.spec.release

    @property
    def has_release(self) -> bool:
        """Whether a release may exist: an attempt was made, or the original operator deployed."""
        return bool(self.status.attempted.attempt or self.has_deployed)

    @property
    def installed_release(self) -> tuple[str, str] | None:
        """Namespace and name of the release that it deployed successfully, by its status."""
        if not self.has_deployed:
            return None
        where = self.deployed_namespace or (self.release or (None,))[0]
        return (where, self.key.name) if where else None

    def installed_at(self, release: tuple[str, str]) -> tuple[bool, str]:
        """When it last deployed this release; a Bundle that never did sorts before one that did."""
        there = self.installed_release == release
        return there, self.deployed_at if there else ""

    def rank(self, release: tuple[str, str], *, is_contested: bool) -> int:
        """Its place among the Bundles of a release by consent; a lower one has precedence.

        Where a Bundle in the release's own namespace names it too, ``is_contested``, one elsewhere
        has to be accepted. One that deployed it, and wasn't asked for consent yet, waits for that.
        """
        namespace, _ = release
        if self.key.namespace == namespace:
            return 0
        if self.consent is None or self.consent.namespace != namespace:
            return 0 if self.installed_release == release else 2
        if self.consent.state == ConsentState.ASSUMED:
            return int(is_contested)
        return 0 if self.consent.state == ConsentState.ACCEPTED else 2

    @property
    def running_release(self) -> tuple[str, str] | None:
        """Namespace and name of the release of its running attempt; None where none runs."""
        return self._attempted_release if self.is_running else None

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


_EMPTY: Final = zlib.compress(b"{}")
"""A packed empty status."""


@lru_cache(maxsize=32)
def unpack_status(packed: bytes) -> BundleStatus:
    """Parse a packed status; cached for those that were read last."""
    return parse_status({"status": msgspec.json.decode(zlib.decompress(packed))})
