"""Opens, retries and ends the watches of ConfigMaps and Secrets that Bundles name.

No edit is lost when the scope of a watch changes: the old watch ends only after the new one has
listed everything and its list was compared with what Bundles have read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import Context as TaskContext
from dataclasses import dataclass

from copyrator.api.keys import ObjectName
from copyrator.bundles.context import Context
from copyrator.bundles.references.scopes import Ref, Scope, covering, decide
from copyrator.kube.access_reviews import is_allowed
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.kube.refusals import Permission, Refusal
from copyrator.kube.resources import CONFIGMAPS, SECRETS
from copyrator.kube.watch.informers import Registration, WatchSpec
from copyrator.kube.watch.seen import Seen, seen
from copyrator.kube.watch.wanted import Wanted

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Opened:
    """A watch that is open, or is opened when its access review allows it."""

    registration: Registration | None = None
    task: asyncio.Task[None] | None = None
    """The access review, and later the comparison of the list with what Bundles have read."""
    listed: bool = False
    """Whether it has listed everything once; from then on its events are used."""
    compared: bool = False
    """Whether its list was compared with what Bundles have read, so that an older watch may end."""

    def close(self) -> None:
        """End the watch and its task."""
        if self.task is not None:
            self.task.cancel()
        if self.registration is not None:
            self.registration.release()


@dataclass(slots=True)
class _Denied:
    """A scope that may not be watched, by an access review or a 403."""

    until: float
    delay: float


class OpenWatches:
    """Keeps the wanted and granted watches open.

    Attributes:
        wanted: the names of each kind; others change it and then call `arrange_soon`.
        opened: the watches that are open, or are opened when their access review allows it.
    """

    def __init__(
        self,
        context: Context,
        *,
        on_change: Callable[[Opened, Ref, Seen | None], None],
        on_listed: Callable[[Scope, Opened], None],
    ) -> None:
        self.wanted = {resource: Wanted() for resource in (CONFIGMAPS, SECRETS)}
        self.opened: dict[Scope, Opened] = {}
        self._context = context
        self._timing = context.timing
        self._on_change = on_change
        self._on_listed = on_listed
        self._desired: set[Scope] = set()
        self._denied: dict[Scope, _Denied] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._changed = False

    def close(self) -> None:
        """End all watches."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._changed = False
        for opened in self.opened.values():
            opened.close()
        self.opened.clear()
        self._denied.clear()

    def covering(self, ref: Ref) -> Opened | None:
        """The watch whose events are used for an object: the widest that has listed, or None."""
        for scope in covering(ref):
            opened = self.opened.get(scope)
            if opened is not None and opened.listed:
                return opened
        return None

    def count(self) -> Counter[str]:
        """The number of objects by the scope that covers them: name, namespace, all, poll."""
        found = Counter(name=0, namespace=0, all=0, poll=0)
        watched = {scope for scope, opened in self.opened.items() if opened.registration}
        for resource, wanted in self.wanted.items():
            names = wanted.by_namespace
            if Scope(resource) in watched:
                found["all"] += len(wanted)
                continue
            wide = {ns for ns in names if Scope(resource, ns) in watched}
            by_namespace = sum(len(names[ns]) for ns in wide)
            by_name = sum(
                scope.resource == resource and bool(scope.name) and scope.namespace not in wide
                for scope in watched
            )
            found["namespace"] += by_namespace
            found["name"] += by_name
            found["poll"] += max(len(wanted) - by_namespace - by_name, 0)
        return found

    def arrange_soon(self) -> None:
        """Arrange the watches once all concurrent changes have been made."""
        if not self._changed:
            self._changed = True
            self._call_later(self._timing.reference_settle)

    def _call_later(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # The watches serve all Bundles: neither logs nor fairness assign the call to one key.
        self._timer = asyncio.get_running_loop().call_later(
            seconds, self._check, context=TaskContext()
        )

    def _check(self) -> None:
        """Close watches that are forbidden, and open and end watches where that is due."""
        self._timer = None
        try:
            for scope, opened in list(self.opened.items()):
                failure = opened.registration and opened.registration.failure
                if scope.is_wide and isinstance(failure, Forbidden):
                    self._deny(scope, failure.message)
            now = self._context.monotonic()
            if any(denied.until <= now for denied in self._denied.values()):
                self._changed = True
            if self._changed:
                self._changed = False
                self._arrange(now)
        finally:
            if self.opened or self._denied:
                timing = self._timing
                seconds = timing.reference_settle if self._changed else timing.reference_check
                self._call_later(seconds)

    def _arrange(self, now: float) -> None:
        wanted = {resource: names.by_namespace for resource, names in self.wanted.items()}
        for scope in list(self._denied):
            names = wanted[scope.resource]
            if not names or (scope.namespace and scope.namespace not in names):
                del self._denied[scope]
        refused = {scope for scope, denied in self._denied.items() if denied.until > now}
        self._desired = decide(wanted, refused, self.opened)
        for scope in self._denied.keys() - refused - self._desired:
            del self._denied[scope]
        for scope in self._desired - self.opened.keys():
            opened = self.opened[scope] = Opened()
            if scope.is_wide:
                opened.task = asyncio.create_task(
                    self._ask(scope, opened), name=f"access review of {scope}"
                )
            else:
                self._begin(scope, opened)
        self.retire()

    def retire(self) -> None:
        """End unwanted watches, once their replacements have listed everything."""
        for scope in self.opened.keys() - self._desired:
            others = (other for other in self._desired if other.overlaps(scope))
            if all(self.opened[other].compared for other in others):
                self.opened.pop(scope).close()

    async def _ask(self, scope: Scope, opened: Opened) -> None:
        """Open a wide watch if an access review allows it.

        Without the review a forbidden list would be reported as a missing permission.
        """
        client, missing = self._context.client, ""
        try:
            for refusal in needed(scope, self._context.settings.watch_namespaces):
                if not await is_allowed(client, refusal.attributes):
                    missing = f"the operator cannot {refusal}"
                    break
        except ApiError as error:
            missing = str(error)
        if self.opened.get(scope) is not opened:
            return
        opened.task = None
        if missing:
            self._deny(scope, missing)
        else:
            self._denied.pop(scope, None)
            self._begin(scope, opened)

    def _deny(self, scope: Scope, why: str) -> None:
        before = self._denied.get(scope)
        delay = self._timing.reference_retry
        if before is not None:
            delay = min(before.delay * 2, self._timing.reference_longest_retry)
        self._denied[scope] = _Denied(self._context.monotonic() + delay, delay)
        emit = log.info if before is None else log.debug
        emit(
            "Can't watch the %s that Bundles reference (%s); watching them by name where possible",
            scope,
            why,
        )
        self.opened.pop(scope).close()
        self._desired.discard(scope)
        self.arrange_soon()

    def _begin(self, scope: Scope, opened: Opened) -> None:
        def changed(name: ObjectName, _old: Seen | None, new: Seen | None) -> None:
            self._on_change(opened, Ref(scope.resource, *name), new)

        spec = WatchSpec(
            resource=scope.resource,
            namespace=scope.namespace,
            name=scope.name,
            metadata_only=True,
            decode=seen,
            wanted=self.wanted[scope.resource] if scope.is_wide else None,
            reserved=True,
        )
        opened.registration = self._context.informers.acquire(
            spec, changed, on_synced=lambda: self._on_listed(scope, opened)
        )


def needed(scope: Scope, served: Iterable[str] | None) -> list[Refusal]:
    """The permissions that a wide scope requires, each as its refusal.

    `served`: the namespaces that the operator serves; empty or None: all.
    """
    places = [scope.namespace] if scope.namespace else list(served or ()) or [""]
    group, plural = scope.resource.group, scope.resource.plural
    return [
        Refusal(Permission(group, plural, verb), place)
        for place in places
        for verb in ("list", "watch")
    ]
