"""Watches the ConfigMaps with greetings, and has Jobs deploy what they say."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from tests.toy_feature.greeting.fields import (
    ANN_GREET,
    GREETED,
    GreetingSpec,
    GreetingStatus,
)
from tests.toy_feature.greeting.gates import GATES, LINK, WELCOME, WORDS, Opinion, Words
from tests.toy_feature.greeting.metrics import GreetingMetrics
from tests.toy_feature.greeting.reasons import GreetingReason
from tests.toy_feature.greeting.settings import GreetingSettings

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted, BundleStatus, Outcome
from copyrator.api.conditions import (
    ConditionStatus,
    ConditionType,
    FurtherCondition,
    Health,
    NewConditions,
    ReadyCondition,
)
from copyrator.api.keys import BundleKey, ObjectName
from copyrator.api.object_refs import ValuesKind
from copyrator.api.reasons import AnyReason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.deciding import Correction, Proposal
from copyrator.bundles.engine.feature import (
    Conclusion,
    Content,
    Feature,
    JobPendingError,
    Observed,
    P,
    Parts,
    Rechecked,
    Registry,
)
from copyrator.bundles.engine.gate import PASSED, Candidate, Findings, Occasion, Refused, Waiting
from copyrator.bundles.engine.job_client import JobClient
from copyrator.bundles.engine.links import Named
from copyrator.bundles.engine.references import MissingReferenceError, TargetAccess
from copyrator.bundles.engine.sealed import SealKind, seal_labels
from copyrator.bundles.engine.step import AT_ONCE, Change, Step
from copyrator.bundles.jobs.identity import ValuesFiles
from copyrator.bundles.jobs.job import DeployOrder, UninstallOrder
from copyrator.bundles.jobs.outcome import Blocked, Ending, Excuse, JobRecord, has_started
from copyrator.bundles.jobs.pod import Kept
from copyrator.kube.errors import NotFound
from copyrator.kube.resources import CONFIGMAPS, JOBS, SECRETS
from copyrator.kube.watch.informers import Registration
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.oci.auth import Credential

GREETING: Final = "greeting"
"""What its Secrets and Jobs are named by."""


@dataclass(frozen=True, slots=True)
class Book:
    """A ConfigMap with greetings, as its watch caches it."""

    key: str
    """resourceVersion."""
    words: str = ""
    unwelcome: tuple[str, ...] = ()
    is_closed: bool = False


def read_book(body: Mapping[str, Any]) -> Book:
    """Decode one; a module's function, so that equal watches are shared."""
    data = body.get("data") or {}
    unwelcome = tuple(data.get("unwelcome", "").split())
    version = str(body["metadata"].get("resourceVersion", ""))
    return Book(version, data.get("words", ""), unwelcome, is_closed="closed" in data)


@dataclass(frozen=True, slots=True)
class Reception:
    """What became of a greeting."""

    is_heard: bool


@dataclass(slots=True)
class GreetingMemory:
    """What is watched for a Bundle, and what its Job was given."""

    name: str = ""
    watch: Registration | None = None
    has_left: bool = False
    has_asked: bool = False
    values_hash: str | None = None
    card: str | None = None
    """The words that are printed for the next Job."""
    job: str = ""
    given: tuple[bytes, ...] = ()
    """All that the Secret of this Job has had, the present content last."""


