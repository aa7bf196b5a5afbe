"""Watches and reads the sources of templates, and holds their contents while copies need them.

One reading serves all copies that are rendered and written together: it is dropped a second after
its last use, so a change of a source, or new and deleted copies of one second, take one reading.

The template's binding can render content only while the sources' contents are held. Otherwise what
is kept of a copy is its name, its digest, and the outline that all copies share.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec

from copyrator.api.certificates import Certificate, soonest
from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.keys import ObjectName
from copyrator.api.kubeconfig import KubeconfigRef
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.rule_spec import (
    COMPOSED_BYTES,
    COMPOSED_OBJECTS,
    PUBLIC_CAS,
    ComposedSource,
)
from copyrator.api.rule_status import RuleFacts
from copyrator.copies.certificates.reading import certificates_in
from copyrator.copies.composed.public_cas import read_public_cas
from copyrator.copies.context import CopyContext
from copyrator.copies.remotes.clusters import BusyError, RemoteCluster, RemoteUse
from copyrator.copies.rules.state import CompiledRule, RulePhase, RuleState, StoppedError
from copyrator.copies.rules.trace import RuleTrace, Trigger
from copyrator.copies.sources.bindings import (
    DesiredCopy,
    SourceBinding,
    problem_of,
    rule_context,
    target_context,
)
from copyrator.copies.sources.records import (
    HeaderReader,
    SourceHeader,
    SourceShare,
    is_newer,
    refusal,
)
from copyrator.copies.sources.watches import ALONE, source_watch
from copyrator.copies.targets.content import Content, rendered_content
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.targets.ownership import Shape
from copyrator.copies.template.rendering import Composing, Text, Tree, checked_name
from copyrator.copies.template.scope import (
    Entry,
    Findings,
    PublicCAs,
    TemplateError,
    certificates_of,
    describe_cas,
    digest_of,
)
from copyrator.kube import errors
from copyrator.kube.resources import SECRETS, Resource
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.queue import Done, Failed, Outcome, RequeueAfter

OUTLINES = 16
"""Outlines of one rule that are kept to be shared; equal copies share one."""
BUSY_AGAIN: Final = 1.0
"""Seconds before sources are read again that other reconciles are reading."""
_ALL = ""
"""In place of a namespace, where the copies are the same in all of them."""
TOGETHER: Final = 0.1
"""Seconds after a change of a source before the copies are rendered: others may change with it."""
LONGEST_WAIT: Final = 86_400.0
"""Seconds after which a rule whose copies depend on the time is reconciled again at the latest."""
READS = 8
"""Concurrent reads of all templates' sources."""
HELD_SECONDS = 1.0
"""Seconds that contents are held after their last use."""
_METADATA = ("name", "namespace", "labels", "annotations", "resourceVersion")
"""What is held of an object's metadata."""
ATTEMPTS = 3
"""Readings in a row while the sources change; the watch triggers another one afterwards."""

_encoder = msgspec.json.Encoder(order="deterministic")

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
    default_cas: Sequence[str] = ()
    """The names of the entries that stand for the public CAs."""
    public_cas: PublicCAs | None = None
    """What they stood for in the last reading."""
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
        ignored = () if self.public_cas is None else certificates_of(self.public_cas)
        found = certificates_in(kind, payload, self._objects(), ignored=ignored)
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
                    what = f"{entry.kind} {name}{entry.cluster}"
                    return f"sources.{entry.alias}: {what} is never copied: {header.refused}"
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
        """``hub, private (3)``; of public CAs their number and a part of their digest."""
        cas = self.public_cas
        known = PUBLIC_CAS if cas is None else describe_cas(cas)
        public = (f"{alias} ({known})" for alias in self.default_cas)
        return ", ".join((*public, self._objects()) if self.parts else public)

    def _objects(self) -> str:
        return ", ".join(map(_with_number, self.parts))


def _with_number(part: Part) -> str:
    found = len(part.found())
    if not part.entry.single:
        return f"{part.entry.alias} ({found})"
    return part.entry.alias if found else f"{part.entry.alias} (missing)"


