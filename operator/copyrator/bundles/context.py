"""What the components of the Bundle controller share: clients, and state between reconciles.

None of this state is needed for correctness: a restart loses it, and it is rebuilt from the
Bundles' status, the Jobs and the registry.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from copyrator.api import names
from copyrator.api.bundle_spec import ApprovalMode, BundleDefaults, BundleSpec
from copyrator.api.fields import InvalidSpec
from copyrator.api.globs import Globs
from copyrator.api.keys import BundleKey
from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.cache import BundleCache
from copyrator.bundles.deploy.identity import Hash
from copyrator.bundles.deploy.restrictions import refusal, restrict_spec
from copyrator.bundles.gates import signature
from copyrator.bundles.gates.gate import Gates
from copyrator.bundles.memory import Memories
from copyrator.bundles.schedule import Clock, Schedule
from copyrator.bundles.timing import BundleTiming
from copyrator.kube.events import ObjectRef
from copyrator.settings import limits
from copyrator.workqueue.fairness import FairLimit

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.kube.events import EventRecorder, EventType
    from copyrator.kube.watch.informers import InformerFactory
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient
    from copyrator.settings.config import Settings

Hasher = Callable[[], Hash]
"""Returns a new keyed hash for contents that may be secret; the key is that of the copies."""


@dataclass(slots=True, kw_only=True)
class Context:
    """The controller's shared clients, caches and settings."""

    client: KubeClient
    informers: InformerFactory
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
        default_factory=lambda: FairLimit(each=1, together=limits.BUNDLE_VALUES_READERS)
    )
    """Permits for reading values; each allows one object in memory."""

    @property
    def defaults(self) -> BundleDefaults:
        """The settings' defaults for fields that a Bundle doesn't set."""
        return BundleDefaults(
            interval=self.settings.timer_interval,
            werf_version=self.settings.werf_tag,
            jobs_ttl=self.settings.jobs_ttl,
            proxies=self.proxies,
            require_approval=_floors(self.settings.require_approval),
            allowed_pod_metadata=self.settings.allowed_pod_metadata,
            require_bound_plans=_globs(self.settings.require_bound_plans),
        )

    def seen(self) -> SeenTime:
        """The periods in which an operator ran, up to now."""
        return self.seen_time().as_of(self.clock())

    def record(self, entry: BundleEntry, kind: EventType, reason: str, message: str) -> None:
        """Write an Event about a Bundle."""
        key = entry.key
        bundle = ObjectRef(
            names.BUNDLE_API_VERSION, names.BUNDLE_KIND, key.namespace, key.name, entry.uid
        )
        self.recorder.record(bundle, kind, reason, message)

    def refusal(self, spec: BundleSpec) -> InvalidSpec | None:
        """The field of a valid spec that the settings forbid, with a message; else None."""
        settings = self.settings
        allowed = settings.allowed_service_accounts, settings.allowed_images
        return refusal(spec, *allowed, settings.allowed_secrets)

    def effective(self, spec: BundleSpec) -> BundleSpec:
        """The spec that a Bundle's Jobs are made of: of a gated one, what it may set."""
        spec = restrict_spec(spec, signed=self.gates.has(signature.GATE.name, spec))
        if (secret := spec.env.get(names.SECRET_KEY_ENV)) is None:
            return spec
        keyed = self.hasher()
        keyed.update(f"{spec.namespace}/{spec.name}\0{secret}".encode())
        return replace(spec, secret_key_hash=keyed.hexdigest()[:32])

    def default_spec(self, key: BundleKey) -> BundleSpec:
        """A spec with the settings' defaults only, to be used where the Bundle's isn't valid."""
        defaults = self.defaults
        return BundleSpec(
            namespace=key.namespace,
            name=key.name,
            registry="",
            repo="",
            project_namespace=key.namespace,
            service_account=defaults.service_account,
            werf_image=f"{defaults.werf_image}:{defaults.werf_version}",
        )


@lru_cache(maxsize=4)
def _floors(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[Globs, ApprovalMode], ...]:
    return tuple((Globs((glob,)), ApprovalMode(mode)) for glob, mode in pairs)


_globs = lru_cache(maxsize=4)(Globs)


async def cancel_all(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
