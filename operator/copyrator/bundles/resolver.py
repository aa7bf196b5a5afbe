"""When a registry is polled for a Bundle, and its resolution, from answers that Bundles share.

An exact tag is one question. A range is two: the tag list, from which all Bundles of the repository
choose, then the digest of the chosen tag. A push brings the next poll forward, and has no other
effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, Rejected
from copyrator.api.version_range import ExactTag, VersionError, VersionRange, parse_version
from copyrator.bundles.cache import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.policy import verdicts
from copyrator.bundles.policy.candidates import Choice, Selection, explain
from copyrator.bundles.policy.criteria import criteria_of, deployed_tag
from copyrator.bundles.policy.resolution import DesiredVersion, is_answered
from copyrator.bundles.polls import Answer, Listing, Polls, Question
from copyrator.bundles.references import Access
from copyrator.bundles.status import StatusWriter
from copyrator.oci.errors import NotFound, RegistryError
from copyrator.oci.notifications import Push, canonical
from copyrator.oci.reference import Repository
from copyrator.workqueue.outcome import Priority

SHARING: Final = 1.0
"""Seconds by which an answer may be older than a changed spec: Bundles made together share one
request.
"""
ERROR_SHARING: Final = 5.0
"""The same after a failed poll: less than the shortest retry."""
PATIENCE: Final = 3.0
"""Seconds after which the status reports that a registry hasn't answered."""
SETTLED: Final = 2.0
"""Seconds after which a registry's tag has the pushed digest: distribution sends the notification
before it sets the tag, so that the first answer may be the old one.
"""

_NONE: Final[Mapping[str | None, set[str | None]]] = {}
"""Of a repository that no push names; never changed."""
_GONE: Final = "; the registry no longer has its manifest either, so it can't be deployed again"


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The registry has nothing that fits the spec: the condition's reason and message."""

    reason: BundleReason
    message: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """A tag and its digest, or why there is none: an error, or ``unresolved``."""

    tag: str = ""
    """With ``unresolved`` it is the deployed one, where that can be deployed again; else empty."""
    digest: str = ""
    rejected: tuple[Rejected, ...] = ()
    """The tags that a range rejected."""
    unresolved: Unresolved | None = None
    inherited: bool = False
    """Of the tag that the original operator deployed; no digest where that has changed since."""
    error: RegistryError | None = None


@dataclass(frozen=True, slots=True)
class Resolver:
    """One Bundle's resolution; each answer is as new as ``since`` (monotonic)."""

    entry: BundleEntry
    spec: BundleSpec
    access: Access
    polls: Polls
    since: float

    def resolve(self) -> Resolution | None:
        """The resolution; None while an answer is pending."""
        if self.entry.is_inherited:
            return self._inherited()
        version = parse_version(self.spec.version)
        if isinstance(version, ExactTag):
            return self._tag(version.tag)
        return self._range(version)

    def _tag(self, tag: str) -> Resolution | None:
        answer = self._ask(tag)
        if answer is None:
            return None
        if isinstance(answer.error, NotFound):
            keeps = deployed_tag(self.entry.status, self.spec.reference) == tag
            return self._nothing(
                Unresolved(BundleReason.TAG_NOT_FOUND, answer.error.message), (), keeps
            )
        return Resolution(tag, answer.digest or "", error=answer.error)

    def _range(self, version: VersionRange) -> Resolution | None:
        criteria = criteria_of(self.spec, version, self.entry.status)
        listing = Listing(self._repository, self.access.credential)
        found = self.polls.choose(self.entry.key, listing, criteria, self.since)
        if found is None:
            return None
        if found.error is not None:
            return Resolution(error=found.error)
        choice = found.choices[criteria]
        if choice.tag is None:
            return self._nothing(self._explain(choice), choice.rejected, choice.keeps)
        answer = self._ask(choice.tag)
        if answer is None:
            return None
        return Resolution(choice.tag, answer.digest or "", choice.rejected, error=answer.error)

    def _nothing(
        self, unresolved: Unresolved, rejected: tuple[Rejected, ...], keeps: bool
    ) -> Resolution | None:
        """What is deployed still fits the spec, and is requested by its digest."""
        there = self.entry.status.deployed
        if not keeps or there.digest is None:
            return Resolution(rejected=rejected, unresolved=unresolved)
        answer = self._ask(there.digest)
        if answer is None:
            return None
        if isinstance(answer.error, NotFound):
            unresolved = replace(unresolved, message=unresolved.message + _GONE)
            return Resolution(rejected=rejected, unresolved=unresolved)
        return Resolution(
            there.version or "", there.digest, rejected, unresolved, error=answer.error
        )

    def _explain(self, choice: Choice) -> Unresolved:
        reason = BundleReason.NO_MATCHING_VERSION
        if choice.verdict is Selection.WOULD_DOWNGRADE:
            reason = BundleReason.WOULD_DOWNGRADE
        deployed = self.entry.status.deployed.version
        return Unresolved(reason, explain(choice, self.spec.version, deployed))

    def _inherited(self) -> Resolution | None:
        there = self.entry.status.deploy
        answer = self._ask(there.version or "", with_config=True)
        if answer is None:
            return None
        if answer.error is not None and not isinstance(answer.error, NotFound):
            return Resolution(error=answer.error)
        same = answer.config is not None and answer.config == there.digest
        digest = answer.digest if same else None
        return Resolution(there.version or "", digest or "", inherited=True)

    def _ask(self, reference: str, *, with_config: bool = False) -> Answer | None:
        question = Question(self._repository, reference, self.access.credential, with_config)
        return self.polls.ask(self.entry.key, question, self.since)

    @property
    def _repository(self) -> Repository:
        spec = self.spec
        return Repository(
            spec.registry, spec.repo, spec.insecure, not spec.skip_tls_verify, self.access.ca
        )