def _nothing(entry: ComposedSource) -> str:
    if entry.name is not None:
        what = f"there is no {entry.kind} {entry.namespace}/{entry.name}{entry.cluster}"
        return f"sources.{entry.alias}: {what}"
    selector = entry.selector.to_string() if entry.selector else ""
    where = f"{entry.namespace}{entry.cluster}"
    return f"sources.{entry.alias}: no {entry.kind} in {where} matches {selector}"


class NotHeldError(Exception):
    """The sources' contents aren't held (any more); read them again."""


class ComposedBinding(SourceBinding):
    """The template of a rule with ``spec.sources``, bound to the rule's targets."""

    __slots__ = ("_composer", "_name", "_outlines", "composition")

    is_read_on_demand = True

    def __init__(
        self, compiled: CompiledRule, composition: Composition, composer: Composer
    ) -> None:
        self.composition = composition
        """The sources that the template reads."""
        self._composer = composer
        self._name = _name_in(compiled.template)
        self._outlines: list[Content] = []
        """The outlines of all copies, each once: usually there is one."""
        super().__init__(compiled, None)

    def _first_desired(self) -> DesiredCopy | None:
        return None if self.compiled.follows_namespaces else self._named(None)

    def at(self, namespace: Namespace) -> DesiredCopy:
        """The wanted copy in a namespace; pending before the sources are read."""
        place = namespace.name if self.compiled.follows_namespaces else _ALL
        desired = self._by_namespace.get(place)
        if desired is None:
            desired = self._by_namespace[place] = self._named(namespace)
        return desired

    @property
    def mark(self) -> bytes:
        """What changes with the content of its copies, and not with their namespaces."""
        if not self.compiled.follows_namespaces:
            desired = self._by_namespace.get(_ALL)
            return desired.digest if desired else b""
        composition = self.composition
        until = composition.until.isoformat().encode() if composition.until else b""
        return b"\0".join((self.compiled.template_mark, composition.fingerprint, until))

    def covers(self, namespace: Namespace) -> bool:
        """Whether a copy is wanted there: by the rule, and by all sources' owners."""
        if namespace.name not in self.compiled.targets:
            return False
        if self.forbidding(namespace.name) is not None:
            return False
        name = self.at(namespace).name  # a source is never a target
        return not self.composition.is_source(self.compiled.resource, namespace.name, name)

    def forbidding(self, namespace: str) -> str | None:
        """A source that may not be copied into a namespace: ``namespace/name``; None: all may."""
        return self.composition.forbidding(namespace)

    def unreadable(self) -> Iterator[tuple[str, ObjectName, str]]:
        """Sources with an invalid annotation, by kind (resource key): they are copied nowhere."""
        return self.composition.unreadable()

    def withhold(self) -> None:
        """One of the sources is a rule's kubeconfig from now on."""
        for part in self.composition.parts:
            part.changed()

    def cause(self, trace: RuleTrace) -> tuple[Trigger, tuple[str, ...]] | None:
        """The changes of sources for which a copy is written: all of them are in each copy."""
        return (Trigger.COMPOSED, tuple(trace.sources)) if trace.sources else None

    async def with_content(
        self, namespace: str, write: Callable[[], Awaitable[Outcome]]
    ) -> Outcome:
        """Hold the contents of the sources while a copy is rendered and written."""
        context, rule = self._composer.context, self.compiled.rule.key
        try:
            async with self._composer.held(self) as renewed:
                if renewed:
                    context.queue.add(rule)  # to render its other copies, too
                if (place := context.namespaces.get(namespace)) is not None:
                    self.compose(place)
                return await write()
        except ComposeError:
            context.queue.add(rule)  # which reports the error in its status
            return Done()
        except (BusyError, NotHeldError):
            return RequeueAfter(BUSY_AGAIN)
        except errors.ApiError as error:
            context.queue.add(rule)
            return Failed(error)

    def undisturbed(self, namespace: Namespace, shape: Shape) -> bool:
        """Whether nothing that we wrote there was changed, by the outline of the copy."""
        outline = self.at(namespace).outline
        return outline is not None and outline.is_undisturbed(shape)

    def content(self, namespace: Namespace) -> Content:
        """The wanted content in a namespace.

        Raises:
            NotHeldError: the sources' contents aren't held.
            TemplateError: it can't be rendered.
        """
        reading, compiled = self.composition.reading, self.compiled
        if reading is None:
            raise NotHeldError
        assert compiled.template is not None
        rendered = reading.composing.render(
            compiled.template, compiled.spec.kind, target_context(namespace, compiled.rule)
        )
        self.composition.note(reading.composing.findings)
        return rendered_content(
            rendered, compiled.spec.transform, rule=compiled.rule.owner, sealer=compiled.sealer
        )

    def renew(self) -> None:
        """The sources have changed: every copy has to be rendered again."""
        self.compiled.close_barrier()
        self._by_namespace.clear()
        self._outlines.clear()

    def compose(self, namespace: Namespace) -> None:
        """Render the copy in a namespace where it is pending.

        Raises:
            NotHeldError: the sources' contents aren't held.
        """
        known = self.at(namespace)
        if not known.pending:
            return
        try:
            content = self.content(namespace)
            desired = DesiredCopy(known.name, content)
            desired.content = None
            desired.outline = self._outline_of(content)
            self.composition.note_certificates(content.kind, content.payload)
        except NotHeldError:
            raise
        except Exception as error:
            desired = DesiredCopy(known.name, None, problem_of(error))
        self._by_namespace[namespace.name if self.compiled.follows_namespaces else _ALL] = desired

    def _outline_of(self, content: Content) -> Content:
        for outline in self._outlines:
            if content.has_outline(outline):
                return outline
        outline = content.outline()
        if len(self._outlines) < OUTLINES:
            self._outlines.append(outline)
        return outline

    def _named(self, namespace: Namespace | None) -> DesiredCopy:
        """The copy's name, which doesn't depend on the sources."""
        rule, kind = self.compiled.rule, self.compiled.spec.kind
        context = target_context(namespace, rule) if namespace else {"rule": rule_context(rule)}
        try:
            return DesiredCopy(checked_name(self._name.render(context), kind), None, pending=True)
        except TemplateError as error:
            return DesiredCopy("", None, str(error))


