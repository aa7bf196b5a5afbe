"""Names of the units of work, as the queue holds them.

Frozen dataclasses, not tuples: ``RuleKey("a", "b")`` must never equal ``BundleKey("a", "b")``,
because both stand in the same queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class ObjectName(NamedTuple):
    """Where an object of a known kind stands; ``namespace`` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, order=True)
class RuleKey:
    """Recompute one CopyratorRule: its sources, claims, finalizer and status."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"rule/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class CopyKey:
    """Decide one target object: every rule's claim on it against what stands there.

    ``kind`` is the resource's key, ``secrets`` or ``roles.rbac.authorization.k8s.io``.
    """

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class BundleKey:
    """Reconcile one Bundle."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"bundle/{self.namespace}/{self.name}"


Key = RuleKey | CopyKey | BundleKey
