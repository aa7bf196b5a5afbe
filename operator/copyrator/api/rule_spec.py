"""A parsed CopyratorRule: the old form and ``spec`` in one shape.

Other modules don't distinguish the forms, except by ``legacy``: such a rule adopts
the unmarked copies that the original copy operator left (docs/adoption.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from copyrator.api.globs import NO_GLOBS, Globs
from copyrator.api.kubeconfig import KubeconfigRef
from copyrator.api.rollout import Rollout
from copyrator.api.selectors import ANY_LABELS, LabelSelector
from copyrator.api.text import truncate

DEFAULT_LIMIT: Final = 100_000
MAX_LIMIT: Final = 10_000_000

DEFAULT_MAX_DELETE: Final = 50
"""Percent."""

NAMED_PATTERNS: Final = 5
"""Patterns of a list that a message names."""
EVERY_NAMESPACE: Final = "every namespace"
MAX_TARGETS_TEXT: Final = 400
"""Characters of a rule's targets in a message."""

WELL_KNOWN_KINDS: Final[Mapping[str, str]] = {
    "ConfigMap": "v1",
    "Secret": "v1",
    "ServiceAccount": "v1",
    "ResourceQuota": "v1",
    "LimitRange": "v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
}
"""apiVersion of the kinds that the chart allows by default; a CRD of the same kind (such as
Calico's NetworkPolicy) must be named with its own apiVersion.
"""


class ConflictPolicy(StrEnum):
    """What to do about an object of the copy's name that isn't ours."""

    SKIP = "Skip"
    ADOPT = "Adopt"
    OVERWRITE = "Overwrite"


class ImmutablePolicy(StrEnum):
    """What to do when the API server refuses a change of an immutable field."""

    FAIL = "Fail"
    RECREATE = "Recreate"


class DeletionPolicy(StrEnum):
    """What happens to copies that are no longer wanted."""

    DELETE = "Delete"
    ORPHAN = "Orphan"


class Mode(StrEnum):
    """Whether copies are written."""

    APPLY = "Apply"
    PLAN = "Plan"


@dataclass(frozen=True, slots=True)
class Source:
    """What is copied. Exactly one of ``name`` and ``selector`` is set."""

    kind: str
    api_version: str | None
    """None: to be resolved by discovery."""
    namespaces: tuple[str, ...]
    """Never empty; when two have a source of one name, the first listed wins."""
    name: str | None = None
    selector: LabelSelector | None = None
    kubeconfig: KubeconfigRef | None = None
    """Where it is in another cluster."""

    @property
    def cluster(self) -> str:
        """For messages: `` in the cluster of kubeconfig …``; empty for the operator's own."""
        return place_of(self.kubeconfig) if self.kubeconfig else ""

    def means(self, namespace: str, name: str, labels: Mapping[str, str] | None) -> bool:
        """Whether an object of this kind in the operator's cluster is copied."""
        if self.kubeconfig is not None or namespace not in self.namespaces:
            return False
        return self.name == name if self.name else (self.selector or ANY_LABELS).matches(labels)


def place_of(kubeconfig: KubeconfigRef) -> str:
    """`` in the cluster of kubeconfig …`` with the Secret's name."""
    return f" in the cluster of kubeconfig {kubeconfig.secret}"


@dataclass(frozen=True, slots=True)
class ComposedSource:
    """One entry of ``spec.sources``: what a template reads as ``sources.NAME``."""

    alias: str
    """``as``: the name in the template."""
    source: Source
    """With exactly one namespace."""
    optional: bool = False
    """Without it, the rule waits until there is at least one object."""

    @property
    def namespace(self) -> str:
        """The namespace that it is read from."""
        return self.source.namespaces[0]

    @property
    def single(self) -> bool:
        """Whether it is one object by name, rather than a list."""
        return self.source.name is not None