def _name_in(template: Tree | None) -> Text:
    """The text of metadata.name."""
    assert template is not None
    metadata = dict(template.root)["metadata"]
    name = dict(metadata)["name"]
    return name if isinstance(name, Text) else Text(name)


class ComposeError(Exception):
    """The sources can't be used (now); the copies stay as they are."""

    def __init__(self, reason: RuleReason, message: str, *, waits: bool = False) -> None:
        super().__init__(message)
        self.condition = ReadyCondition(Health.RETRYING, reason, message)
        self.waits = waits
        """Whether it may succeed later although no source changes."""


def binding_of(context: CopyContext, owner: str) -> ComposedBinding | None:
    """The binding of a rule with ``spec.sources``, or None."""
    for binding in context.index.of_rule(owner).values():
        return binding if isinstance(binding, ComposedBinding) else None
    return None


class Composer:
    """Reads and holds the sources of all rules with ``spec.sources``, and renders their copies."""

    def __init__(self, context: CopyContext) -> None:
        self.context = context
        self._reads = asyncio.Semaphore(READS)
        self._public_cas: PublicCAs | None = None
        self._reading_cas = asyncio.Lock()
        """Parsing them for several rules at once would hold the loop."""

    def begin(
        self,
        state: RuleState,
        resources: Sequence[Resource],
        remotes: Mapping[KubeconfigRef, RemoteUse],
    ) -> list[Registration]:
        """Watch the metadata of a template's sources, and add its binding."""
        context, compiled = self.context, state.compiled
        assert compiled is not None
        parts = []
        for entry, resource in zip(compiled.spec.composed_sources, resources, strict=True):
            part = Part(entry, resource)
            if entry.kubeconfig is not None:
                part.cluster = remotes[entry.kubeconfig].served
            elif resource == SECRETS:
                part.withheld = context.rules.is_kubeconfig
            parts.append(part)
        composition = Composition(parts, compiled.spec.default_cas)
        context.index.add(ComposedBinding(compiled, composition, self))
        share = context.shares.of(None)
        watches = []
        for part in parts:
            informers = part.cluster.informers if part.cluster else context.informers
            watch = informers.acquire(
                _spec(informers, part, part.cluster.share if part.cluster else share),
                partial(_source_changed, context, state, part),
                on_synced=lambda: context.queue.add(state.key),
            )
            part.watch = watch
            part.changed()
            watches.append(watch)
            if (kubeconfig := part.entry.kubeconfig) is not None:
                remotes[kubeconfig].watches.append(watch)
        context.index.set_read(compiled.rule.owner, composition.sources())
        return watches

    async def compose(self, state: RuleState) -> None:
        """Render the copies of all targets where a source, or the time, has changed.

        Raises:
            StoppedError: the sources can't be used (now); the copies stay as they are.
            ApiError: one can't be read.
        """
        compiled = state.compiled
        assert compiled is not None
        binding = binding_of(self.context, compiled.rule.owner)
        if binding is None:
            return
        composition = binding.composition
        try:
            check(composition)
            await self._render(binding)
        except BusyError:
            raise StoppedError(None, BUSY_AGAIN) from None
        except ComposeError as error:
            composition.fault = f"{error.condition.reason}: {error.condition.message}"
            state.freeze()
            facts = RuleFacts(
                sources=composition.count(),
                composed_of=composition.to_string(),
                targets=len(compiled.targets),
                copies=compiled.rule.status.copies,
            )
            again = self.context.timing.room_again if error.waits else None
            raise StoppedError(error.condition, again, facts) from error
        composition.fault = None

    async def _render(self, binding: ComposedBinding) -> None:
        context, composition = self.context, binding.composition
        if composition.until is not None and composition.until <= context.clock():
            self.drop(composition)
            composition.renewed(None)
        turn = TimeSlice()
        known = composition.is_covered_by(composition.rendered)
        if known and not await self._is_any_pending(binding, turn):
            return
        async with self.held(binding):
            for name in list(binding.compiled.targets):
                namespace = context.namespaces.get(name)
                if namespace is not None:
                    binding.compose(namespace)
                await turn.pause()

    async def _is_any_pending(self, binding: ComposedBinding, turn: TimeSlice) -> bool:
        """Whether the copy of any target has to be rendered."""
        for name in list(binding.compiled.targets):
            namespace = self.context.namespaces.get(name)
            if namespace is not None and binding.at(namespace).pending:
                return True
            if namespace is not None and not binding.compiled.follows_namespaces:
                return False  # they are all the same
            await turn.pause()
        return False

    def seconds_until_change(self, owner: str) -> float | None:
        """When the copies have to be rendered again although no source changes."""
        binding = binding_of(self.context, owner)
        if binding is None or binding.composition.until is None:
            return None
        left = (binding.composition.until - self.context.clock()).total_seconds()
        return min(max(left, 0.0) + 1.0, LONGEST_WAIT)

    @asynccontextmanager
    async def held(self, binding: ComposedBinding) -> AsyncIterator[bool]:
        """Hold the contents of a template's sources, which are read unless they are held already.

        Yields:
            Whether all copies have to be rendered again, because other versions were read.

        Raises:
            BusyError: others are being read from the same other cluster.
            ComposeError: they can't be used.
            ApiError: one can't be read.
        """
        composition = binding.composition
        if composition.clusters and composition.lock.locked():
            raise BusyError  # no further worker waits for another cluster
        composition.users += 1
        composition.keep()
        try:
            async with composition.lock:
                renewed = await self._refresh(binding)
            yield renewed
        finally:
            composition.users -= 1
            if not composition.users and composition.reading is not None:
                loop = asyncio.get_running_loop()
                composition.timer = loop.call_later(HELD_SECONDS, self.drop, composition)

    def drop(self, composition: Composition) -> None:
        """Hold the contents no longer."""
        composition.keep()
        if composition.reading is not None:
            self.context.shares.of(None).give_back(composition.reading.size)
            composition.reading = None

    async def _refresh(self, binding: ComposedBinding) -> bool:
        composition = binding.composition
        for _ in range(ATTEMPTS):
            reading = composition.reading
            if reading is not None and composition.is_covered_by(reading.versions):
                break
            self.drop(composition)
            hashed = binding.compiled.barrier is not None
            with ExitStack() as stack:
                for cluster in composition.clusters:
                    stack.enter_context(cluster.reading())
                composition.reading = await self._read(composition, hashed=hashed)
        assert composition.reading is not None
        if composition.rendered == composition.reading.versions:
            return False
        binding.renew()
        composition.renewed(composition.reading.versions)
        composition.fingerprint = composition.reading.fingerprint
        return True

    async def _read(self, composition: Composition, *, hashed: bool) -> Reading:
        """Read all sources once.

        Raises:
            ComposeError, ApiError: as `held`.
        """
        check(composition)
        if composition.default_cas:
            async with self._reading_cas:
                composition.public_cas = await self._default_cas(composition.default_cas[0])
        left = [COMPOSED_BYTES]
        found = await asyncio.gather(
            *(self._read_one(part, name, left) for part, name, _ in composition.headers())
        )
        check(composition)  # what was read may be refused
        bodies = dict(filter(None, found))
        entries: dict[str, Entry] = dict.fromkeys(composition.default_cas, composition.public_cas)
        for part in composition.parts:
            mine = [bodies[part.key(name)] for name in part.found() if part.key(name) in bodies]
            alias, single = part.entry.alias, part.entry.single
            if not mine and not part.entry.optional:
                raise ComposeError(
                    RuleReason.SOURCE_NOT_FOUND,
                    f"sources.{alias} was deleted; the copies stay as they are",
                    waits=True,
                )
            entries[alias] = (mine[0] if mine else None) if single else mine
        size = COMPOSED_BYTES - left[0]
        share = self.context.shares.of(None)
        if not share.reserve(size):
            why = share.no_room(len(bodies), size)
            raise ComposeError(RuleReason.PROGRESSING, why, waits=True)
        versions = {key: str(body["metadata"]["resourceVersion"]) for key, body in bodies.items()}
        fingerprint = _fingerprint(entries) if hashed else b""
        optional = {part.entry.alias for part in composition.parts if part.entry.optional}
        composing = Composing(entries, self.context.clock(), optional)
        return Reading(composing, versions, size, fingerprint)

    async def _default_cas(self, alias: str) -> PublicCAs:
        """The public CAs, which are read once.

        Raises:
            ComposeError: their file can't be used (yet).
        """
        if self._public_cas is None:
            path = self.context.settings.default_cas_file
            try:
                self._public_cas = await asyncio.to_thread(read_public_cas, path)
            except TemplateError as error:
                raise ComposeError(
                    RuleReason.SOURCE_NOT_FOUND,
                    f"sources.{alias}: {PUBLIC_CAS}: {error}; set --default-cas-file (chart value "
                    "rules.defaultCAsFile) to a file of certificates in PEM. The copies stay as "
                    "they are",
                    waits=True,
                ) from None
        return self._public_cas

    async def _read_one(
        self, part: Part, name: ObjectName, left: list[int]
    ) -> tuple[tuple[str, str, str], Mapping[str, Any]] | None:
        """An object with its key; None of one that doesn't exist (any more), or is refused."""
        if left[0] < 0:
            return None
        try:
            body = part.assumed.get(name) or await self._get(part, name)
        except errors.NotFound:
            return None
        if left[0] < 0:
            return None
        body = {**body, "apiVersion": part.resource.api_version, "kind": part.resource.kind}
        if why := refusal(part.resource.kind, body):
            part.refuse(name, str(body["metadata"]["resourceVersion"]), why)
            return None
        body["metadata"] = {key: body["metadata"].get(key) for key in _METADATA}
        left[0] -= len(msgspec.json.encode(body))
        if left[0] < 0:
            raise ComposeError(
                RuleReason.TOO_LARGE,
                f"the objects of spec.sources have more than {COMPOSED_BYTES // 2**20} MiB; select "
                "fewer or smaller ones. The copies stay as they are",
            )
        return part.key(name), body

    async def _get(self, part: Part, name: ObjectName) -> Mapping[str, Any]:
        """Read an object from its cluster.

        Raises:
            NotFound: it doesn't exist in this one.
            ComposeError: the other cluster can't be read.
            ApiError: this one can't.
        """
        if part.cluster is None:
            async with self._reads:
                return await self.context.client.get(part.resource, *name)
        try:
            return await part.cluster.read(part.resource, name)
        except errors.ApiError as error:  # also a 404: the watch delivers deletions
            place = part.entry.cluster.strip()
            why = (
                f"sources.{part.entry.alias}, {place}: {error.message}; the copies stay as they are"
            )
            raise ComposeError(RuleReason.SOURCE_UNREACHABLE, why, waits=True) from None