class Resolutions:
    """Polls registries for Bundles, and requeues the Bundles when there is an answer."""

    def __init__(self, context: Context, writer: StatusWriter, polls: Polls) -> None:
        self._context = context
        self._writer = writer
        self._polls = polls

    async def ask(
        self, entry: BundleEntry, spec: BundleSpec, access: Access, desired: DesiredVersion
    ) -> Resolution | None:
        """The resolution if one is due and known; else the Bundle is requeued in time."""
        if not self._is_wanted(entry, spec, desired):
            return None
        since = self._context.memory(entry.key).asked_since or 0.0
        resolution = Resolver(entry, spec, access, self._polls, since).resolve()
        if resolution is None:
            await self._mention_silence(entry, spec)
        return resolution

    def taken(self, entry: BundleEntry, asked_since: float | None) -> None:
        """The answer to what was due since then has been handled."""
        memory = self._context.memory(entry.key)
        if memory.asked_since == asked_since:  # else a push arrived meanwhile
            memory.asked_since = None
        if memory.again is not None:
            self._context.wake_at(entry.key, memory.next_poll, self._context.again_at(entry.key))

    def _is_wanted(self, entry: BundleEntry, spec: BundleSpec, desired: DesiredVersion) -> bool:
        now, monotonic = self._context.clock(), self._context.monotonic()
        memory = self._context.memory(entry.key)
        if memory.desired is None and is_answered(entry.status, desired):
            memory.desired = desired
            memory.next_poll = self._context.slot(entry, spec).after(now)
        is_newer = desired.request not in ("", memory.asked_for)  # than the poll in flight
        if memory.asked_since is not None and not is_newer:
            return True
        slot, retry = self._slot(entry), entry.retry_at
        if memory.desired != desired:
            strict = bool(desired.request)
            memory.asked_for = desired.request
            memory.asked_since = monotonic - (0.0 if strict else SHARING)
        elif memory.again is not None and monotonic >= memory.again:
            memory.asked_since, memory.again = memory.again, None
        elif _is_past(slot, now) or _is_past(retry, now):
            age = spec.interval / 2
            memory.asked_since = monotonic - (
                min(age, ERROR_SHARING) if memory.poll_failures else age
            )
        else:
            self._context.wake_at(entry.key, slot, retry, self._context.again_at(entry.key))
            return False
        memory.asked_at = now
        return True

    def _slot(self, entry: BundleEntry) -> datetime | None:
        """The next regular poll: its slot, but not while the Bundle is being edited."""
        memory = self._context.memory(entry.key)
        if memory.next_poll is None or memory.changed_at is None:
            return memory.next_poll
        idle = timedelta(seconds=self._context.settings.timer_idle)
        return max(memory.next_poll, memory.changed_at + idle)

    async def _mention_silence(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Report in the status of a new spec that the registry hasn't answered yet."""
        if entry.observed_generation == entry.generation:
            return
        now = self._context.clock()
        asked_at = self._context.memory(entry.key).asked_at or now
        patience = asked_at + timedelta(seconds=PATIENCE)
        if now < patience:
            self._context.wake_at(entry.key, patience)
            return
        verdict = verdicts.polling(spec.reference, spec.version)
        await self._writer.write(entry, entry.status, verdict, decided=False)


def _is_past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and now >= moment


def bring_forward(context: Context, pushes: Sequence[Push]) -> int:
    """Require an answer newer than this moment for every Bundle that a push may concern.

    One pass over all Bundles, however many pushes a payload names; returns how many are polled.
    """
    pushed: dict[str, dict[str | None, set[str | None]]] = {}
    for push in pushes:
        pushed.setdefault(push.repository, {}).setdefault(push.registry, set()).add(push.tag)
    count, now = 0, context.monotonic()  # the same for all, so that they share their questions
    for entry in context.bundles if pushed else ():
        spec = entry.spec
        if not isinstance(spec, BundleSpec) or entry.is_paused or entry.deleting:
            continue
        registries = pushed.get(spec.repo.lower(), _NONE)
        tags = registries.get(None, set()) | registries.get(canonical(spec.registry), set())
        if tags and _may_concern(tags, spec):
            memory = context.memory(entry.key)
            memory.asked_since, memory.again, memory.asked_at = now, now + SETTLED, context.clock()
            context.queue.add(entry.key, Priority.URGENT)
            count += 1
    return count


def _may_concern(tags: set[str | None], spec: BundleSpec) -> bool:
    """Whether one of the tags, of which None is any, may fit the Bundle's spec."""
    if None in tags:
        return True
    try:
        version = parse_version(spec.version)
    except VersionError:
        return False
    return not isinstance(version, ExactTag) or version.tag in tags