@dataclass(frozen=True, slots=True)
class Template:
    """An object rendered for each target namespace; ``body`` is as written, not rendered."""

    kind: str
    api_version: str
    body: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Targets:
    """Which namespaces get a copy. Phase and consent are checked elsewhere."""

    namespaces: Globs = NO_GLOBS
    exclude: Globs = NO_GLOBS
    selector: LabelSelector = ANY_LABELS

    @property
    def named(self) -> tuple[str, ...]:
        """The namespaces that are listed by name, without a wildcard."""
        return tuple(p for p in self.namespaces.patterns if "*" not in p and "?" not in p)

    @property
    def is_every_name(self) -> bool:
        """Whether no name is left out by ``namespaces``."""
        return not self.namespaces or "*" in self.namespaces.patterns

    def matches(self, namespace: str, labels: Mapping[str, str] | None) -> bool:
        """Whether a namespace of this name and these labels is a target."""
        return (
            (not self.namespaces or self.namespaces.matches(namespace))
            and not self.exclude.matches(namespace)
            and self.selector.matches(labels)
        )

    def to_string(self) -> str:
        """For messages: ``team-*, app except team-x with labels a=b``; at most 400 characters."""
        patterns = self.namespaces.patterns
        text = EVERY_NAMESPACE if self.is_every_name else _listed(patterns)
        if self.exclude:
            text += f" except {_listed(self.exclude.patterns)}"
        if not self.selector.empty:
            text += f" with labels {self.selector.to_string()}"
        return truncate(text, MAX_TARGETS_TEXT)


def _listed(patterns: tuple[str, ...]) -> str:
    more = len(patterns) - NAMED_PATTERNS
    text = ", ".join(patterns[:NAMED_PATTERNS])
    return f"{text} and {more} more" if more > 0 else text


@dataclass(frozen=True, slots=True)
class KeyTransform:
    """Which keys of a ConfigMap's or Secret's data are copied, and under which names.

    ``include`` and ``exclude`` are globs on the source's keys; no ``include`` means every key.
    """

    include: Globs = NO_GLOBS
    exclude: Globs = NO_GLOBS
    rename: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class MetadataTransform:
    """Labels or annotations to add to a copy, and globs of those not to copy."""

    add: Mapping[str, str] = field(default_factory=dict, hash=False)
    remove: Globs = NO_GLOBS


@dataclass(frozen=True, slots=True)
class Transform:
    """The differences between a copy and its source."""

    name: str | None = None
    """Jinja2 text for the copy's name; None: the source's name."""
    type: str | None = None
    """Of a copied Secret; None: the source's type."""
    keys: KeyTransform = KeyTransform()
    labels: MetadataTransform = MetadataTransform()
    annotations: MetadataTransform = MetadataTransform()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """A valid rule. Exactly one of ``source`` and ``template`` is set."""

    legacy: bool = False
    source: Source | None = None
    template: Template | None = None
    sources: tuple[ComposedSource, ...] = ()
    """What the template reads; only with a template."""
    targets: Targets = Targets()
    transform: Transform = Transform()
    on_conflict: ConflictPolicy = ConflictPolicy.SKIP
    on_immutable: ImmutablePolicy = ImmutablePolicy.FAIL
    deletion_policy: DeletionPolicy = DeletionPolicy.DELETE
    limit: int = DEFAULT_LIMIT
    max_delete: int = DEFAULT_MAX_DELETE
    """Percentage of its copies that an edit may delete without a confirmation; 100: all."""
    rollout: Rollout | None = None
    """How a change of the content is written; None: to all copies at once."""
    mode: Mode = Mode.APPLY
    suspend: bool = False

    @property
    def all_sources(self) -> tuple[Source, ...]:
        """What is copied, or read by the template."""
        if self.source is not None:
            return (self.source,)
        return tuple(entry.source for entry in self.sources)

    @property
    def kubeconfigs(self) -> tuple[KubeconfigRef, ...]:
        """The kubeconfigs of other clusters that sources are in, each once."""
        named = (source.kubeconfig for source in self.all_sources)
        return tuple(dict.fromkeys(one for one in named if one is not None))

    @property
    def kind(self) -> str:
        """The kind of the copies."""
        made = self.source or self.template
        assert made is not None
        return made.kind

    @property
    def api_version(self) -> str | None:
        """The apiVersion of the copies; None: to be resolved by discovery."""
        made = self.source or self.template
        assert made is not None
        return made.api_version
