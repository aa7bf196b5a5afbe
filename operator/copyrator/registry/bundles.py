"""The Bundles that exist, as their last event or our own last write told.

Holds what reconciling needs and no more: a Bundle takes a few KB, however long its manifest is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from copyrator.api import names
from copyrator.api.bundle import parse_bundle, parse_status
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.fields import InvalidSpec
from copyrator.api.keys import BundleKey
from copyrator.bundles.identity import release_metadata, spec_hash


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
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those that reach the release."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those that reach the release, and the operator's own."""
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    leftovers: bool = False
    """It still carries the original operator's finalizer or kopf's annotations."""

    @property
    def is_paused(self) -> bool:
        """No request to the registry and no update."""
        return names.ANN_DISABLE_AUTOUPDATE in self.annotations

    @property
    def release(self) -> tuple[str, str] | None:
        """Namespace and name of the release; None while the spec isn't valid."""
        if isinstance(self.spec, InvalidSpec):
            return None
        return self.spec.project_namespace, self.spec.release

    @property
    def has_release(self) -> bool:
        """Something may have been installed: an attempt was made, or the original deployed."""
        status = self.status
        return bool(status.attempted.attempt or status.deployed.digest or status.deploy.digest)

    @property
    def holds_release(self) -> bool:
        """What it may have installed is the release that the spec names now, as far as is known."""
        where = self.status.deployed.namespace
        return self.has_release and (where is None or (where, self.key.name) == self.release)


def read_entry(body: Mapping[str, Any], defaults: BundleDefaults) -> BundleEntry:
    """Read a Bundle as the API server returns it."""
    metadata = body["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    finalizers = tuple(metadata.get("finalizers") or ())
    ours = {k: v for k, v in annotations.items() if k.startswith(names.BUNDLE_PREFIX)}
    raw_spec = body.get("spec")
    spec = parse_bundle(body, defaults)
    return BundleEntry(
        key=BundleKey(metadata["namespace"], metadata["name"]),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 0),
        created=metadata.get("creationTimestamp", ""),
        spec=spec,
        spec_hash=spec_hash(raw_spec if isinstance(raw_spec, Mapping) else {}, labels, annotations),
        status=parse_status(body),
        labels=release_metadata(labels),
        annotations=ours | release_metadata(annotations),
        finalizers=finalizers,
        deleting="deletionTimestamp" in metadata,
        leftovers=names.FINALIZER_KOPF in finalizers
        or any(key.startswith(names.KOPF_PREFIX) for key in annotations),
    )


_REMEMBERED: Final = 1024
"""Bundles that are gone of which late news may still come."""


class BundleRegistry:
    """Every Bundle by its key, and by its release."""

    def __init__(self) -> None:
        self._entries: dict[BundleKey, BundleEntry] = {}
        self._by_release: dict[tuple[str, str], set[BundleKey]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[BundleEntry]:
        return iter(list(self._entries.values()))

    def get(self, key: BundleKey) -> BundleEntry | None:
        """The Bundle as it is known now."""
        return self._entries.get(key)

    def take(self, entry: BundleEntry) -> bool:
        """Hold a Bundle; False where what is held is the same object at least as new, or it's gone.

        An event may come after the answer to a write of ours that is newer than it, and such an
        answer after the event that the Bundle is gone. Versions are compared as numbers (KEP-5504).
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
        self._entries[entry.key] = entry
        if entry.release is not None:
            self._by_release.setdefault(entry.release, set()).add(entry.key)
        return True

    def remove(self, key: BundleKey, uid: str) -> bool:
        """Drop a Bundle that is gone, unless another of its name is here already."""
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
        held = self._entries.get(key)
        if held is None or (uid and held.uid != uid):
            return False
        self._unlink(held)
        del self._entries[key]
        return True

    def sharing_release(self, entry: BundleEntry) -> list[BundleEntry]:
        """All Bundles that claim this one's release, the rightful owner first.

        Who has deployed it keeps it; else the oldest has it. Creation times are whole seconds, so
        of two that were made together the uid decides, the same way every time.
        """
        keys = self._by_release.get(entry.release, set()) if entry.release else set()
        found = [self._entries[key] for key in keys]
        return sorted(found, key=lambda one: (not one.holds_release, one.created, one.uid))

    def _unlink(self, entry: BundleEntry) -> None:
        if entry.release is None:
            return
        keys = self._by_release.get(entry.release, set())
        keys.discard(entry.key)
        if not keys:
            self._by_release.pop(entry.release, None)


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1
