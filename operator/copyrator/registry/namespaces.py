"""The namespaces that exist, as targets.

Which namespaces a rule means is worked out once for all rules that say the same, and kept up to
date by the namespaces' events: no look-up walks over all namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from copyrator.api import names
from copyrator.api.rule import Targets
from copyrator.rules.matching import namespace_accepts


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace, from its metadata."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    terminating: bool = False

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
        )

    @property
    def is_target(self) -> bool:
        """Whether rules may copy into it at all: neither Terminating nor opted out."""
        return not self.terminating and self.labels.get(names.LABEL_IGNORE) != "true"


@dataclass(frozen=True, slots=True)
class NamespaceReader:
    """Decodes namespaces for a watch; equal to any other, so that the watch is shared."""

    def __call__(self, body: Mapping[str, Any]) -> Namespace:
        """Read one Namespace."""
        return Namespace.from_metadata(body)


class TargetSet:
    """The namespaces that one ``spec.targets`` means; shared by all rules that say the same.

    For a tenant's rule only those that accept copies from the tenant's namespace.
    """

    __slots__ = ("__weakref__", "_names", "targets", "tenant", "version")

    def __init__(self, targets: Targets, tenant: str | None = None) -> None:
        self.targets = targets
        self.tenant = tenant
        self.version = 0
        """Changes whenever a member comes or goes."""
        self._names: dict[str, None] = {}

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def judge(self, namespace: Namespace) -> None:
        """Take a namespace in, or leave it out."""
        wanted = self.means(namespace) and self.is_accepted_by(namespace)
        if wanted != (namespace.name in self._names):
            self.version += 1
            if wanted:
                self._names[namespace.name] = None
            else:
                del self._names[namespace.name]

    def means(self, namespace: Namespace) -> bool:
        """Tell whether the rule asks for a copy there, accepted or not."""
        return namespace.is_target and self.targets.matches(namespace.name, namespace.labels)

    def is_accepted_by(self, namespace: Namespace) -> bool:
        """Tell whether the namespace takes copies from this rule's namespace."""
        return self.tenant is None or namespace_accepts(namespace.annotations, self.tenant)

    def drop(self, name: str) -> None:
        """Forget a namespace that is gone."""
        if name in self._names:
            self.version += 1
            del self._names[name]


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
        """The namespace, or None where none of that name is known."""
        return self._known.get(name)

    def put(self, namespace: Namespace) -> None:
        """Take in a new or changed namespace."""
        self._known[namespace.name] = namespace
        for targets in list(self._sets.values()):
            targets.judge(namespace)

    def drop(self, name: str) -> None:
        """Forget a namespace that is gone."""
        self._known.pop(name, None)
        for targets in list(self._sets.values()):
            targets.drop(name)

    def targets(self, targets: Targets, tenant: str | None = None) -> TargetSet:
        """The namespaces that are meant; lives as long as the caller holds it.

        ``tenant`` is the namespace of a rule that needs the targets' consent.
        """
        found = self._sets.get((targets, tenant))
        if found is None:
            found = self._sets[targets, tenant] = TargetSet(targets, tenant)
            for namespace in self._known.values():
                found.judge(namespace)
        return found
