"""One Bundle as it is read, what users request of it, and the cache of all of them.

An entry has the spec, the status and the metadata that reconciling needs; everything else follows
from these, and is computed when it is needed (docs/adr/0049-memory.md). The cache has all Bundles
as of their last event or the operator's last write, and what is remembered of them between two
reconciles. Who remembers something has a class for it in its own module, which nobody else reads:
others call a method of its owner. None of it is needed for correctness: a restart loses it.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import msgspec

from copyrator.api import names
from copyrator.api.bundle_spec import BundleDeletionPolicy, BundleSpec
from copyrator.api.bundle_status import BundleStatus, ClusterStatus, Outcome
from copyrator.api.consent import ConsentState, ConsentStatus
from copyrator.api.field_managers import Managers, last_managers
from copyrator.api.keys import BundleKey, ReleaseKey
from copyrator.api.names import BUNDLE_REQUEST
from copyrator.api.schema import InvalidSpec
from copyrator.api.structs import replace
from copyrator.bundles.fields import BundleDefaults, bound_status, parse_bundle, parse_status
from copyrator.bundles.jobs.identity import release_metadata, spec_hash

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
    managers: Managers
    """The field managers that wrote the spec and annotations of the operator's last."""
    leftovers: bool
    """It still has the original operator's finalizer or kopf's annotations."""
    is_plain: bool = False
    """Its spec is valid, its release in its own namespace, and neither spec nor status nor an
    annotation has anything of a feature."""
    is_paused: bool = False
    """Updates are disabled: no requests to the registry, no plans, no deploys."""
    request: DeployRequest | None = None
    """A user's request that hasn't been handled yet."""

    def with_status(self, status: BundleStatus) -> BundleEntry:
        """The same Bundle with a status that isn't written yet."""
        request = pending_request(self.annotations, status)
        return dataclasses.replace(self, status=status, request=request)

    @property
    def attempted_namespace(self) -> str | None:
        """The namespace of the newest attempt, whatever its outcome; None where there was none."""
        if not self.status.attempted.attempt:
            return None
        known = None if isinstance(self.spec, InvalidSpec) else self.spec.project_namespace
        return self.status.attempted.namespace or known

    @property
    def namespace_elsewhere(self) -> str | None:
        """The namespace of its release, where it is deployed, else is to be; None: its own one.

        None too where nothing is deployed and the spec isn't valid, and where the release is in
        another cluster: who gave the credential for that has consented.
        """
        there, spec = self.status.deployed.namespace, self.spec
        if self.status.deployed.server or (isinstance(spec, BundleSpec) and spec.is_remote):
            return None
        found = there or (spec.project_namespace if isinstance(spec, BundleSpec) else None)
        return None if found == self.key.namespace else found

    @property
    def release(self) -> ReleaseKey | None:
        """The release to deploy; None while the spec isn't valid, or its server isn't known."""
        if isinstance(self.spec, InvalidSpec):
            return None
        server = "" if not self.spec.is_remote else self.status.part(ClusterStatus).server
        if server is None:
            return None
        return ReleaseKey(self.spec.project_namespace, self.spec.release, server)

    @property
    def installed_release(self) -> ReleaseKey | None:
        """The release that it deployed successfully, by its status."""
        if not self.status.has_deployed:
            return None
        known = None if isinstance(self.spec, InvalidSpec) else self.spec.project_namespace
        where = self.status.deployed.namespace or known
        return (
            ReleaseKey(where, self.key.name, self.status.deployed.server or "") if where else None
        )

    @property
    def running_release(self) -> ReleaseKey | None:
        """The release of its running attempt; None where none runs."""
        return self._attempted_release if self.status.attempted.is_running else None

    @property
    def releases(self) -> tuple[ReleaseKey, ...]:
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

    def holds(self, release: ReleaseKey) -> bool:
        """Whether it keeps other Bundles from deploying this release, which it owns.

        In another cluster only if it deployed it, or is doing so: any kubeconfig can name a server,
        and that its credential is accepted there isn't known before.
        """
        return not release.server or release in (self.installed_release, self.running_release)

    @property
    def _attempted_release(self) -> ReleaseKey | None:
        """The release of its newest attempt, whatever its outcome; None where there was none."""
        where, server = self.attempted_namespace, self.status.attempted.server or ""
        return ReleaseKey(where, self.key.name, server) if where else None


