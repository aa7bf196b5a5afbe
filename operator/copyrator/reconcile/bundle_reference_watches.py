"""The watches of what Bundles name: opened, widened and ended as the names ask for it.

Between two scopes no edit is lost: the new watch has listed everything before the old one ends, and
what it shows is compared with what each Bundle has read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from contextvars import Context as TaskContext
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from copyrator.api.keys import BundleKey, ObjectName
from copyrator.engine.outcome import Lane
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.kube.refusals import Refusal, Right
from copyrator.kube.resources import CONFIGMAPS, SECRETS
from copyrator.kube.rights import is_granted
from copyrator.kube.wanted import Wanted
from copyrator.kube.watchpool import Subscription, WatchSpec
from copyrator.reconcile.bundle_context import Context
from copyrator.reconcile.bundle_reference_scopes import Ref, Scope, covering, decide
from copyrator.timeslice import TimeSlice

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 0.05
"""So long after a change all changes together decide about the watches."""
LOOK_SECONDS: Final = 2.0
"""Between two looks at whether a watch is refused, or may be tried again."""
FIRST_RETRY, LONGEST_RETRY = 15.0, 600.0
"""Seconds until a scope that isn't granted is tried again, doubling."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a watch keeps of an object."""

    resource_version: str


def stamp(body: dict[str, Any]) -> Stamp:
    """Decode for the watches."""
    return Stamp(body["metadata"].get("resourceVersion", ""))


class HasRead(Protocol):
    """Tells whether all that a Bundle has made of an object is of that version ("" for none)."""

    def __call__(self, key: BundleKey, ref: Ref, version: str | None) -> bool: ...  # noqa: D102


@dataclass(slots=True)
class _Followed:
    """One object that Bundles name."""

    version: str | None = None
    """None: not known; empty: there is no such object."""
    news: int = 0
    bundles: set[BundleKey] = field(default_factory=set)


@dataclass(slots=True)
class _Opened:
    """A watch that there is, or will be once it is granted."""

    subscription: Subscription | None = None
    task: asyncio.Task[None] | None = None
    """Asks whether it is granted, and later compares what it has listed."""
    stands: bool = False
    """It has shown everything once; from then on its word counts."""
    compared: bool = False
    """What it has shown was compared with what Bundles have read: an older watch may go."""

    def close(self) -> None:
        if self.task is not None:
            self.task.cancel()
        if self.subscription is not None:
            self.subscription.release()


@dataclass(slots=True)
class _Denied:
    """A scope that isn't granted."""

    until: float
    delay: float


