"""What the components of the Bundle controller share: clients, settings, delays, caches.

None of its state is needed for correctness: a restart loses it, and it is rebuilt from the Bundles'
status, the Jobs and the registry.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from copyrator.api import names, structs
from copyrator.api.bundle_spec import BundleSpec, PodDefaults
from copyrator.api.reasons import AnyReason
from copyrator.api.schema import InvalidSpec
from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry, Memories
from copyrator.bundles.engine.gate import Gates
from copyrator.bundles.engine.schedule import Clock, Schedule
from copyrator.bundles.features import load
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.jobs.identity import Hash
from copyrator.bundles.jobs.restrictions import is_gated, refusal, restrict_spec
from copyrator.kube.events import NORMAL, ObjectRef, event_type
from copyrator.kube.watch.informers import PlacementTiming
from copyrator.workqueue.fairness import FairLimit

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.kube.events import EventRecorder, EventType
    from copyrator.kube.watch.informers import InformerFactory
    from copyrator.kube.watch.reflector import WatchSpec
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient
    from copyrator.settings.config import Settings


log = logging.getLogger(__name__)

BUNDLE_VALUES_READERS: Final = 4
"""Namespaces whose Bundles' values are read at the same time, one source of each: some 5 MB."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleTiming:
    """Durations in seconds where nothing else is said; only tests use others than the defaults."""

    poll_retry: float = 15.0
    """Before the first retry of a failed poll, doubling up to the Bundle's interval."""
    poll_error_sharing: float = 5.0
    """Age that an answer may have for the retry of a failed poll: less than `poll_retry`."""
    poll_report: float = 3.0
    """After so long the status reports that a registry hasn't answered."""
    poll_after_push: float = 2.0
    """After a push until a second poll: distribution sends the notification before it sets the tag,
    so the first answer may have the old digest."""
    chart_timeout: float = 60.0
    """Timeout of reading one chart."""

    job_handover: float = 10.0
    """What another process may take to create the Job of an attempt that it has recorded."""
    job_blocked: float = 10.0
    """What a Job may take to start before its pods are read for the cause."""
    job_recheck: float = 30.0
    """Between two reads of the pods of a Job that hasn't ended."""
    account_recheck: float = 15.0
    """Before a missing account is requested again; the next wait is twice as long."""
    account_sharing: float = 1.0
    """For so long a response also serves a Bundle that checks for the first time."""
    uninstall_retry: float = 10.0
    """Before an uninstall that failed is retried, doubling."""
    uninstall_recheck: float = 15.0
    """Between two checks of an uninstall's Job that hasn't ended."""

    reference_watches: PlacementTiming = field(default_factory=lambda: PlacementTiming(check=2.0))
    """Of watches of the objects that Bundles name."""
    features: tuple[object, ...] = ()
    """Those of features, each of a type of its own; of the others the defaults hold."""

    def of(self, kind: type[T]) -> T:
        """The durations of a feature."""
        return next((one for one in self.features if isinstance(one, kind)), None) or kind()


class AnnotatedNamespace(Protocol):
    """A Namespace as its watch caches it."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """At least the operator's annotations."""
        ...


Hasher = Callable[[], Hash]
"""Returns a new keyed hash for contents that may be secret; the key is that of the copies."""