def read_entry(body: Mapping[str, Any], defaults: BundleDefaults) -> BundleEntry:
    """Read a Bundle as the API server returns it."""
    metadata = body["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    finalizers = tuple(metadata.get("finalizers") or ())
    ours = {
        key: value[:BUNDLE_REQUEST]
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
        is_plain=not (isinstance(spec, InvalidSpec) or spec.parts or status.parts or ours)
        and (status.deployed.namespace or spec.project_namespace) == metadata["namespace"],
        is_paused=names.ANN_DISABLE_AUTOUPDATE in annotations,
        request=pending_request(ours, status),
        managers=last_managers(metadata, names.BUNDLE_PREFIX),
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


_REMEMBERED: Final = 1024
"""Number of deleted Bundles that are remembered, as late events may arrive for them."""


class BundleCache:
    """Every Bundle by its key, and by its release."""

    def __init__(self) -> None:
        self._entries: dict[BundleKey, BundleEntry] = {}
        self._by_release: dict[ReleaseKey, tuple[BundleKey, ...]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self.on_rival: Callable[[BundleKey], None] = lambda _: None
        """Is called with the other Bundles of its releases, as a Bundle's change concerns them."""
        self.on_change: Callable[[BundleEntry | None, BundleEntry | None], None] = lambda *_: None
        """Is called with a Bundle before and after each change; None: there was, or is, none."""
        self.observer: Callable[[BundleEntry, bool], None] | None = None
        """Is called with each Bundle that is stored (True), or gone; must take little time."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[BundleEntry]:
        return iter(list(self._entries.values()))

    def get(self, key: BundleKey) -> BundleEntry | None:
        """The Bundle as last stored; None for an unknown key."""
        return self._entries.get(key)

    def take(self, entry: BundleEntry) -> bool:
        """Store a Bundle; False where it is deleted, or stored in this version or a later one.

        An event may arrive after the response to a later write of ours, and such a response after
        the event of the deletion. Versions are compared as numbers (KEP-5504).
        """
        if entry.uid in self._gone:
            return False
        held = self._entries.get(entry.key)
        if (
            held is not None
            and held.uid == entry.uid
            and _number(entry.resource_version) <= _number(held.resource_version)
        ):
            return False
        if held is not None:
            self._unlink(held)
            if held.uid != entry.uid and self.observer is not None:
                self.observer(held, False)
        self._entries[entry.key] = entry
        for release in entry.releases:
            keys = self._by_release.get(release, ())
            self._by_release[release] = (*keys, entry.key)
        if self.observer is not None:
            self.observer(entry, True)
        self._tell_rivals(held, entry)
        self.on_change(held, entry)
        return True

    def remove(self, key: BundleKey, uid: str) -> bool:
        """Remove a deleted Bundle; False where another of its name, or none, is stored."""
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
        held = self._entries.get(key)
        if held is None or (uid and held.uid != uid):
            return False
        self._unlink(held)
        del self._entries[key]
        if self.observer is not None:
            self.observer(held, False)
        self._tell_rivals(held, None)
        self.on_change(held, None)
        return True

    def bundles_of(self, release: ReleaseKey | None) -> list[BundleEntry]:
        """All Bundles that claim a release, its owner first.

        While a Job runs its Bundle owns the release, so that two never change it together. A Bundle
        elsewhere that the release's namespace doesn't accept comes last. Else the owner is the
        Bundle that deployed it successfully last, by its status, which only the operator writes;
        else the Bundle in the release's own namespace; else the oldest one. Times are whole
        seconds, so of two that were created together the uid decides, always the same way. In
        another cluster a namespace of the same name is another one: there all are equal.
        """
        found = [self._entries[key] for key in self._by_release.get(release, ())] if release else []
        if release is None or len(found) < 2:
            return found
        own = release.namespace if not release.server else None
        found.sort(key=lambda one: (one.key.namespace != own, one.created, one.uid))
        found.sort(key=lambda one: one.deleting)
        found.sort(key=lambda one: _installed_at(one, release), reverse=True)
        is_own = any(one.key.namespace == own and not one.deleting for one in found)
        found.sort(key=lambda one: _rank(one, release, is_contested=is_own))
        found.sort(key=lambda one: one.running_release != release)
        return found

    def _tell_rivals(self, before: BundleEntry | None, after: BundleEntry | None) -> None:
        """Tell the other Bundles of its releases whose conflict messages a change may change."""
        if _ownership(before) == _ownership(after):
            return
        entries = [one for one in (before, after) if one is not None]
        for release in {one for entry in entries for one in entry.releases}:
            for rival in self.bundles_of(release):
                if rival.key != entries[0].key:
                    self.on_rival(rival.key)

    def owner(self, release: ReleaseKey | None) -> BundleEntry | None:
        """The owner of a release; None while no Bundle names it."""
        return next(iter(self.bundles_of(release)), None)

    def _unlink(self, entry: BundleEntry) -> None:
        for release in entry.releases:
            keys = self._by_release.pop(release, ())
            if others := tuple(key for key in keys if key != entry.key):
                self._by_release[release] = others


def _ownership(entry: BundleEntry | None) -> tuple[object, ...]:
    """By which the owner of a release is determined."""
    if entry is None:
        return ()
    status = entry.status
    return (
        entry.uid,
        entry.releases,
        entry.running_release,
        status.deployed.time or "",
        entry.deleting,
        status.find(ConsentStatus),
    )


def _installed_at(entry: BundleEntry, release: ReleaseKey) -> tuple[bool, str]:
    """When it last deployed this release; a Bundle that never did sorts before one that did."""
    there = entry.installed_release == release
    return there, (entry.status.deployed.time or "") if there else ""


def _rank(entry: BundleEntry, release: ReleaseKey, *, is_contested: bool) -> int:
    """Its place among the Bundles of a release by consent; a lower one has precedence.

    Where a Bundle in the release's own namespace names it too, ``is_contested``, one elsewhere has
    to be accepted. One that deployed it, and wasn't asked for consent yet, waits for that.
    """
    namespace = release.namespace
    if release.server or entry.key.namespace == namespace:
        return 0
    consent = entry.status.find(ConsentStatus)
    if consent is None or consent.namespace != namespace:
        return 0 if entry.installed_release == release else 2
    if consent.state == ConsentState.ASSUMED:
        return int(is_contested)
    return 0 if consent.state == ConsentState.ACCEPTED else 2


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1


FORCE_UPDATE: Final = "forceUpdate"
_RESET: Final = "forceUpdate=0"
"""Replaces the token in the record of an attempt, once the field is reset."""


@dataclass(frozen=True, slots=True)
class DeployRequest:
    """A deploy that a user requests, whether or not anything changed."""

    requested_at: str | None = None
    """Value of the annotation, where it is a new one; likewise ``force_at``."""
    force_at: str | None = None
    force_update: bool = False

    @property
    def token(self) -> str:
        """Text that identifies this request; equal for an equal request."""
        parts = (
            f"requestedAt={self.requested_at}" if self.requested_at is not None else "",
            f"forceAt={self.force_at}" if self.force_at is not None else "",
            FORCE_UPDATE if self.force_update else "",
        )
        return " ".join(part for part in parts if part)


def pending_request(annotations: Mapping[str, str], status: BundleStatus) -> DeployRequest | None:
    """The request that hasn't been handled yet, or None.

    A ``forceUpdate`` for which an attempt is running isn't pending: it only has to be reset.
    """
    requested = annotations.get(names.ANN_REQUESTED_AT)
    force = annotations.get(names.ANN_FORCE_AT)
    found = DeployRequest(
        requested_at=requested if requested != status.last_handled_request else None,
        force_at=force if force != status.last_handled_force else None,
        force_update=status.forced and not awaits_reset(status),
    )
    return found if found.token else None


def acknowledge(status: BundleStatus, request: DeployRequest) -> BundleStatus:
    """The status with the values of a handled request's annotations."""
    if request.requested_at is not None:
        status = replace(
            status, last_handled_request=request.requested_at, last_failed_request=None
        )
    if request.force_at is not None:
        status = replace(status, last_handled_force=request.force_at, last_failed_force=None)
    return status


def record_failed_request(status: BundleStatus, request: DeployRequest) -> BundleStatus:
    """The status with the values of a failed request's annotations; it remains pending.

    A client that waits for the outcome finds it there, as in Flux's lastHandledReconcileAt.
    """
    if request.requested_at not in (None, status.last_handled_request):
        status = replace(status, last_failed_request=request.requested_at)
    if request.force_at not in (None, status.last_handled_force):
        status = replace(status, last_failed_force=request.force_at)
    return status


def awaits_reset(status: BundleStatus) -> bool:
    """Whether ``forceUpdate`` was handled and has to be reset to 0."""
    attempted = status.attempted
    return (
        status.forced
        and attempted.outcome == Outcome.RUNNING
        and FORCE_UPDATE in (attempted.request or "").split()
    )


def reset_patch(status: BundleStatus) -> list[dict[str, object]]:
    """The JSON Patch of a status that resets ``forceUpdate``, unless it isn't 1 any more.

    The same patch records it on the attempt. So a second force during the attempt is recognised,
    also by a process that starts after this one has died.
    """
    patch: list[dict[str, object]] = [
        {"op": "test", "path": f"/status/{FORCE_UPDATE}", "value": 1},
        {"op": "replace", "path": f"/status/{FORCE_UPDATE}", "value": 0},
    ]
    if awaits_reset(status):
        path, asked = "/status/attempted/request", status.attempted.request or ""
        done = " ".join(_RESET if part == FORCE_UPDATE else part for part in asked.split())
        patch.append({"op": "test", "path": path, "value": asked})
        patch.append({"op": "replace", "path": path, "value": done})
    return patch


T = TypeVar("T")


class Memories:
    """What is remembered of all Bundles, by its class; dropped in one place with the Bundle."""

    def __init__(self) -> None:
        self._parts: dict[BundleKey, dict[type[Any], Any]] = {}
        self._releases: list[Callable[[BundleKey], None]] = []

    def of(self, key: BundleKey, kind: type[T]) -> T:
        """What is remembered of a Bundle in this class, made by ``kind()`` at the first use."""
        parts = self._parts.setdefault(key, {})
        if kind not in parts:
            parts[kind] = kind()
        return cast("T", parts[kind])

    def find(self, key: BundleKey, kind: type[T]) -> T | None:
        """As ``of``; None where there is nothing yet."""
        return cast("T | None", self._parts.get(key, {}).get(kind))

    def each(self, kind: type[T]) -> Iterator[tuple[BundleKey, T]]:
        """What is remembered in this class of all Bundles; they may change meanwhile."""
        for key, parts in list(self._parts.items()):
            if kind in parts:
                yield key, parts[kind]

    def forget(self, key: BundleKey, kind: type[Any]) -> None:
        """Drop what is remembered of a Bundle in this class."""
        self._parts.get(key, {}).pop(kind, None)

    def on_drop(self, release: Callable[[BundleKey], None]) -> None:
        """Have what is held for a Bundle released before what is remembered of it is dropped.

        Such as watches, tasks, places in queues, and its key in tables of other things.
        """
        self._releases.append(release)

    def drop(self, key: BundleKey) -> None:
        """Release all that is held for a deleted Bundle, and forget it."""
        for release in self._releases:
            release(key)
        self._parts.pop(key, None)

    def __len__(self) -> int:
        """The number of Bundles of which something is remembered."""
        return len(self._parts)
