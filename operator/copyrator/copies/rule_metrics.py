"""The gauges of rules and copies: sums over the rules, updated rule by rule."""

from __future__ import annotations

from copyrator.api.keys import RuleKey
from copyrator.api.rule_status import CopyCounts
from copyrator.metrics import Metrics

NOTHING = CopyCounts()


class RuleMetrics:
    """Each rule's last reason and counts, so that a change updates the sums by the difference."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._known: dict[RuleKey, tuple[str, CopyCounts]] = {}

    def note(self, key: RuleKey, reason: str, copies: CopyCounts = NOTHING) -> None:
        """A rule was reconciled: the reason of its Ready condition, and its copies."""
        before = self._known.get(key)
        if before == (reason, copies):
            return
        self.forget(key)
        self._known[key] = (reason, copies)
        self._move(reason, copies, 1)

    def forget(self, key: RuleKey) -> None:
        """A rule was deleted, or is not this operator's any more."""
        known = self._known.pop(key, None)
        if known is not None:
            self._move(*known, -1)

    def _move(self, reason: str, copies: CopyCounts, sign: int) -> None:
        self._metrics.rules.labels(reason).inc(sign)
        for state, count in copies.to_dict().items():
            self._metrics.copies.labels(state).inc(sign * count)
