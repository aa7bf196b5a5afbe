"""The freezes that are in force, from the Namespaces' annotations and the operator's ConfigMap.

Both are watched; the watch of Namespaces is shared with the rule controller. Only freezes are kept
in memory. Until both watches have listed their objects nothing is deployed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import ObjectName
from copyrator.api.names import ANN_FREEZE
from copyrator.api.reasons import Reason
from copyrator.api.reasons.bundles import BundleEvent, BundleReason
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import AnnotatedNamespace, Context
from copyrator.bundles.engine.feature import Feature, Features, Parts
from copyrator.bundles.engine.gate import Gates
from copyrator.bundles.engine.step import Change
from copyrator.bundles.features.freeze.fields import (
    CONFIG_MAP,
    Freeze,
    FreezeFindings,
    denied,
    in_force,
    read_annotation,
    read_config_map,
    sentence,
)
from copyrator.bundles.features.freeze.gates import GATE
from copyrator.bundles.features.freeze.metrics import FreezeMetrics
from copyrator.kube.errors import Forbidden
from copyrator.kube.events import ObjectRef
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import Registration
from copyrator.kube.watch.reflector import WatchSpec

log = logging.getLogger(__name__)

SCOPES: Final = ("all", "namespace")
REASONS: Final = (BundleReason.FROZEN, BundleReason.FREEZE_UNREADABLE)


@dataclass(frozen=True, slots=True)
class _Record:
    """The ConfigMap as its watch caches it."""

    resource_version: str
    freeze: Freeze


def read_record(body: Mapping[str, Any]) -> _Record:
    """Decode the ConfigMap for a watch; a module's function, so that equal watches are shared."""
    return _Record(str(body["metadata"].get("resourceVersion", "")), read_config_map(body))


