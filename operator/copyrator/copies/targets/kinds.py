"""The kinds that may be copied, and a metadata-only watch of our copies of each; daily reading."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from copyrator.api import names
from copyrator.api.keys import CopyKey, ObjectName
from copyrator.copies.context import CopyContext, KindView
from copyrator.copies.targets.ownership import Shapes
from copyrator.copies.targets.planning import Action, Cause
from copyrator.copies.targets.records import Copies, CopyRecord, Name, RecordReader
from copyrator.copies.timing import DEFAULT_TIMING, CopyTiming
from copyrator.kube.errors import AmbiguousKind, ApiError, KindUnavailable
from copyrator.kube.resources import Resource
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.workqueue.queue import Priority

log = logging.getLogger(__name__)

SELECTOR = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}"


_BY_OTHERS = (Cause.CONTESTED, Cause.DRIFTED, Cause.UNSEALED)


ROUND_RATE: Final = 2.0
"""Copies read per second, at most, for a round."""
LONGEST_STEP: Final = 60.0
"""Seconds that one step of a round covers at most: no burst after a pause."""


class Kinds:
    """Starts the watches of copies; they run until the operator stops."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self._shapes = Shapes()
        self._allowed = [_split(kind) for kind in context.settings.kinds]
        self._round = Round(
            context.monotonic,
            lambda: {key: view.copies.names() for key, view in context.kinds.items()},
            timing=context.timing,
        )
        self.missing: set[str] = set()
        """Allowed kinds that the cluster doesn't serve at present."""

    def allows(self, kind: str, api_version: str | None) -> bool:
        """Whether the settings allow rules of this kind."""
        for allowed, group, version in self._allowed:
            if allowed != kind:
                continue
            if not group or api_version is None or api_version.partition("/")[0] == group:
                return not version or api_version in (None, f"{group}/{version}")
        return False

    async def watch_allowed(self) -> None:
        """Watch the copies of all allowed kinds.

        Also of those that no rule names: a rule may have changed its kind while the operator was
        down.
        """
        for kind, group, version in self._allowed:
            try:
                resource = await self._context.discovery.resolve(
                    kind, f"{group}/{version}" if group and version else None
                )
            except (KindUnavailable, AmbiguousKind) as error:
                if kind not in self.missing:
                    log.warning("the kind %s can't be copied: %s", kind, error.message)
                self.missing.add(kind)
            except ApiError as error:
                log.warning("the kind %s can't be looked up: %s", kind, error)
                self.missing.add(kind)
            else:
                self.missing.discard(kind)
                if resource.namespaced and group in ("", resource.group):
                    self.watch(resource)

    def watch(self, resource: Resource) -> KindView:
        """The view of a kind's copies; a new one starts its watch."""
        view = self._context.kinds.get(resource.key)
        if view is not None:
            return view
        assert self._context.sealer is not None
        reader = RecordReader(resource.key, self._context.sealer, self._shapes)

        def decode(body: Mapping[str, Any]) -> CopyRecord:
            metadata, view = body["metadata"], self._context.kinds.get(resource.key)
            name = metadata["namespace"], metadata["name"]
            written = view.copies.written(name, metadata["resourceVersion"]) if view else None
            return written or reader(body)

        spec = WatchSpec(
            resource=resource,
            label_selector=SELECTOR,
            metadata_only=True,
            decode=decode,
            reserved=True,
        )
        early: list[tuple[ObjectName, CopyRecord | None, CopyRecord | None]] = []

        def on_change(name: ObjectName, old: CopyRecord | None, new: CopyRecord | None) -> None:
            if resource.key in self._context.kinds:
                self._copy_changed(self._context.kinds[resource.key], name, old, new)
            else:
                early.append((name, old, new))

        registration = self._context.informers.acquire(
            spec, on_change, on_synced=self._context.requeue_all_rules
        )
        view = KindView(
            resource,
            reader,
            Copies(
                cast("Mapping[Name, CopyRecord]", registration.store),
                registration.reflector.delivered,
            ),
            registration,
        )
        self._context.kinds[resource.key] = view
        for change in early:
            on_change(*change)
        return view

    def forget(self) -> None:
        """Drop all views."""
        for view in self._context.kinds.values():
            view.registration.release()
        self._context.kinds.clear()

    def _copy_changed(
        self,
        view: KindView,
        name: ObjectName,
        old: CopyRecord | None,
        new: CopyRecord | None,
    ) -> None:
        context = self._context
        news = view.copies.observe(name, old, new)
        if not view.registration.reflector.lists:
            return  # the first list: rules are reconciled when it is complete
        if news and new is not None and name in view.writing:
            view.writing[name] = True
            return
        key = CopyKey(view.resource.key, *name)
        if news:
            if new is None:
                context.fights.lose(key)
            enqueue_copy(context, view, key, news=True)
        if new is None and old is not None and (state := context.state_of(old.owner)):
            state.trace.copy_lost(key)
        for record in (old, new):
            if news and record is not None and record.owner:
                context.touch(record.owner)

    def read_next(self) -> None:
        """Queue the copies that are due in the daily round."""
        if not self._context.rule_states:
            return  # another replica leads
        for kind, name in self._round.due():
            key = CopyKey(kind, *name)
            self._context.drift.suspect(key)
            self._context.queue.add(key, Priority.RESYNC)

    def drop_stale_writes(self) -> None:
        """Once a minute: drop writes that the watches didn't deliver (see Copies.forget_stale)."""
        for view in self._context.kinds.values():
            for name in view.copies.forget_stale():
                enqueue_copy(self._context, view, CopyKey(view.resource.key, *name))


