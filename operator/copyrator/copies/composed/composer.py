"""Reads the sources of templates, and holds their contents while copies need them.

One reading serves all copies that are rendered and written together: it is dropped a second after
its last use, so a change of a source, or new and deleted copies of one second, take one reading.

The template's binding can render content only while the sources' contents are held. Otherwise what
is kept of a copy is its name, its digest, and the outline that all copies share.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final

import msgspec

from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.keys import ObjectName
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.rule_spec import COMPOSED_BYTES, COMPOSED_OBJECTS
from copyrator.copies.composed.composition import Composition, Part, Reading
from copyrator.copies.context import CopyContext
from copyrator.copies.remotes.clusters import BusyError
from copyrator.copies.rules.state import CompiledRule
from copyrator.copies.rules.trace import RuleTrace, Trigger
from copyrator.copies.sources.bindings import (
    DesiredCopy,
    SourceBinding,
    rule_context,
    target_context,
    unexpected,
)
from copyrator.copies.sources.records import refusal
from copyrator.copies.targets.content import Content, rendered_content
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.targets.ownership import Shape
from copyrator.copies.template.rendering import Composing, Text, Tree, checked_name
from copyrator.copies.template.scope import Entry, TemplateError
from copyrator.kube import errors
from copyrator.workqueue.queue import Done, Failed, Outcome, RequeueAfter

OUTLINES = 16
"""Outlines of one rule that are kept to be shared; equal copies share one."""
BUSY_AGAIN: Final = 1.0
"""Seconds before sources are read again that other reconciles are reading."""
_ALL = ""
"""In place of a namespace, where the copies are the same in all of them."""


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
                    context.requeue_rule(rule)  # to render its other copies, too
                if (place := context.namespaces.get(namespace)) is not None:
                    self.compose(place)
                return await write()
        except ComposeError:
            context.requeue_rule(rule)  # which reports the error in its status
            return Done()
        except (BusyError, NotHeldError):
            return RequeueAfter(BUSY_AGAIN)
        except errors.ApiError as error:
            context.requeue_rule(rule)
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
            desired = DesiredCopy(known.name, content).without_content()
            desired.outline = self._outline_of(content)
            self.composition.note_certificates(content.kind, content.payload)
        except TemplateError as error:
            desired = DesiredCopy(known.name, None, str(error))
        except NotHeldError:
            raise
        except Exception as error:
            desired = DesiredCopy(known.name, None, unexpected(error))
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


READS = 8
"""Concurrent reads of all templates' sources."""
HELD_SECONDS = 1.0
"""Seconds that contents are held after their last use."""
_METADATA = ("name", "namespace", "labels", "annotations", "resourceVersion")
"""What is held of an object's metadata."""
ATTEMPTS = 3
"""Readings in a row while the sources change; the watch triggers another one afterwards."""

_encoder = msgspec.json.Encoder(order="deterministic")


class ComposeError(Exception):
    """The sources can't be used (now); the copies stay as they are."""

    def __init__(self, reason: RuleReason, message: str, *, waits: bool = False) -> None:
        super().__init__(message)
        self.condition = ReadyCondition(Health.RETRYING, reason, message)
        self.waits = waits
        """Whether it may succeed later although no source changes."""


class Composer:
    """Reads and holds sources."""

    def __init__(self, context: CopyContext) -> None:
        self.context = context
        self._reads = asyncio.Semaphore(READS)
        self._timers: dict[Composition, asyncio.TimerHandle] = {}

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
        if timer := self._timers.pop(composition, None):
            timer.cancel()
        try:
            async with composition.lock:
                renewed = await self._refresh(binding)
            yield renewed
        finally:
            composition.users -= 1
            if not composition.users and composition.reading is not None:
                loop = asyncio.get_running_loop()
                timer = loop.call_later(HELD_SECONDS, self.drop, composition)
                self._timers[composition] = timer

    def drop(self, composition: Composition) -> None:
        """Hold the contents no longer."""
        if timer := self._timers.pop(composition, None):
            timer.cancel()
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
        left = [COMPOSED_BYTES]
        found = await asyncio.gather(
            *(self._read_one(part, name, left) for part, name, _ in composition.headers())
        )
        check(composition)  # what was read may be refused
        bodies = dict(filter(None, found))
        entries: dict[str, Entry] = {}
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
