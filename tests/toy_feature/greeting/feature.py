"""Watches the ConfigMaps with greetings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.toy_feature.greeting.fields import GREETED, GreetingSpec, GreetingStatus
from tests.toy_feature.greeting.gates import GATES, Words
from tests.toy_feature.greeting.metrics import GreetingMetrics
from tests.toy_feature.greeting.reasons import GreetingReason
from tests.toy_feature.greeting.settings import GreetingSettings

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionStatus, FurtherCondition, NewConditions
from copyrator.api.keys import BundleKey, ObjectName
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.engine.step import Change, Step
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import Registration
from copyrator.kube.watch.reflector import WatchSpec


@dataclass(slots=True)
class GreetingMemory:
    """What is watched for a Bundle."""

    name: str = ""
    watch: Registration | None = None
    has_left: bool = False


def read_words(body: Mapping[str, Any]) -> str:
    """Decode a ConfigMap; a module's function, so that equal watches are shared."""
    words: str = (body.get("data") or {}).get("words", "")
    return words


class GreetingFeature(Feature):
    """The greetings of all Bundles with ``spec.greeting``."""

    spec = GreetingSpec
    status = GreetingStatus
    outlasts = True  # to say farewell
    memory = GreetingMemory
    gates = GATES

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._name = context.settings.of(GreetingSettings).greeting_house
        self._house: Registration | None = None

    def start(self) -> None:
        """Watch the words of the house."""
        namespace = self.context.settings.namespace
        spec = WatchSpec(
            resource=CONFIGMAPS, namespace=namespace, name=self._name, decode=read_words
        )
        self._house = self.context.informers.acquire(spec, lambda *_: None)

    async def stop(self) -> None:
        """End all watches."""
        memories = [one for _, one in self.context.memories.each(GreetingMemory)]
        for watch in (self._house, *(one.watch for one in memories)):
            if watch is not None:
                watch.release()

    @property
    def is_ready(self) -> bool:
        """Whether the words of the house are known, or that there are none."""
        return self._house is not None and self._house.synced

    def publish(self) -> None:
        """Count the Bundles that greet."""
        own = self.context.metrics.of(GreetingMetrics)
        found = (one.status.part(GreetingStatus).digest for one in self.context.bundles)
        own.greeting.set(sum(one is not None for one in found))

    def follow(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Watch the ConfigMap."""
        memory, name = self._memory(entry.key), spec.part(GreetingSpec).config_map
        if memory.name == name:
            return
        self.leave(entry.key)
        memory.name = name
        watch = WatchSpec(
            resource=CONFIGMAPS, namespace=entry.key.namespace, name=name, decode=read_words
        )
        memory.watch = self.context.informers.acquire(watch, partial(self._on_words, entry.key))

    def leave(self, key: BundleKey) -> None:
        """End the watch."""
        memory = self._memory(key)
        if memory.watch is not None:
            memory.watch.release()
            memory.watch = None

    def tend(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Say farewell, once."""
        memory = self._memory(entry.key)
        if entry.deleting and not memory.has_left:
            memory.has_left = True
            self.context.emit(entry, GreetingReason.FAREWELL, f"{spec.release} leaves")
        return Step(entry)

    def find(self, spec: BundleSpec) -> Words:
        """The words."""
        return Words(self._words(BundleKey(spec.namespace, spec.name)))

    def derive(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """Who is deployed greets."""
        part = structs.replace(status.part(GreetingStatus), digest=status.deployed.digest)
        return status.with_part(part)

    def conditions(self, entry: BundleEntry, status: BundleStatus) -> NewConditions:
        """Whether guests are greeted."""
        text, kind = self._words(entry.key), ConditionStatus.FALSE
        if not text or status.deployed.digest is None:
            found = FurtherCondition(kind, GreetingReason.SPEECHLESS, "nobody is greeted")
        else:
            found = FurtherCondition(ConditionStatus.TRUE, GreetingReason.GREETED, text)
        return {GREETED: found}

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit an Event where another digest greets."""
        if _digest(before) != (found := _digest(written)) and found is not None:
            self.context.emit(written, GreetingReason.GREETED, self._words(written.key))

    def _memory(self, key: BundleKey) -> GreetingMemory:
        return self.context.memories.of(key, GreetingMemory)

    def _words(self, key: BundleKey) -> str:
        memory, house = self.context.memories.find(key, GreetingMemory), self._house
        own = memory.watch.store.values() if memory is not None and memory.watch else ()
        common = house.store.values() if house is not None else ()
        return next((words for words in (*own, *common) if words), "")

    def _on_words(
        self, key: BundleKey, _name: ObjectName, old: str | None, new: str | None
    ) -> None:
        if old != new:
            self.context.schedule.changed(key, Change.GATE)


def _digest(entry: BundleEntry) -> str | None:
    return entry.status.part(GreetingStatus).digest


FEATURE = GreetingFeature