class ReferenceWatches:
    """Follows objects for Bundles, and has those visited that have read something else."""

    def __init__(self, context: Context, has_read: HasRead) -> None:
        self._context = context
        self._has_read = has_read
        self._wanted = {resource: Wanted() for resource in (CONFIGMAPS, SECRETS)}
        self._refs: dict[Ref, _Followed] = {}
        self._of_bundle: dict[BundleKey, frozenset[Ref]] = {}
        self._opened: dict[Scope, _Opened] = {}
        self._desired: set[Scope] = set()
        self._denied: dict[Scope, _Denied] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._changed = False

    # --- for Bundles -----------------------------------------------------------------------------

    def follow(self, key: BundleKey, refs: frozenset[Ref]) -> None:
        """Follow exactly these for a Bundle, from soon on."""
        before = self._of_bundle.get(key, frozenset())
        if refs == before:
            return
        for ref in before - refs:
            self._leave(key, ref)
        for ref in refs - before:
            self._refs.setdefault(ref, _Followed()).bundles.add(key)
            self._wanted[ref.resource].add(ObjectName(ref.namespace, ref.name))
        self._of_bundle[key] = refs
        if not refs:
            del self._of_bundle[key]
        self._arrange_soon()

    def close(self) -> None:
        """Follow nothing any more."""
        for key in list(self._of_bundle):
            self.follow(key, frozenset())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for opened in self._opened.values():
            opened.close()
        self._opened.clear()
        self._denied.clear()

    def is_current(self, ref: Ref, version: str) -> bool:
        """Whether what stands there now is certainly this version; empty for no object."""
        followed, opened = self._refs.get(ref), self._covering(ref)
        if followed is None or opened is None or opened.subscription is None:
            return False
        return opened.subscription.synced and followed.version == version

    def begin_read(self, ref: Ref) -> int:
        """To be called before an object is read; what it returns is for `was_read`."""
        followed = self._refs.get(ref)
        return -1 if followed is None else followed.news

    def was_read(self, ref: Ref, version: str, begun: int) -> None:
        """An object was read, or found missing (empty): what a watch told meanwhile counts more."""
        followed = self._refs.get(ref)
        if followed is not None and followed.news == begun:
            followed.version = version

    def count(self) -> Counter[str]:
        """How many objects are seen by which scope: name, namespace, all, poll."""
        found = Counter(name=0, namespace=0, all=0, poll=0)
        for resource, wanted in self._wanted.items():
            names = wanted.by_namespace
            if Scope(resource) in self._opened:
                found["all"] += len(wanted)
                continue
            wide = {ns for ns in names if Scope(resource, ns) in self._opened}
            by_namespace = sum(len(names[ns]) for ns in wide)
            by_name = sum(
                scope.resource == resource and bool(scope.name) and scope.namespace not in wide
                for scope in self._opened
            )
            found["namespace"] += by_namespace
            found["name"] += by_name
            found["poll"] += max(len(wanted) - by_namespace - by_name, 0)
        return found

    def _leave(self, key: BundleKey, ref: Ref) -> None:
        followed = self._refs[ref]
        followed.bundles.discard(key)
        if not followed.bundles:
            del self._refs[ref]
            self._wanted[ref.resource].discard(ObjectName(ref.namespace, ref.name))

    def _covering(self, ref: Ref) -> _Opened | None:
        """The one watch whose word counts for an object, as long as there are several."""
        for scope in covering(ref):
            opened = self._opened.get(scope)
            if opened is not None and opened.stands:
                return opened
        return None

    # --- which watches there are -----------------------------------------------------------------

    def _arrange_soon(self) -> None:
        if not self._changed:
            self._changed = True
            self._call_later(SETTLE_SECONDS)

    def _call_later(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # What is watched is nobody's in particular: neither logs nor fairness count it as a key's.
        self._timer = asyncio.get_running_loop().call_later(
            seconds, self._look, context=TaskContext()
        )

    def _look(self) -> None:
        """See which watches are refused, and have those that there should be."""
        self._timer = None
        try:
            for scope, opened in list(self._opened.items()):
                failure = opened.subscription and opened.subscription.failure
                if scope.is_wide and isinstance(failure, Forbidden):
                    self._deny(scope, failure.message)
            now = self._context.monotonic()
            if any(denied.until <= now for denied in self._denied.values()):
                self._changed = True
            if self._changed:
                self._changed = False
                self._arrange(now)
        finally:
            if self._opened or self._denied:
                self._call_later(SETTLE_SECONDS if self._changed else LOOK_SECONDS)

    def _arrange(self, now: float) -> None:
        wanted = {resource: names.by_namespace for resource, names in self._wanted.items()}
        for scope in list(self._denied):
            names = wanted[scope.resource]
            if not names or (scope.namespace and scope.namespace not in names):
                del self._denied[scope]
        refused = {scope for scope, denied in self._denied.items() if denied.until > now}
        self._desired = decide(wanted, refused, self._opened)
        for scope in self._denied.keys() - refused - self._desired:
            del self._denied[scope]
        for scope in self._desired - self._opened.keys():
            opened = self._opened[scope] = _Opened()
            if scope.is_wide:
                opened.task = asyncio.create_task(self._ask(scope, opened), name=f"ask for {scope}")
            else:
                self._begin(scope, opened)
        self._retire()

    def _retire(self) -> None:
        """End watches that aren't wanted, once what takes their place has shown everything."""
        for scope in self._opened.keys() - self._desired:
            others = (other for other in self._desired if other.overlaps(scope))
            if all(self._opened[other].compared for other in others):
                self._opened.pop(scope).close()

    async def _ask(self, scope: Scope, opened: _Opened) -> None:
        """Begin a wide watch if it is granted.

        It is asked for first: a refused list would be noted as a right that the operator lacks.
        """
        client, missing = self._context.client, ""
        try:
            for refusal in needed(scope, self._context.settings.watch_namespaces):
                if not await is_granted(client, refusal):
                    missing = f"the operator may not {refusal}"
                    break
        except ApiError as error:
            missing = str(error)
        if self._opened.get(scope) is not opened:
            return
        opened.task = None
        if missing:
            self._deny(scope, missing)
        else:
            self._denied.pop(scope, None)
            self._begin(scope, opened)

    def _deny(self, scope: Scope, why: str) -> None:
        before = self._denied.get(scope)
        delay = FIRST_RETRY if before is None else min(before.delay * 2, LONGEST_RETRY)
        self._denied[scope] = _Denied(self._context.monotonic() + delay, delay)
        say = log.info if before is None else log.debug
        say("No watch of the %s that Bundles name (%s); by name as far as possible", scope, why)
        self._opened.pop(scope).close()
        self._desired.discard(scope)
        self._arrange_soon()

    def _begin(self, scope: Scope, opened: _Opened) -> None:
        def changed(name: ObjectName, _old: Stamp | None, new: Stamp | None) -> None:
            self._take(opened, Ref(scope.resource, *name), new)

        spec = WatchSpec(
            resource=scope.resource,
            namespace=scope.namespace,
            name=scope.name,
            metadata_only=True,
            decode=stamp,
            wanted=self._wanted[scope.resource] if scope.is_wide else None,
            reserved=True,
        )
        opened.subscription = self._context.watch_pool.acquire(
            spec, changed, on_synced=lambda: self._synced(scope, opened)
        )

    # --- what they show --------------------------------------------------------------------------

    def _take(self, opened: _Opened, ref: Ref, new: Stamp | None) -> None:
        """Take the news of a watch, if its word counts for the object already."""
        followed = self._refs.get(ref)
        if followed is None or self._covering(ref) is not opened:
            return
        version = new.resource_version if new else None
        if version == followed.version or (version is None and followed.version == ""):
            return
        followed.version = version
        followed.news += 1
        self._wake(followed, ref)

    def _synced(self, scope: Scope, opened: _Opened) -> None:
        """A watch has shown everything: from now on it counts."""
        if self._opened.get(scope) is not opened or opened.subscription is None:
            return
        opened.stands = True
        if opened.task is not None:
            opened.task.cancel()
        compare = self._compare(opened, self._shown_by(scope))
        opened.task = asyncio.create_task(compare, name=f"compare {scope}")

    async def _compare(self, opened: _Opened, refs: Iterable[Ref]) -> None:
        """Compare a list with what Bundles have read. Events that come meanwhile are taken, too."""
        time_slice = TimeSlice()
        for ref in refs:
            await time_slice.pause()
            followed, subscription = self._refs.get(ref), opened.subscription
            if followed is None or subscription is None or self._covering(ref) is not opened:
                continue
            seen: Stamp | None = subscription.store.get(ObjectName(ref.namespace, ref.name))
            if seen is not None:
                followed.version = seen.resource_version
            elif followed.version:  # gone, or named too late for this list: to be read
                followed.version = None
                followed.news += 1
            self._wake(followed, ref)
        opened.compared = True
        self._retire()

    def _shown_by(self, scope: Scope) -> Iterable[Ref]:
        names = self._wanted[scope.resource].by_namespace
        return [
            Ref(scope.resource, namespace, name)
            for namespace in (names if scope.namespace is None else [scope.namespace])
            for name in names.get(namespace, ())
            if scope.name in (None, name)
        ]

    def _wake(self, followed: _Followed, ref: Ref) -> None:
        """Have the Bundles visited that have read another version."""
        for key in followed.bundles:
            if not self._has_read(key, ref, followed.version):
                self._context.queue.add(key, Lane.URGENT)


def needed(scope: Scope, served: Iterable[str] | None) -> list[Refusal]:
    """The rights that a wide scope takes, each as its refusal; `served` where not all are."""
    places = [scope.namespace] if scope.namespace else list(served or ()) or [""]
    group, plural = scope.resource.group, scope.resource.plural
    return [
        Refusal(Right(group, plural, verb), place) for place in places for verb in ("list", "watch")
    ]