@dataclass(slots=True, kw_only=True)
class Context:
    """The controller's shared clients, caches and settings."""

    client: KubeClient
    reviewer: KubeClient
    """Sends access reviews of accounts; nothing else waits for it."""
    informers: InformerFactory
    namespaces: WatchSpec
    """The watch of Namespaces, which is shared with the rule controller; its records are
    AnnotatedNamespaces."""
    bundles: BundleCache
    schedule: Schedule
    memories: Memories
    recorder: EventRecorder
    oci: RegistryClient
    hasher: Hasher
    settings: Settings
    metrics: Metrics
    clock: Clock
    monotonic: Callable[[], float] = time.monotonic
    timing: BundleTiming = field(default_factory=BundleTiming)
    proxies: Mapping[str, str] = field(default_factory=dict)
    """Proxy variables for Jobs."""
    gates: Gates = field(default_factory=Gates)
    seen_time: Callable[[], SeenTime] = lambda: ALL_SEEN
    """Returns the periods in which an operator ran, as of its last record."""
    readers: FairLimit = field(
        default_factory=lambda: FairLimit(each=1, together=BUNDLE_VALUES_READERS)
    )
    """Permits for reading values; each allows one object in memory."""

    defaults: BundleDefaults = field(init=False)
    """The settings' defaults for fields that a Bundle doesn't set, and what the start finds out."""

    def __post_init__(self) -> None:
        self.defaults = replace(defaults_of(self.settings), proxies=self.proxies)

    def without_ids(self) -> None:
        """Have the pods of Jobs name no user and groups."""
        self.defaults = replace(self.defaults, pods=replace(self.defaults.pods, has_ids=False))

    # --- what is used of a Bundle's spec ---------------------------------------------------------

    def refusal(self, spec: BundleSpec) -> InvalidSpec | None:
        """The field of a valid spec that the settings forbid, with a message; else None."""
        allowed = self.settings.allowed_service_accounts, self.settings.allowed_images
        return refusal(spec, *allowed, self.settings.allowed_secrets)

    def is_gated(self, spec: BundleSpec) -> bool:
        """Whether a Bundle's deploys are decided about by somebody else than its author."""
        return spec.is_gated or is_gated(spec, signed=self.gates.vouch(spec))

    def effective(self, spec: BundleSpec) -> BundleSpec:
        """The spec that Jobs are made of: of a gated one, what it may set."""
        spec = restrict_spec(spec, signed=self.gates.vouch(spec))
        if (secret := spec.env.get(names.SECRET_KEY_ENV)) is None:
            return spec
        keyed = self.hasher()
        keyed.update(f"{spec.namespace}/{spec.name}\0{secret}".encode())
        return structs.replace(spec, secret_key_hash=keyed.hexdigest()[:32])

    def spec_of(self, entry: BundleEntry) -> BundleSpec:
        """The spec of a Bundle's Jobs; where its own isn't valid, one of the settings' defaults."""
        if isinstance(entry.spec, BundleSpec):
            return self.effective(entry.spec)
        key, defaults = entry.key, self.defaults
        default = BundleSpec(
            namespace=key.namespace,
            name=key.name,
            registry="",
            repo="",
            project_namespace=key.namespace,
            service_account=defaults.service_account,
            pods=defaults.pods,
            werf_image=f"{defaults.werf_image}:{defaults.werf_version}",
        )
        return self.effective(default)

    def seen(self) -> SeenTime:
        """The periods in which an operator ran, up to now."""
        return self.seen_time().as_of(self.clock())

    def record(
        self, entry: BundleEntry, reason: AnyReason, message: str, type_: EventType | None = None
    ) -> None:
        """Write an Event about a Bundle; without a type one of the reason's."""
        key = entry.key
        bundle = ObjectRef(
            names.BUNDLE_API_VERSION, names.BUNDLE_KIND, key.namespace, key.name, entry.uid
        )
        self.recorder.record(bundle, reason, message, type_=type_)

    def emit(
        self, entry: BundleEntry, reason: AnyReason, message: str, type_: EventType | None = None
    ) -> None:
        """Write an Event about a Bundle, and log the same."""
        type_ = type_ or event_type(reason)
        self.record(entry, reason, message, type_)
        level = logging.INFO if type_ == NORMAL else logging.WARNING
        log.log(level, "%s: %s: %s", entry.key, reason, message)


def defaults_of(settings: Settings) -> BundleDefaults:
    """The settings' defaults for fields that a Bundle doesn't set."""
    return BundleDefaults(
        interval=settings.timer_interval,
        werf_image=settings.allowed_images[0],
        werf_version=settings.werf_tag,
        jobs_ttl=settings.jobs_ttl,
        pods=PodDefaults(dict(settings.job_pod_labels), dict(settings.job_pod_annotations)),
        allowed_pod_metadata=settings.allowed_pod_metadata,
        policies=tuple(filter(None, (one.make_policy(settings) for one in load("defaults")))),
    )


async def cancel_all(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