class FreezeFeature(Feature):
    """Which Bundles are frozen, and by what."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.gates = Gates(moment=(replace(GATE, concerns=self._freezes_of),))
        self._namespaces: Registration | None = None
        self._config: Registration | None = None
        self._frozen: dict[str, Freeze] = {}
        """By namespace."""
        self._all: Freeze | None = None
        self._was_denied = False

    def connect(self, parts: Parts) -> None:
        """Others tell what waits for the end of a freeze."""
        self._features = parts.of(Features)

    def start(self) -> None:
        """Open the watches."""
        informers = self.context.informers
        config = WatchSpec(
            resource=CONFIGMAPS,
            namespace=self.context.settings.namespace,
            name=CONFIG_MAP,
            decode=read_record,
            reserved=True,
        )
        self._namespaces = informers.acquire(
            self.context.namespaces, self._on_namespace, on_synced=self._listed
        )
        self._config = informers.acquire(config, self._on_config_map, on_synced=self._listed)

    async def stop(self) -> None:
        """End the watches."""
        for watch in self._watches():
            watch.release()
        self._namespaces = self._config = None

    @property
    def is_ready(self) -> bool:
        """Whether both watches are up to date, or forbidden; nothing may be deployed before."""
        watches = list(self._watches())
        return bool(watches) and all(one.synced or _denied(one) for one in watches)

    @property
    def checks(self) -> Mapping[str, Callable[[], str | None]]:
        """Whether freezes can be read."""
        return {GATE.name: self._find_fault}

    def _find_fault(self) -> str | None:
        """Why freezes can't be read, so that all namespaces are frozen."""
        unreadable = [one for one in self._of_all() if one.fault]
        return "; ".join(sentence(one) for one in unreadable) or None

    def publish(self) -> None:
        """Count the freezes by scope and reason."""
        found = in_force((*self._of_all(), *self._frozen.values()), self.context.clock())
        counted = Counter(
            ("namespace" if one.namespace else "all", REASONS[bool(one.fault)]) for one in found
        )
        gauge = self.context.metrics.of(FreezeMetrics).freezes
        for scope in SCOPES:
            for reason in REASONS:
                gauge.labels(scope, reason).set(counted[scope, reason])

    def find(self, spec: BundleSpec) -> FreezeFindings | None:
        """The freezes in force for a Bundle."""
        found = self._freezes_of(spec)
        return FreezeFindings(found) if found else None

    def stops(self, entry: BundleEntry, spec: BundleSpec) -> BundleReason | None:
        """A Job doesn't begin while what it deploys, or what its Bundle names now, is frozen."""
        is_frozen = self._freezes_of(spec, entry.attempted_namespace)
        return BundleReason.FROZEN if is_frozen else None

    def _freezes_of(self, spec: BundleSpec, *more: str | None) -> tuple[Freeze, ...]:
        """The freezes in force for a Bundle: of its own namespace, its release's, and of all.

        ``more`` are namespaces that count as well.
        """
        names = dict.fromkeys((spec.namespace, spec.project_namespace, *more))
        own = (self._frozen[name] for name in names if name in self._frozen)
        found = (*self._of_all(), *own)
        return in_force(found, self.context.clock()) if found else ()

    def _watches(self) -> Iterator[Registration]:
        return (one for one in (self._namespaces, self._config) if one is not None)

    def _of_all(self) -> Iterator[Freeze]:
        if self._all is not None:
            yield self._all
        for watch in self._watches():
            if (error := _denied(watch)) is not None:
                self._was_denied = True
                yield denied(error.message)

    def _on_namespace(
        self, name: ObjectName, old: AnnotatedNamespace | None, new: AnnotatedNamespace | None
    ) -> None:
        before, value = _value(old), _value(new)
        if before == value:
            return
        if value is None:
            self._frozen.pop(name.name, None)
        else:
            self._frozen[name.name] = read_annotation(name.name, value)
        self._changed(self._namespaces, ObjectRef("v1", "Namespace", "", name.name), name.name)

    def _on_config_map(self, name: ObjectName, _old: _Record | None, new: _Record | None) -> None:
        before, self._all = self._all, new.freeze if new is not None else None
        if self._all != before:
            self._changed(self._config, ObjectRef("v1", "ConfigMap", name.namespace, name.name))

    def _changed(self, watch: Registration | None, about: ObjectRef, namespace: str = "") -> None:
        """A freeze was set, edited or removed: evaluate its Bundles again, and emit an Event."""
        for entry in self.context.bundles:
            if not namespace or namespace in _namespaces_of(entry):
                self._judge(entry)
        if watch is None or not watch.seen:
            return  # it was frozen before this process began: no Event
        freeze = self._frozen.get(namespace) if namespace else self._all
        reason: Reason = BundleEvent.THAWED
        if freeze is None:
            where = Freeze(namespace=namespace).where
            text = f"{where}: deploys begin again, unless others are frozen"
        else:
            reason, text = REASONS[bool(freeze.fault)], sentence(freeze)
        log.log(
            logging.WARNING if freeze and freeze.fault else logging.INFO, "%s: %s", reason, text
        )
        self.context.recorder.record(about, reason, text)

    def _listed(self) -> None:
        """A watch has listed everything: if it was forbidden before, evaluate all Bundles again."""
        if self._was_denied:
            self._was_denied = False
            for entry in self.context.bundles:
                self._judge(entry)

    def _judge(self, entry: BundleEntry) -> None:
        """Requeue a Bundle whose Job may have to be ended, or whose deploy may begin now."""
        if entry.status.attempted.is_running:
            self.context.schedule.changed(entry.key, Change.GATE_OF_JOB)
        elif isinstance(entry.spec, BundleSpec) and (
            entry.status.open_gates
            or entry.status.attempted.next_retry_at
            or any(
                one.awaits_moment(entry) for one in self._features.of(entry, Feature.awaits_moment)
            )
        ):
            self.context.schedule.changed(entry.key, Change.GATE)


def _denied(watch: Registration) -> Forbidden | None:
    """The missing permission because of which a watch has no list; None where it has one."""
    failure = watch.failure
    return failure if isinstance(failure, Forbidden) and not watch.synced else None


def _value(namespace: AnnotatedNamespace | None) -> str | None:
    return None if namespace is None else namespace.annotations.get(ANN_FREEZE)


def _namespaces_of(entry: BundleEntry) -> tuple[str | None, ...]:
    spec = entry.spec
    release = spec.project_namespace if isinstance(spec, BundleSpec) else None
    return entry.key.namespace, release, entry.attempted_namespace


FEATURE = FreezeFeature