class GreetingFeature(Feature):
    """The greetings of all Bundles with ``spec.greeting``."""

    spec = GreetingSpec
    status = GreetingStatus
    annotation = ANN_GREET
    outlasts = True  # to say farewell
    memory = GreetingMemory
    writes_secrets = True
    named: Named
    gates = GATES
    precedes_deletions = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.named = Named(LINK)
        self._name = context.settings.of(GreetingSettings).greeting_house
        self._house: Registration | None = None
        self._attended: set[BundleKey] = set()

    # --- the process ------------------------------------------------------------------------------

    def connect(self, parts: Parts) -> None:
        """Take the client of Jobs."""
        self._jobs = parts.of(JobClient)

    def start(self) -> None:
        """Watch the words of the house."""
        spec = WatchSpec(
            resource=CONFIGMAPS,
            namespace=self.context.settings.namespace,
            name=self._name,
            decode=read_book,
        )
        self._house = self.context.informers.acquire(spec, self._on_house)

    async def stop(self) -> None:
        """End all watches."""
        memories = [one for _, one in self.context.memories.each(GreetingMemory)]
        for watch in (self._house, *(one.watch for one in memories)):
            if watch is not None:
                watch.release()

    @property
    def is_ready(self) -> bool:
        """Whether the words of the house are known, or that there are none."""
        return self._house is not None and self._house.synced

    @property
    def checks(self) -> Mapping[str, Callable[[], str | None]]:
        """Whether the house has words."""
        silent = f"ConfigMap {self._name} is silent"
        return {GREETING: lambda: None if self._words_of_house() else silent}

    def publish(self) -> None:
        """Count the Bundles that greet."""
        own = self.context.metrics.of(GreetingMetrics)
        found = (one.status.part(GreetingStatus).digest for one in self.context.bundles)
        own.greeting.set(sum(one is not None for one in found))
        own.attended.set(len(self._attended))

    def wakes(
        self, before: BundleEntry | None, after: BundleEntry | None
    ) -> Iterator[tuple[BundleKey, Change]]:
        """The Bundles that greet after the changed one, once it greets."""
        self.named.update(before, after)
        was, now = (_digest(before), _digest(after))
        entry = after or before
        if entry is not None and (was is None) != (now is None):
            for key in self.named.by(entry.key):
                yield key, Change.GATE

    # --- a reconcile ------------------------------------------------------------------------------

    @contextmanager
    def reconciling(self, key: BundleKey) -> Iterator[None]:
        """Know who is looked after now."""
        self._attended.add(key)
        try:
            yield
        finally:
            self._attended.discard(key)

    def due(self, key: BundleKey) -> datetime | None:
        """A closed house is asked again."""
        book = self._find_book(key)
        is_closed = book is not None and book.is_closed
        return self.context.clock() + timedelta(seconds=30) if is_closed else None

    async def admit(self, entry: BundleEntry) -> tuple[Step, ReadyCondition | None]:
        """A house that is closed takes no release of another namespace."""
        book = self._find_book(entry.key)
        if entry.namespace_elsewhere is None or book is None or not book.is_closed:
            return Step(entry), None
        text = f"{entry.namespace_elsewhere} is closed to Bundles of other namespaces"
        return Step(entry), ReadyCondition(Health.RETRYING, GreetingReason.CLOSED, text)

    def follow(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Watch the ConfigMap."""
        memory, name = self._memory(entry.key), spec.part(GreetingSpec).config_map
        if memory.name == name:
            return
        self.leave(entry.key)
        memory.name = name
        watch = WatchSpec(
            resource=CONFIGMAPS, namespace=entry.key.namespace, name=name, decode=read_book
        )
        listed = partial(self.context.schedule.changed, entry.key, Change.WATCHED)
        memory.watch = self.context.informers.acquire(
            watch, partial(self._on_book, entry.key), on_synced=listed
        )

    def leave(self, key: BundleKey) -> None:
        """End the watch."""
        memory = self._memory(key)
        if memory.watch is not None:
            memory.watch.release()
            memory.watch = None

    def keep(self, entry: BundleEntry) -> Step:
        """Forget what was asked for once the annotation is gone."""
        status = entry.status.part(GreetingStatus)
        if status.asked is None or ANN_GREET in entry.annotations:
            return Step(entry)
        return Step(entry, entry.status.with_part(structs.replace(status, asked=None)))

    def retry(self, entry: BundleEntry) -> None:
        """Print anew: values of the Job have changed, too."""
        self._memory(entry.key).card = None

    def tend(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Say farewell, once."""
        memory = self._memory(entry.key)
        if entry.deleting and not memory.has_left:
            memory.has_left = True
            self.context.emit(entry, GreetingReason.FAREWELL, f"{spec.release} leaves")
        return Step(entry)

    def begin(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Take a new value of the annotation."""
        status, value = entry.status.part(GreetingStatus), entry.annotations.get(ANN_GREET)
        if value is None or value == status.asked:
            return Step(entry)
        status = structs.replace(status, asked=value)
        return Step(entry, entry.status.with_part(status), due=(AT_ONCE,))

    async def locate(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        take: Callable[[Step], Awaitable[BundleEntry]],
    ) -> tuple[BundleEntry, BundleSpec]:
        """Nothing is deployed without the ConfigMap."""
        watch, name = self._memory(entry.key).watch, spec.part(GreetingSpec).config_map
        if watch is not None and watch.synced and self._find_book(entry.key) is None:
            text = f"ConfigMap {entry.key.namespace}/{name} of spec.greeting doesn't exist"
            raise MissingReferenceError(f"{text}; create it", BundleReason.VALUES_MISSING)
        return entry, spec

    async def target(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:
        """The operator's own cluster."""
        return TargetAccess(spec)

    def review(self, entry: BundleEntry) -> Step:
        """Record at once that the house is closed, or open again."""
        status = self.refresh(entry, entry.status)
        return Step(entry, status) if status.conditions else Step(entry)  # else Ready comes first

    async def advance(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Delete Jobs of its own that have failed."""
        for job in self._printers(entry):
            if job.failed is not None:
                await self.context.client.delete(JOBS, job.namespace, job.name)
        return Step(entry)

    async def observe(self, entry: BundleEntry, spec: BundleSpec) -> Observed:
        """How many greetings its Jobs have printed."""
        part = entry.status.part(GreetingStatus)
        printed = sum(job.complete for job in self._printers(entry)) or None
        if part.printed == printed:
            return Observed()
        return Observed(entry.status.with_part(structs.replace(part, printed=printed)))

    def undecided(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, missing: str | None
    ) -> BundleStatus:
        """It isn't known whether the version is welcome."""
        return status.with_part(structs.replace(status.part(GreetingStatus), welcome=None))

    async def read(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        found: Findings,
    ) -> Book | None:
        """The ConfigMap, by its resourceVersion."""
        return self._find_book(entry.key)

    async def check(self, entry: BundleEntry, spec: BundleSpec, values_hash: str | None) -> Step:
        """Print anew where the values have changed."""
        memory = self._memory(entry.key)
        if memory.values_hash != values_hash:
            memory.values_hash, memory.card = values_hash, None
        return Step(entry)

    def request(self, entry: BundleEntry, status: BundleStatus) -> str:
        """What the annotation asks for."""
        return status.part(GreetingStatus).open_request

    def awaits_answer(self, entry: BundleEntry) -> bool:
        """No step before the poll waits for an answer."""
        return False

    def awaits(self, status: BundleStatus) -> Candidate | None:
        """Who is asked to greet again is judged."""
        there = status.deployed
        if not there.digest or not status.part(GreetingStatus).open_request:
            return None
        return Candidate(there.version or "", there.digest)

    def corrects(self, spec: BundleSpec) -> bool:
        """Whoever is deployed may have to greet again."""
        return True

    def ask(
        self,
        registry: Registry,
        candidate: Candidate,
        occasion: Occasion,
        found: Findings,
    ) -> Opinion | None:
        """Whether a version is welcome."""
        book = found.of(Book)
        return None if book is None else Opinion(candidate.version not in book.unwelcome)

    def recheck(
        self,
        registry: Registry,
        digest: str,
        awaited: str,
        found: Findings,
    ) -> Rechecked | None:
        """Whether what is deployed is still welcome."""
        if (book := found.of(Book)) is None:
            return None
        is_welcome = registry.entry.status.deployed.version not in book.unwelcome
        refused = Refused(GreetingReason.UNWELCOME, "it is unwelcome by now")
        status = GreetingStatus(judged=book.key, welcome=is_welcome)
        return Rechecked(WELCOME.name, PASSED if is_welcome else refused, status)

    def judged(self, status: BundleStatus, findings: Findings, *, begins: bool) -> BundleStatus:
        """The verdict; what is deployed now was welcome."""
        if (found := findings.of(GreetingStatus)) is None:
            return status
        is_welcome = begins or found.welcome
        part = status.part(GreetingStatus)
        return status.with_part(structs.replace(part, judged=found.judged, welcome=is_welcome))

    def is_judged(self, status: BundleStatus, read: Findings) -> bool:
        """Whether the verdict is by the present ConfigMap."""
        book = read.of(Book)
        return book is None or status.part(GreetingStatus).judged == book.key

    def find(self, spec: BundleSpec) -> Words:
        """The words, and who has to greet before."""
        key = BundleKey(spec.namespace, spec.name)
        after = spec.part(GreetingSpec).after
        awaited = tuple(one for one in after if _digest(self.context.bundles.get(one)) is None)
        return Words(self._words(key), awaited)

    def wants(self, entry: BundleEntry, spec: BundleSpec) -> object:
        """What was asked for."""
        return entry.status.part(GreetingStatus).asked

    # --- the decision -----------------------------------------------------------------------------

    def propose(self, proposal: P) -> P:
        """An answer to an older annotation is none."""
        part = proposal.status.part(GreetingStatus)
        if part.asked is not None or part.answered is None:
            return proposal
        status = proposal.status.with_part(structs.replace(part, answered=None))
        return replace(proposal, status=status)

    def correct(self, proposal: Proposal, *, is_held: bool) -> Correction | None:
        """Who is deployed greets again."""
        is_asked = self.awaits(proposal.status) is not None
        return Correction(proposal.findings) if is_asked and not is_held else None

    def awaits_moment(self, entry: BundleEntry) -> bool:
        """The same, once the gates let it."""
        return self.awaits(entry.status) is not None

    async def precede(
        self,
        proposal: Proposal,
        verdict: ReadyCondition,
        find_account: Callable[[], Awaitable[Step | None]],
    ) -> Step | None:
        """Ask once for words, where the gate waits for them."""
        memory = self._memory(proposal.entry.key)
        is_speechless = any(
            isinstance(one.verdict, Waiting) and one.gate == WORDS.name for one in proposal.results
        )
        if is_speechless and not memory.has_asked:
            self.context.emit(proposal.entry, GreetingReason.SPEECHLESS, "write `words`, please")
        memory.has_asked = is_speechless
        return None

    def begun(self, proposal: Proposal, *, is_correction: bool) -> BundleStatus:
        """Every deploy answers what was asked for."""
        part = proposal.status.part(GreetingStatus)
        return proposal.status.with_part(structs.replace(part, answered=part.asked))

    async def tidy(self, before: BundleEntry, written: BundleEntry) -> None:
        """Delete the Secret of the former Job."""
        former, job = before.status.attempted.job, written.status.attempted.job
        if former is not None and former != job:
            with suppress(NotFound):
                await self.context.client.delete(SECRETS, written.key.namespace, _secret(former))

    def stops(self, entry: BundleEntry, spec: BundleSpec) -> BundleReason | None:
        """No Job begins while the house is closed."""
        book = self._find_book(entry.key)
        return BundleReason.FROZEN if book is not None and book.is_closed else None

    # --- a Job ------------------------------------------------------------------------------------

    def credential(self, spec: BundleSpec) -> Credential | None:
        """Registries let guests in."""
        return Credential(username="guest")

    async def prepare(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Have the words printed, which takes until the next reconcile."""
        memory, words = self._memory(entry.key), self._words(entry.key)
        if memory.card != words:
            memory.card = words
            self.context.schedule.changed(entry.key, Change.PREPARED)
            raise JobPendingError

    async def attempt(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        """The Job is to print a greeting."""
        part = structs.replace(status.part(GreetingStatus), serving=True)
        return status.with_part(part)

    async def shape(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        order: DeployOrder,
        job: str,
    ) -> DeployOrder:
        """Write the words into a Secret, which the Job has as a values file."""
        memory, content = self._memory(entry.key), _values(self._words(entry.key))
        memory.job, memory.given = job, (content,)
        labels = seal_labels(entry.key.name, job, SealKind.VALUES)
        metadata = {"name": _secret(job), "labels": labels}
        body = {"metadata": metadata, "data": _encoded(content)}
        await self.context.client.create(SECRETS, entry.key.namespace, body)
        file = ValuesFiles(ValuesKind.SECRET, _secret(job), (GREETING,))
        return replace(order, values=(*order.values, file))

    async def attend(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: JobRecord,
    ) -> None:
        """Keep the words up to date while nobody has read them."""
        memory, content = self._memory(entry.key), _values(self._words(entry.key))
        if memory.job != job.name or memory.given[-1:] == (content,):
            return
        if has_started(await self._jobs.output.pods(job)):
            return
        memory.given += (content,)
        body = {"data": _encoded(content)}
        await self.context.client.patch(SECRETS, job.namespace, _secret(job.name), body)

    def hinders(self, key: BundleKey, job: JobRecord) -> Blocked | None:
        """A Job without words doesn't greet."""
        if self._words(key) or job.started:
            return None
        return Blocked(BundleReason.VALUES_MISSING, "there are no words any more")

    async def conclude(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: JobRecord,
        pods: list[dict[str, Any]],
        ending: Ending,
    ) -> Conclusion:
        """Whether the greeting was heard."""
        return Conclusion(ending, Reception(has_started(pods)))

    async def blame(
        self, entry: BundleEntry, spec: BundleSpec, ending: Ending, error: str
    ) -> Ending | None:
        """Who shouts has to try again."""
        if "shouted" not in error:
            return None
        return replace(ending, outcome=Outcome.INTERRUPTED, message="it shouted at its guests")

    def finish(
        self, entry: BundleEntry, status: BundleStatus, ending: Ending, found: Findings
    ) -> BundleStatus:
        """Whether it was heard is recorded."""
        reception = found.of(Reception)
        heard = None if reception is None else reception.is_heard
        part = structs.replace(status.part(GreetingStatus), serving=None, heard=heard)
        return status.with_part(part)

    def has_copies(self, spec: BundleSpec, attempted: Attempted) -> bool:
        """The words, if it had a Job."""
        return attempted.job is not None

    def keeps(self, entry: BundleEntry, job: JobRecord) -> Kept | None:
        """What was printed is read for a minute."""
        return Kept(60) if job in self._printers(entry) else None

    def spares(self, entry: BundleEntry) -> str | None:
        """None: no more is printed."""
        return None

    async def uninstall(
        self, entry: BundleEntry, spec: BundleSpec, order: UninstallOrder
    ) -> UninstallOrder:
        """The last words are printed first."""
        return replace(order, before=f"{order.before}echo farewell\n")

    async def release(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Delete the words."""
        with suppress(NotFound):
            name = _secret(entry.status.attempted.job or "")
            await self.context.client.delete(SECRETS, entry.key.namespace, name)

    def excuse(
        self,
        key: BundleKey,
        job: JobRecord,
        error: str,
        *,
        is_refused: bool,
    ) -> Excuse | None:
        """Who failed has greeted before."""
        return Excuse("; guests were greeted") if self._is_given(key, job) else None

    def secrets(self, key: BundleKey, job: JobRecord) -> Mapping[str, Sequence[bytes]]:
        """All words of the Job's Secret."""
        given = self._memory(key).given
        return {_secret(job.name): given} if self._is_given(key, job) else {}

    async def content(self, entry: BundleEntry, spec: BundleSpec, digest: str) -> Content:
        """Everybody may read the words."""
        book = self._find_book(entry.key)
        return Content((), (book.words,) if book is not None else ())

    def needed_jobs(self, status: BundleStatus) -> Iterable[str | None]:
        """The one that runs."""
        return [status.attempted.job] if status.attempted.is_running else []

    # --- a write of the status --------------------------------------------------------------------

    def derive(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """Who is deployed greets."""
        part = structs.replace(status.part(GreetingStatus), digest=status.deployed.digest)
        return status.with_part(part)

    def conditions(self, entry: BundleEntry, status: BundleStatus) -> NewConditions:
        """Whether guests are greeted."""
        text, kind = self._words(entry.key), ConditionStatus.FALSE
        if not text or status.deployed.digest is None:
            found = FurtherCondition(kind, GreetingReason.SPEECHLESS, "nobody is greeted")
        else:
            found = FurtherCondition(ConditionStatus.TRUE, GreetingReason.GREETED, text)
        return {GREETED: found}

    def refresh(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """Whether the house is closed."""
        book = self._find_book(entry.key)
        is_closed = True if book is not None and book.is_closed else None
        return status.with_part(structs.replace(status.part(GreetingStatus), closed=is_closed))

    def is_told(
        self,
        condition: ConditionType,
        reason: AnyReason,
        before: BundleStatus,
        status: BundleStatus,
    ) -> bool:
        """By ``precede``."""
        return reason == GreetingReason.SPEECHLESS

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit an Event where another digest greets."""
        if _digest(before) != (found := _digest(written)) and found is not None:
            self.context.emit(written, GreetingReason.GREETED, self._words(written.key))

    # ----------------------------------------------------------------------------------------------

    def _printers(self, entry: BundleEntry) -> list[JobRecord]:
        """The Jobs of its own."""
        jobs = self._jobs.of(entry.key, entry.uid)
        return [job for job in jobs if job.name.endswith(f"-{GREETING}")]

    def _memory(self, key: BundleKey) -> GreetingMemory:
        return self.context.memories.of(key, GreetingMemory)

    def _find_book(self, key: BundleKey) -> Book | None:
        memory = self.context.memories.find(key, GreetingMemory)
        if memory is None or memory.watch is None:
            return None
        found: Book | None = memory.watch.store.get(ObjectName(key.namespace, memory.name))
        return found

    def _words_of_house(self) -> str:
        found = list(self._house.store.values()) if self._house is not None else []
        return found[0].words if found else ""

    def _words(self, key: BundleKey) -> str:
        book = self._find_book(key)
        return (book.words if book is not None else "") or self._words_of_house()

    def _is_given(self, key: BundleKey, job: JobRecord) -> bool:
        memory = self.context.memories.find(key, GreetingMemory)
        return memory is not None and memory.job == job.name

    def _on_book(
        self, key: BundleKey, _name: ObjectName, old: Book | None, new: Book | None
    ) -> None:
        if old != new:
            self.context.schedule.changed(key, Change.GATE)

    def _on_house(self, _name: ObjectName, _old: Book | None, _new: Book | None) -> None:
        for key, _ in self.context.memories.each(GreetingMemory):
            self.context.schedule.changed(key, Change.GATE)


def _digest(entry: BundleEntry | None) -> str | None:
    return None if entry is None else entry.status.part(GreetingStatus).digest


def _secret(job: str) -> str:
    return f"{job}-{GREETING}"


def _values(words: str) -> bytes:
    return f"greeting: {words}\n".encode()


def _encoded(content: bytes) -> dict[str, str]:
    return {GREETING: base64.b64encode(content).decode()}


FEATURE = GreetingFeature
