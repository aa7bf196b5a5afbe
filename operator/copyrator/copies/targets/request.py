"""A binding in one namespace, as the planner takes it (copies.policy.planning.Want)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from copyrator.api.rule_spec import ConflictPolicy
from copyrator.copies.rules.rules import Rule
from copyrator.copies.sources.bindings import DesiredCopy, SourceBinding
from copyrator.copies.targets.adoption import copier
from copyrator.copies.targets.content import payload_of
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.targets.ownership import ACCEPTED
from copyrator.copies.targets.planning import Terms, Unmanaged
from copyrator.copies.targets.records import CopyRecord


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A binding in one namespace, as the planner takes it (copies.policy.planning.Want)."""

    binding: SourceBinding
    desired: DesiredCopy
    namespace: Namespace

    @classmethod
    def of(cls, binding: SourceBinding, namespace: Namespace) -> CopyRequest:
        """The request for a binding's copy in a namespace."""
        return cls(binding, binding.at(namespace), namespace)

    @property
    def rule(self) -> Rule:
        """The rule that requests the copy."""
        return self.binding.compiled.rule

    @property
    def owner(self) -> str:
        """``namespace/name`` of the rule."""
        return self.binding.compiled.rule.owner

    @property
    def paused(self) -> bool:
        """Whether nothing is written (now)."""
        return self.binding.compiled.paused

    def is_old(self, record: CopyRecord) -> bool:
        """Whether a copy has other content than the wanted one; who edited it doesn't matter."""
        return record.digest != self.desired.digest

    def waits(self, record: CopyRecord) -> bool:
        """Whether a copy that isn't right must not be written yet."""
        barrier = self.binding.compiled.barrier
        return barrier is not None and barrier.holds(self.namespace.name, old=self.is_old(record))

    @property
    def on_conflict(self) -> ConflictPolicy:
        """What to do about an unmanaged object."""
        return self.binding.compiled.spec.on_conflict

    @property
    def terms(self) -> Terms:
        """The digest that an unmanaged object must have to count as ready; the conflict policy."""
        return self.desired.digest, self.on_conflict

    @property
    def broken(self) -> bool:
        """Whether the wanted content can't be rendered."""
        return self.desired.problem is not None

    @property
    def pending(self) -> bool:
        """Whether the wanted content isn't known before the sources are read."""
        return self.desired.pending

    def is_right(self, record: CopyRecord) -> bool:
        """Whether the copy is as wanted; False where it can't be rendered."""
        desired = self.desired
        if desired.problem is not None or desired.pending:
            return False
        if record.digest != desired.digest:
            return False
        if record.shape is desired.right_shape or record.shape is ACCEPTED:
            return True
        if not self.binding.undisturbed(self.namespace, record.shape):
            return False
        desired.right_shape = record.shape
        return True

    def is_held_by(self, live: Mapping[str, Any]) -> bool:
        """Whether a whole object has the wanted content; not for a copy with a ``problem``."""
        if self.binding.content(self.namespace).is_held_by(live):
            return True
        return self.desired.equal == self.binding.compiled.sealer.digest(payload_of(live))

    def accept(self, live: Mapping[str, Any]) -> None:
        """Accept the live object as the wanted one: writing it changed nothing."""
        self.desired.equal = self.binding.compiled.sealer.digest(payload_of(live))

    def is_drift(self, record: CopyRecord) -> bool:
        """Whether others changed what we wrote."""
        return record.digest == self.desired.digest

    @property
    def reseals(self) -> bool:
        """Whether objects with the rule's marks and no seal are overwritten, as requested."""
        return self.rule.reseal is not None

    def adopts(self, unmanaged: Unmanaged) -> bool:
        """Whether this unmanaged object is adopted.

        The old form adopts by labels, which anybody may write: only in a trusted rule.
        """
        spec = self.binding.compiled.spec
        trusted = self.binding.compiled.targets.tenant is None
        if trusted and spec.legacy and spec.source and spec.source.selector:
            return spec.source.selector.matches(unmanaged.labels)
        return spec.on_conflict is ConflictPolicy.ADOPT and copier(unmanaged.metadata) is not None
