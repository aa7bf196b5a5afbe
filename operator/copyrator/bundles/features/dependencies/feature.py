"""Wakes Bundles when one that they depend on changes."""

from __future__ import annotations

from collections.abc import Iterator

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.engine.links import Named, edges
from copyrator.bundles.engine.step import Change
from copyrator.bundles.features.dependencies.fields import DependenciesSpec
from copyrator.bundles.features.dependencies.gates import (
    GATES,
    LINK,
    Unready,
    find_fault,
    find_unready,
)


class DependenciesFeature(Feature):
    """Which Bundles depend on which, and whether these are Ready."""

    spec = DependenciesSpec
    named: Named
    gates = GATES

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.named = Named(LINK)

    def find(self, spec: BundleSpec) -> Unready:
        """Those that a Bundle waits for."""
        return find_unready(self.context.bundles, spec)

    def wakes(
        self, before: BundleEntry | None, after: BundleEntry | None
    ) -> Iterator[tuple[BundleKey, Change]]:
        """The Bundles that depend on the changed one, where they may go on, or have to wait."""
        self.named.update(before, after)
        entry = after or before
        dependants = () if entry is None else self.named.by(entry.key)
        if entry is None or not dependants:
            return
        was, fault = find_fault(before), find_fault(after)
        links = self.context.gates.links
        turned = bool(was) != bool(fault) or edges(links, before) != edges(links, after)
        for key in dependants:
            # In other namespaces only whether there is a fault is said.
            if turned or (was != fault and key.namespace == entry.key.namespace):
                yield key, Change.DEPENDENCY


FEATURE = DependenciesFeature
