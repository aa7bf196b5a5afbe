"""The gauges of rules and copies: sums over the rules, updated rule by rule."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from copyrator.api.certificates import Certificate
from copyrator.api.keys import RuleKey
from copyrator.api.rule_status import CopyCounts
from copyrator.metrics import Metrics
from copyrator.settings.limits import CERTIFICATE_RULES

NOTHING = CopyCounts()


class RuleMetrics:
    """Each rule's last reason and counts, so that a change updates the sums by the difference."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._known: dict[RuleKey, tuple[str, CopyCounts]] = {}
        self._ends: dict[RuleKey, float] = {}
        """When each rule's first certificate ends."""
        self._shown: set[RuleKey] = set()

    def note(self, key: RuleKey, reason: str, copies: CopyCounts = NOTHING) -> None:
        """A rule was reconciled: the reason of its Ready condition, and its copies."""
        before = self._known.get(key)
        if before == (reason, copies):
            return
        self._drop(key)
        self._known[key] = (reason, copies)
        self._move(reason, copies, 1)

    def note_certificates(self, key: RuleKey, certificates: Sequence[Certificate]) -> None:
        """The certificates in a rule's copies, the first to end first."""
        if not certificates:
            self._forget_certificates(key)
            return
        ends = certificates[0].not_after.timestamp()
        if self._ends.get(key) != ends:
            self._ends[key] = ends
            self._show()

    def forget(self, key: RuleKey) -> None:
        """A rule was deleted, or is not this operator's any more."""
        self._drop(key)
        self._forget_certificates(key)

    def _forget_certificates(self, key: RuleKey) -> None:
        if self._ends.pop(key, None) is not None and key in self._shown:
            self._show()

    def _show(self) -> None:
        """Names of rules are labels, so their number is limited."""
        gauge = self._metrics.certificate_expiry
        first = heapq.nsmallest(CERTIFICATE_RULES, self._ends.items(), key=lambda one: one[1])
        for key in self._shown - {key for key, _ in first}:
            gauge.remove(_label(key))
        self._shown = {key for key, _ in first}
        for key, ends in first:
            gauge.labels(_label(key)).set(ends)

    def _drop(self, key: RuleKey) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._move(*known, -1)

    def _move(self, reason: str, copies: CopyCounts, sign: int) -> None:
        self._metrics.rules.labels(reason).inc(sign)
        for state, count in copies.to_dict().items():
            self._metrics.copies.labels(state).inc(sign * count)


def _label(key: RuleKey) -> str:
    return f"{key.namespace}/{key.name}"
