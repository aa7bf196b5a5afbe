"""The namespaces that exist, as targets.

The targets of a rule are evaluated once for all rules with the same ``spec.targets``, and updated
by the namespaces' events: no look-up iterates over all namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakValueDictionary

from copyrator.api import names
from copyrator.api.rule_spec import Targets
from copyrator.api.selectors import Consent, read_consent
from copyrator.kube.resources import NAMESPACES
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.workqueue.fairness import TimeSlice


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace, from its metadata."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    terminating: bool = False
    created: str = ""
    """creationTimestamp; RFC 3339 in UTC, so it sorts as text."""
    _consent: list[Consent | None] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """What its annotation allows, once it has been parsed."""

    @classmethod
    def from_metadata(cls, body: Mapping[str, Any]) -> Namespace:
        """Read a Namespace, whole or metadata only.

        A namespace is Terminating exactly when it has a deletionTimestamp.
        """
        metadata = body["metadata"]
        annotations = metadata.get("annotations") or {}
        return cls(
            name=metadata["name"],
            uid=metadata.get("uid", ""),
            resource_version=metadata.get("resourceVersion", ""),
            labels=metadata.get("labels") or {},
            annotations={
                key: value
                for key, value in annotations.items()
                if not key.startswith("kubectl.kubernetes.io/")
            },
            terminating="deletionTimestamp" in metadata,
            created=str(metadata.get("creationTimestamp") or ""),
        )

    @property
    def is_target(self) -> bool:
        """Whether rules may copy into it at all: neither Terminating nor opted out."""
        return not self.terminating and self.labels.get(names.LABEL_IGNORE) != "true"

    @property
    def consent(self) -> Consent | None:
        """Which tenants' rules may copy into it, by its annotation; None where it has none."""
        if not self._consent:
            self._consent.append(read_consent(self.annotations, names.ANN_ALLOW_FROM))
        return self._consent[0]

    def accepts(self, tenant: str) -> bool:
        """Whether it accepts copies from a tenant's rules; False without the annotation."""
        return self.consent is not None and self.consent.names(tenant)


NAMESPACE_WATCH: Final = WatchSpec(
    resource=NAMESPACES, metadata_only=True, decode=Namespace.from_metadata, reserved=True
)
"""The watch of all Namespaces; whoever watches them uses this one."""


class TargetSet:
    """The namespaces that one ``spec.targets`` selects; shared by all rules with the same targets.

    For a tenant's rule only those that accept copies from the tenant's namespace. A new or changed
    namespace is evaluated when it is looked up; `settle` evaluates the rest. Counting and iterating
    cover the members that have been evaluated.
    """

    __slots__ = ("__weakref__", "_find", "_names", "_unjudged", "targets", "tenant")

    def __init__(
        self, targets: Targets, tenant: str | None, known: Mapping[str, Namespace]
    ) -> None:
        self.targets = targets
        self.tenant = tenant
        self._find = known.get
        self._names: dict[str, None] = {}
        self._unjudged = dict.fromkeys(known)

    def __contains__(self, namespace: str) -> bool:
        if self._unjudged and namespace in self._unjudged:
            self.judge(namespace)
        return namespace in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def settled(self) -> bool:
        """Whether all known namespaces have been evaluated."""
        return not self._unjudged

    async def settle(self, turn: TimeSlice) -> None:
        """Evaluate what hasn't been evaluated yet."""
        while self._unjudged:
            self.judge(next(iter(self._unjudged)))
            await turn.pause()

    def had(self, name: str) -> bool:
        """Whether a namespace was a member at its last evaluation."""
        return name in self._names

    def changed(self, name: str) -> None:
        """A namespace is new or changed: it has to be evaluated again."""
        self._unjudged[name] = None

    def judge(self, name: str) -> None:
        """Evaluate one namespace."""
        self._unjudged.pop(name, None)
        namespace = self._find(name)
        if namespace is not None and self.means(namespace) and self.is_accepted_by(namespace):
            self._names[name] = None
        else:
            self._names.pop(name, None)

    def means(self, namespace: Namespace) -> bool:
        """Whether the rule selects the namespace, accepted or not."""
        return namespace.is_target and self.targets.matches(namespace.name, namespace.labels)

    def is_accepted_by(self, namespace: Namespace) -> bool:
        """Whether the namespace accepts copies from this rule's namespace."""
        return self.tenant is None or namespace.accepts(self.tenant)

    def drop(self, name: str) -> None:
        """Remove a deleted namespace."""
        self._unjudged.pop(name, None)
        self._names.pop(name, None)


class Namespaces:
    """Every namespace by its name."""

    def __init__(self) -> None:
        self._known: dict[str, Namespace] = {}
        self._sets: WeakValueDictionary[tuple[Targets, str | None], TargetSet] = (
            WeakValueDictionary()
        )

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Namespace]:
        return iter(self._known.values())

    def get(self, name: str) -> Namespace | None:
        """The namespace, or None where it isn't known."""
        return self._known.get(name)

    def put(self, namespace: Namespace) -> None:
        """Add or replace a namespace."""
        self._known[namespace.name] = namespace
        for targets in list(self._sets.values()):
            targets.changed(namespace.name)

    def drop(self, name: str) -> None:
        """Remove a deleted namespace."""
        self._known.pop(name, None)
        for targets in list(self._sets.values()):
            targets.drop(name)

    def targets(self, targets: Targets, tenant: str | None = None) -> TargetSet:
        """The selected namespaces; cached as long as the caller holds the set.

        ``tenant`` is the namespace of a rule that needs the targets' consent. A new set has to be
        settled before it is counted or iterated over.
        """
        found = self._sets.get((targets, tenant))
        if found is None:
            found = self._sets[targets, tenant] = TargetSet(targets, tenant, self._known)
        return found
