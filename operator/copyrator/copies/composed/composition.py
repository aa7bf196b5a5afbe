"""The sources of one rule's template: what exists, and their contents while they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from copyrator.api.certificates import Certificate, soonest
from copyrator.api.keys import ObjectName
from copyrator.api.rule_spec import ComposedSource
from copyrator.api.rule_status import RuleFacts
from copyrator.copies.certificates.reading import certificates_in
from copyrator.copies.remotes.clusters import RemoteCluster
from copyrator.copies.sources.records import HeaderReader, SourceHeader, is_newer
from copyrator.copies.template.rendering import Composing
from copyrator.copies.template.scope import Findings
from copyrator.kube.resources import Resource
from copyrator.kube.watch.informers import Registration

Versions = Mapping[tuple[str, str, str], str]
"""resourceVersion by kind (resource key, with the other cluster), namespace and name."""


@dataclass(slots=True, eq=False)
class Part:
    """One entry of ``spec.sources``."""

    entry: ComposedSource
    resource: Resource
    watch: Registration | None = None
    """Of headers, also of more objects than the entry's; None before it is opened."""
    assumed: dict[ObjectName, Mapping[str, Any]] = field(default_factory=dict)
    """Objects that count as existing in a dry run."""
    cluster: RemoteCluster | None = None
    """Where it is in another cluster."""
    withheld: Callable[[ObjectName], bool] = lambda _name: False
    """Whether an object is a rule's kubeconfig, which is used nowhere else."""
    _refused: dict[ObjectName, tuple[str, str]] = field(default_factory=dict)
    """Objects whose content is never copied: the version that was read, and why."""
    _found: Mapping[ObjectName, SourceHeader] | None = None
    _restricted: Sequence[tuple[ObjectName, SourceHeader]] | None = None

    def key(self, name: ObjectName) -> tuple[str, str, str]:
        """The key of an object in Versions."""
        kubeconfig = self.entry.kubeconfig
        place = f" of {kubeconfig}" if kubeconfig else ""
        return (f"{self.resource.key}{place}", *name)

    def concerns(self, name: ObjectName) -> bool:
        """Whether it may select an object that its watch delivers."""
        entry = self.entry
        return entry.name is None or name == ObjectName(entry.namespace, entry.name)

    def changed(self) -> None:
        """Its watch has delivered something."""
        self._found = self._restricted = None

    def refuse(self, name: ObjectName, version: str, why: str) -> None:
        """An object was read, and its content is never copied."""
        self._refused[name] = (version, why)
        self.changed()

    def found(self) -> Mapping[ObjectName, SourceHeader]:
        """Its objects, sorted by name; without those that a selector matches and are never used."""
        if self._found is None:
            self._found = self._find()
        return self._found

    def restricted(self) -> Sequence[tuple[ObjectName, SourceHeader]]:
        """Its objects with an annotation that restricts where they are copied to."""
        if self._restricted is None:
            self._restricted = [one for one in self.found().items() if one[1].consent is not None]
        return self._restricted

    def _find(self) -> dict[ObjectName, SourceHeader]:
        store = dict(self.watch.store) if self.watch is not None else {}
        reader = HeaderReader(self.resource.kind)
        store |= {name: reader(body) for name, body in self.assumed.items()}
        entry = self.entry
        if entry.name is not None:
            name = ObjectName(entry.namespace, entry.name)
            return {name: self._with_refusal(name, store[name])} if name in store else {}
        judged = (
            (name, self._with_refusal(name, header)) for name, header in sorted(store.items())
        )
        return {name: header for name, header in judged if header.refused is None}

    def _with_refusal(self, name: ObjectName, header: SourceHeader) -> SourceHeader:
        if self.withheld(name):
            return replace(header, refused="it is the kubeconfig of a rule")
        version, why = self._refused.get(name, ("", ""))
        return replace(header, refused=why) if version == header.resource_version else header


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of all sources; held while copies are rendered and written."""

    composing: Composing
    versions: Versions
    size: int
    """Bytes of the contents."""
    fingerprint: bytes = b""
    """A hash of them, of a rule with spec.rollout."""


@dataclass(slots=True, eq=False)
class Composition:
    """The sources of one rule.

    Attributes:
        parts: by entry, in the order of the spec.
        reading: the contents, while they are held.
        rendered: the versions that the wanted copies were rendered from; None: nothing is.
        users: how many reconciles use the contents now.
    """

    parts: Sequence[Part]
    reading: Reading | None = None
    rendered: Versions | None = None
    users: int = 0
    overridden: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """Registries that several sources have: the source that isn't used, the one that is."""
    passed_over: dict[tuple[str, str], None] = field(default_factory=dict)
    """A source of which nothing is used, and why."""
    until: datetime | None = None
    """When the copies change although no source does: a certificate's end."""
    certificates: tuple[Certificate, ...] = ()
    """Of the copies, those that end soonest."""
    fingerprint: bytes = b""
    """Of the contents that the wanted copies were rendered from; only with spec.rollout."""
    fault: str | None = None
    """Why the copies stay as they are, as of the last reconcile of the rule."""
    timer: asyncio.TimerHandle | None = None
    """Drops the contents after their last use."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the sources are read."""
    clusters: frozenset[RemoteCluster] = field(init=False)
    """The other clusters that some are in."""

    def __post_init__(self) -> None:
        self.clusters = frozenset(part.cluster for part in self.parts if part.cluster is not None)

    def keep(self) -> None:
        """Don't drop the contents when their time is over."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def renewed(self, versions: Versions | None) -> None:
        """The copies are rendered from these versions from now on; None: from none yet."""
        self.rendered = versions
        self.overridden = {}
        self.passed_over = {}
        self.until = None
        self.certificates = ()

    def note_certificates(self, kind: str, payload: Mapping[str, Any]) -> None:
        """A copy was rendered."""
        found = certificates_in(kind, payload, self.to_string())
        self.certificates = soonest((*self.certificates, *found))

    def note(self, findings: Findings) -> None:
        """What rendering a copy found out."""
        self.overridden |= findings.overridden
        self.passed_over |= findings.passed_over
        if findings.until is not None:
            self.until = min(self.until or findings.until, findings.until)

    def headers(self) -> Iterator[tuple[Part, ObjectName, SourceHeader]]:
        """Every object in use."""
        for part in self.parts:
            for name, header in part.found().items():
                yield part, name, header

    def sources(self) -> frozenset[tuple[str, str]]:
        """Every object of this cluster in use, by kind (resource key) and ``namespace/name``."""
        return frozenset(
            (part.resource.key, str(name)) for part, name, _ in self.headers() if not part.cluster
        )

    def is_covered_by(self, read: Versions | None) -> bool:
        """Whether a reading has everything that the watches know, in these versions or newer."""
        known = {part.key(name): header.resource_version for part, name, header in self.headers()}
        return (
            read is not None
            and known.keys() == read.keys()
            and not any(is_newer(version, read[name]) for name, version in known.items())
        )

    def forbidding(self, target: str) -> str | None:
        """A source that may not be copied into a namespace, by ``namespace/name``, or None."""
        for part in self.parts:
            for name, header in part.restricted():
                if not header.allows(target):
                    return str(name)
        return None

    def unreadable(self) -> Iterator[tuple[str, ObjectName, str]]:
        """Sources with an invalid annotation, by kind (resource key): they are copied nowhere."""
        for part in self.parts:
            for name, header in part.restricted():
                if header.consent is not None and header.consent.problem:
                    yield part.resource.key, name, header.consent.problem

    def is_source(self, resource: str, namespace: str, name: str) -> bool:
        """Whether an object is one of the sources."""
        return any(
            not part.cluster
            and part.resource.key == resource
            and ObjectName(namespace, name) in part.found()
            for part in self.parts
        )

    def missing(self) -> str | None:
        """Why the copies can't be rendered: a required source doesn't exist, or is refused."""
        for part in self.parts:
            entry, found = part.entry, part.found()
            for name, header in found.items():
                if header.refused is not None:
                    return f"{_place(entry, name.name)} is never copied: {header.refused}"
            if not found and not entry.optional:
                return f"{_nothing(entry)}; the copies stay as they are"
        return None

    def count(self) -> int:
        """How many objects are in use."""
        return sum(len(part.found()) for part in self.parts)

    def describe(self, facts: RuleFacts) -> RuleFacts:
        """What the status says of the sources."""
        return replace(
            facts,
            overridden=tuple(self.overridden),
            passed_over=tuple(self.passed_over),
            composed_of=self.to_string(),
        )

    def to_string(self) -> str:
        """``hub, private (3)``."""
        return ", ".join(_with_number(part) for part in self.parts)


def _with_number(part: Part) -> str:
    found = len(part.found())
    if not part.entry.single:
        return f"{part.entry.alias} ({found})"
    return part.entry.alias if found else f"{part.entry.alias} (missing)"


def _place(entry: ComposedSource, name: str) -> str:
    return f"sources.{entry.alias}: {entry.kind} {entry.namespace}/{name}{entry.cluster}"


def _nothing(entry: ComposedSource) -> str:
    if entry.name is not None:
        what = f"there is no {entry.kind} {entry.namespace}/{entry.name}{entry.cluster}"
        return f"sources.{entry.alias}: {what}"
    selector = entry.selector.to_string() if entry.selector else ""
    where = f"{entry.namespace}{entry.cluster}"
    return f"sources.{entry.alias}: no {entry.kind} in {where} matches {selector}"