def _fingerprint(entries: Mapping[str, Entry]) -> bytes:
    """A hash of contents, whatever their versions."""
    hashed = hashlib.blake2b(digest_size=32)
    for alias, entry in sorted(entries.items()):
        hashed.update(b"\0" + alias.encode())
        if isinstance(entry, PublicCAs):
            hashed.update(digest_of(entry).encode())
            continue
        for body in [entry] if isinstance(entry, Mapping) else entry or ():
            metadata = {**body["metadata"], "resourceVersion": None}
            hashed.update(_encoder.encode({**body, "metadata": metadata}))
    return hashed.digest()


def check(composition: Composition) -> None:
    """Refuse sources that can't be used, without reading one.

    Raises:
        ComposeError: one is missing or refused, or they are too many.
    """
    if (found := composition.count()) > COMPOSED_OBJECTS:
        why = f"spec.sources selects {found} objects, more than {COMPOSED_OBJECTS}"
        raise ComposeError(RuleReason.TOO_LARGE, f"{why}; the copies stay as they are")
    if missing := composition.missing():
        raise ComposeError(RuleReason.SOURCE_NOT_FOUND, missing)


def _spec(informers: InformerFactory, part: Part, share: SourceShare) -> WatchSpec:
    """Few names of a namespace have a watch each; more share one of all its metadata.

    In another cluster each has its own, which needs no right to more than that object.
    """
    entry, resource = part.entry, part.resource
    whole = source_watch(resource, share, entry.namespace, entry.name, entry.selector)
    alone = replace(whole, metadata_only=True, decode=HeaderReader(resource.kind))
    if entry.name is None or part.cluster is not None or alone in informers:
        return alone
    wide, place = replace(alone, name=None), (resource, entry.namespace)
    known = sum((s.resource, s.namespace) == place and bool(s.name) for s in informers.specs())
    return wide if wide in informers or known >= ALONE else alone


def _source_changed(
    context: CopyContext,
    state: RuleState,
    part: Part,
    name: ObjectName,
    _old: SourceHeader | None,
    _new: SourceHeader | None,
) -> None:
    if not part.concerns(name):
        return
    part.changed()
    if part.watch is None or state.compiled is None:  # it is being opened, or not served any more
        return
    owner = state.compiled.rule.owner
    binding = binding_of(context, owner)
    if binding is None or part not in binding.composition.parts:
        return
    composition = binding.composition
    context.index.set_read(owner, composition.sources())
    if composition.is_covered_by(composition.rendered) and state.phase is not RulePhase.FROZEN:
        return  # it was read already
    if state.phase is RulePhase.SERVING:
        state.trace.source_changed(str(name))
        state.lag.change(context.monotonic())
    context.queue.add_after(state.key, TOGETHER)