def enqueue_copy(context: CopyContext, view: KindView, key: CopyKey, *, news: bool = False) -> None:
    """Queue a copy if it is due.

    With `news`, a copy whose metadata are right is read: managedFields can be forged.
    """
    try:
        plan = context.plan(key)
    except Exception as error:  # such as a rule's rendering: that rule's status reports it
        log.error("the required change of %s can't be determined: %s", key, type(error).__name__)
        return
    if news and plan.why in _BY_OTHERS:
        context.fights.change(key)
    if plan.why is Cause.CONTESTED:
        context.queue.add_after(key, context.fights.wait(key))
    elif plan.act is Action.RESEAL:
        context.queue.add(key, Priority.RESYNC)
    elif plan.act is not Action.NOTHING:
        context.queue.add(key)
    elif (
        news
        and plan.why is Cause.UP_TO_DATE
        and (record := view.copies.get((key.namespace, key.name)))
    ):
        context.drift.suspect(key, record.resource_version)
        context.queue.add_after(key, context.drift.wait(key) or 0.0)
    if plan.winner is not None:
        context.touch(plan.winner.owner)


def _split(kind: str) -> tuple[str, str, str]:
    """``Kind.group/version`` in three; group and version may be empty."""
    name, _, rest = kind.partition(".")
    group, _, version = rest.partition("/")
    return name, group, version


class Round:
    """Spreads the reading of all copies evenly over a day, from a random start."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        copies: Callable[[], Mapping[str, list[Name]]],
        *,
        timing: CopyTiming = DEFAULT_TIMING,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._now = monotonic
        self._copies = copies
        self._chance = chance
        self._seconds = timing.round
        self._last = monotonic() + timing.round_rest
        self._credit = 0.0
        self._left: dict[str, list[Name]] = {}
        self._count = 0

    def due(self) -> list[tuple[str, Name]]:
        """The copies to be read now, by kind and name; call it every few seconds."""
        passed = self._now() - self._last
        if passed <= 0:
            return []
        self._last += passed
        passed = min(passed, LONGEST_STEP)
        if not self._left:
            self._begin()
        self._credit += min(self._count / self._seconds, ROUND_RATE) * passed
        found = []
        while self._credit >= 1 and self._left:
            self._credit -= 1
            kind, left = next(iter(self._left.items()))
            found.append((kind, left.pop()))
            if not left:
                del self._left[kind]
        return found

    def _begin(self) -> None:
        for kind, copies in self._copies().items():
            start = int(self._chance() * len(copies))
            if copies:
                self._left[kind] = copies[start:] + copies[:start]
        self._count = sum(map(len, self._left.values()))
