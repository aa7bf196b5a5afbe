"""The certificates in rules' copies: for the status, the next warning, and the metric."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final
from weakref import WeakKeyDictionary

from copyrator.api.certificates import Certificate, seconds_until_transition, soonest
from copyrator.api.keys import RuleKey
from copyrator.copies.certificates.reading import certificates_in
from copyrator.copies.context import CopyContext
from copyrator.copies.rules.rules import Rule
from copyrator.copies.sources.bindings import SourceBinding
from copyrator.copies.targets.content import keeps
from copyrator.metrics import Metrics
from copyrator.workqueue.fairness import TimeSlice

CERTIFICATE_RULES: Final = 100
"""Rules in the metric of certificates: those whose certificates end soonest."""


class CertificateGauge:
    """The metric: when each rule's first certificate ends."""

    def __init__(self, metrics: Metrics) -> None:
        self._gauge = metrics.certificate_expiry_timestamp_seconds
        self._ends: dict[RuleKey, float] = {}
        self._shown: set[RuleKey] = set()

    def note(self, key: RuleKey, ends: float) -> None:
        """The first certificate of a rule ends at this time."""
        if self._ends.get(key) != ends:
            self._ends[key] = ends
            self._show()

    def forget(self, key: RuleKey) -> None:
        """A rule was deleted, isn't this operator's any more, or has no certificate."""
        if self._ends.pop(key, None) is not None and key in self._shown:
            self._show()

    def _show(self) -> None:
        """Names of rules are labels, so their number is limited."""
        first = heapq.nsmallest(CERTIFICATE_RULES, self._ends.items(), key=lambda one: one[1])
        for key in self._shown - {key for key, _ in first}:
            self._gauge.remove(f"{key.namespace}/{key.name}")
        self._shown = {key for key, _ in first}
        for key, ends in first:
            self._gauge.labels(f"{key.namespace}/{key.name}").set(ends)


class CertificateEnds:
    """When the certificates of all rules end."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self.gauge = CertificateGauge(context.metrics)
        self._read: WeakKeyDictionary[SourceBinding, tuple[Certificate, ...]] = WeakKeyDictionary()
        """Those of each source, which is read once a change."""

    async def find(self, rule: Rule, others: Iterable[Certificate]) -> tuple[Certificate, ...]:
        """Those of a rule's sources and these others, as far as the status has room for them."""
        found = soonest(others)
        turn = TimeSlice()
        for binding in list(self._context.index.of_rule(rule.owner).values()):
            if certificates := self._of_source(binding):
                found = soonest((*found, *certificates))
            await turn.pause()
        return found

    def _of_source(self, binding: SourceBinding) -> tuple[Certificate, ...]:
        source, spec = binding.source, binding.compiled.spec
        if source is None:
            return ()
        known = self._read.get(binding)
        if known is None:
            known = self._read[binding] = certificates_in(
                spec.kind,
                source.body,
                binding.origin,
                copied=lambda key: keeps(spec.transform.keys, key),
            )
        return known

    def settle(self, rule: Rule) -> float | None:
        """Set the metric to what the status says; returns seconds until the condition changes."""
        certificates = rule.status.certificates
        if not certificates:
            self.gauge.forget(rule.key)
            return None
        self.gauge.note(rule.key, certificates[0].not_after.timestamp())
        warning = self._context.settings.certificate_warning
        return seconds_until_transition(certificates, self._context.clock(), warning)
