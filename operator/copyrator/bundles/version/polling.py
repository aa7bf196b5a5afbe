"""When a registry is polled for a Bundle.

A push notification brings the next poll forward; it has no other effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus
from copyrator.api.version_range import ExactTag, VersionError, parse_version
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.deploy import ready_conditions
from copyrator.bundles.gates import signature
from copyrator.bundles.gates.catalog import VENDORED
from copyrator.bundles.gates.gate import Waiting
from copyrator.bundles.gates.signature import Asked
from copyrator.bundles.inputs import relations
from copyrator.bundles.inputs.reader import Access
from copyrator.bundles.plan.record import next_check
from copyrator.bundles.schedule import Change
from copyrator.bundles.status import StatusWriter
from copyrator.bundles.version.answer import DesiredVersion, is_answered, retry_at
from copyrator.bundles.version.polls import RegistryPoller
from copyrator.bundles.version.resolve import Judge, RegistryReader, Resolution, Resolver
from copyrator.bundles.version.rhythm import poll_retry
from copyrator.oci.notifications import Push, canonical

SHARING: Final = 1.0
"""Seconds by which an answer may be older than a changed spec, so that Bundles that are created
together share one request.
"""

_NONE: Final[Mapping[str | None, set[str | None]]] = {}
"""The tags of a repository that no push names; never changed."""


class VersionPoller:
    """Polls registries for Bundles, and requeues the Bundles when the answer arrives."""

    def __init__(self, context: Context, writer: StatusWriter, polls: RegistryPoller) -> None:
        self._context = context
        self._writer = writer
        self._polls = polls

    async def ask(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        access: Access,
        desired: DesiredVersion,
        asked: Asked,
    ) -> Resolution | None:
        """The resolution if a poll is due and answered; else None, and the Bundle is requeued."""
        if not self._is_wanted(entry, spec, desired):
            return None
        since = self._context.memory(entry.key).poll.asked_since or 0.0
        context = self._context
        queries = RegistryReader(entry, spec, access, self._polls, since)
        judge = Judge(
            queries,
            context.gates,
            context.clock(),
            asked,
            relations.sources(context.bundles, spec, context.seen()),
            desired.values_hash,
        )
        resolution = Resolver(queries, judge).resolve()
        if resolution is None:
            await self._report_unanswered(entry, spec)
        return resolution

    def mark_handled(self, entry: BundleEntry, asked_since: float | None) -> None:
        """Record that the answer to the poll that was due since then was handled."""
        memory = self._context.memory(entry.key)
        if memory.poll.asked_since == asked_since:  # else a push arrived since
            memory.poll.asked_since = None
        if memory.poll.again is not None:
            self._context.schedule.requeue_at(
                entry.key, memory.poll.next_poll, self._context.again_at(entry.key)
            )

    def set_next_poll(
        self, entry: BundleEntry, spec: BundleSpec, resolution: Resolution, now: datetime
    ) -> None:
        """Set the next poll to its regular time; sooner where a tag or signature is awaited."""
        memory, rhythm = self._context.memory(entry.key), self._context.poll_rhythm(entry, spec)
        first = self._context.timing.poll_retry
        if (
            resolution.unresolved is not None
            and resolution.unresolved.reason is BundleReason.TAG_NOT_FOUND
        ):
            memory.poll.failures += 1
            memory.poll.next_poll = poll_retry(rhythm, memory.poll.failures, now, first=first)
        else:
            memory.poll.failures, memory.poll.next_poll = 0, rhythm.after(now)
            memory.poll.unsigned = memory.poll.unsigned + 1 if _awaits_registry(resolution) else 0
            if memory.poll.unsigned:
                memory.poll.next_poll = poll_retry(rhythm, memory.poll.unsigned, now, first=first)

    def _is_wanted(self, entry: BundleEntry, spec: BundleSpec, desired: DesiredVersion) -> bool:
        now, monotonic = self._context.clock(), self._context.monotonic()
        memory = self._context.memory(entry.key)
        if memory.poll.desired is None and is_answered(entry.status, desired):
            memory.poll.desired = desired
            memory.poll.next_poll = self._context.poll_rhythm(entry, spec).after(now)
        is_newer = desired.request not in ("", memory.poll.asked_for)  # than the poll in flight
        if memory.poll.asked_since is not None and not is_newer:
            return True
        regular, retry = self._regular_poll(entry), retry_at(entry.status)
        if memory.poll.desired != desired:
            strict = bool(desired.request)
            memory.poll.asked_for = desired.request
            memory.poll.asked_since = monotonic - (0.0 if strict else SHARING)
        elif memory.poll.again is not None and monotonic >= memory.poll.again:
            memory.poll.asked_since, memory.poll.again = memory.poll.again, None
        elif (
            _is_past(regular, now)
            or _is_past(retry, now)
            or self._is_judged_again(entry, spec, now)
        ):
            may_be = spec.interval / 2
            if memory.poll.failures:
                may_be = min(may_be, self._context.timing.poll_error_sharing)
            memory.poll.asked_since = monotonic - may_be
        else:
            again = self._context.again_at(entry.key)
            changes_at = self.next_change(spec, entry.status, now)
            judge_at = (
                None if _is_judged(entry, memory.poll.judged_at) else next_check(entry.status)
            )
            self._context.schedule.requeue_at(
                entry.key, regular, retry, judge_at, again, changes_at
            )
            return False
        memory.poll.asked_at = now
        return True

    def _is_judged_again(self, entry: BundleEntry, spec: BundleSpec, now: datetime) -> bool:
        """Whether a gate's verdict has changed by the time alone since the last evaluation."""
        at, last = next_check(entry.status), self._context.memory(entry.key).poll.judged_at
        past = [one for one in self._changes(spec, entry.status) if one <= now]
        if any(last is None or one > last for one in past):
            return True
        return _is_past(at, now) and not _is_judged(entry, last)

    def next_change(self, spec: BundleSpec, status: BundleStatus, now: datetime) -> datetime | None:
        """When the verdict of a version gate changes next by itself; None where none does."""
        return min((at for at in self._changes(spec, status) if at > now), default=None)

    def _changes(self, spec: BundleSpec, status: BundleStatus) -> tuple[datetime, ...]:
        context = self._context
        sources = relations.sources(context.bundles, spec, context.seen())
        return context.gates.changes(spec, status, sources)

    def _regular_poll(self, entry: BundleEntry) -> datetime | None:
        """The time of the next regular poll; later while the Bundle is being edited."""
        memory = self._context.memory(entry.key)
        if memory.poll.next_poll is None or memory.poll.changed_at is None:
            return memory.poll.next_poll
        idle = timedelta(seconds=self._context.settings.timer_idle)
        return max(memory.poll.next_poll, memory.poll.changed_at + idle)

    async def _report_unanswered(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Report in the status of a new spec that the registry hasn't answered yet."""
        if entry.status.observed_generation == entry.generation:
            return
        now = self._context.clock()
        asked_at = self._context.memory(entry.key).poll.asked_at or now
        patience = asked_at + timedelta(seconds=self._context.timing.poll_report)
        if now < patience:
            self._context.schedule.requeue_at(entry.key, patience)
            return
        verdict = ready_conditions.polling(spec.reference, spec.version)
        await self._writer.write(entry, entry.status, verdict, decided=False)


def _awaits_registry(resolution: Resolution) -> bool:
    """Whether a version isn't deployed because of its signatures, or its chart can't be read."""
    held = resolution.held
    return held is not None and any(
        (one.gate == signature.GATE.name and one.objects)
        or (one.gate == VENDORED.name and isinstance(one.verdict, Waiting))
        for one in held.results
    )


def _is_judged(entry: BundleEntry, last: datetime | None) -> bool:
    """Whether the gates have been evaluated since the time for which the status asks for it."""
    at = next_check(entry.status)
    return last is not None and at is not None and at <= last


def _is_past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and now >= moment


def bring_forward(context: Context, pushes: Sequence[Push]) -> int:
    """Poll at once for every Bundle that a push may concern; returns their number.

    Answers to earlier requests aren't accepted. It takes one pass over all Bundles, however many
    pushes a payload has.
    """
    pushed: dict[str, dict[str | None, set[str | None]]] = {}
    for push in pushes:
        pushed.setdefault(push.repository, {}).setdefault(push.registry, set()).add(push.tag)
    count, now = 0, context.monotonic()  # one time for all, so that they share their queries
    for entry in context.bundles if pushed else ():
        spec = entry.spec
        if not isinstance(spec, BundleSpec) or entry.is_paused or entry.deleting:
            continue
        registries = pushed.get(spec.repo.lower(), _NONE)
        tags = registries.get(None, set()) | registries.get(canonical(spec.registry), set())
        if tags and (context.gates.judge_versions(spec) or _may_concern(tags, spec)):
            context.schedule.changed(entry.key, Change.PUSH, since=now)
            count += 1
    return count


def _may_concern(tags: set[str | None], spec: BundleSpec) -> bool:
    """Whether one of the tags may match the Bundle's spec; None is any tag."""
    if None in tags:
        return True
    try:
        version = parse_version(spec.version)
    except VersionError:
        return False
    return not isinstance(version, ExactTag) or version.tag in tags
