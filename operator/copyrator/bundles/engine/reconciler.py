"""Reconciles a Bundle: the order of all steps, from what rejects it to the Job of its deploy.

Each reconcile takes the steps that are due and ends; none waits for a registry or a Job. What a
step returns (step.py) is written here, then done; the earliest due time is passed to the schedule.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.keys import BundleKey
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import InvalidSpec
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.accounts import ServiceAccountChecker
from copyrator.bundles.engine.attempt import AttemptRunner
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.choose import DeployInputs, PollStates, VersionResolver
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.deploy import Deployer
from copyrator.bundles.engine.feature import Feature, Features, JobPendingError
from copyrator.bundles.engine.gate import NOTHING_FOUND
from copyrator.bundles.engine.job_client import JobClient
from copyrator.bundles.engine.links import find_cycle_fault
from copyrator.bundles.engine.poll import DesiredVersion, end_failures, kept_ready, record_error
from copyrator.bundles.engine.references import (
    MissingReferenceError,
    ReferenceReader,
    references_of,
)
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.engine.status import BundlePatcher, StaleError, StatusWriter
from copyrator.bundles.engine.step import AT_ONCE, Change, Step
from copyrator.bundles.engine.uninstall import Uninstaller
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.workqueue.queue import Done, Outcome, Priority, RequeueAfter

log = logging.getLogger(__name__)


@dataclass(slots=True)
class StepTaker:
    """Takes the results of one reconcile's steps: writes, then does, and collects due times."""

    writer: StatusWriter
    due: list[datetime | None] = field(default_factory=list)
    """None is no time."""

    async def take(self, step: Step) -> BundleEntry:
        """Put a step on record, then do what follows; returns the Bundle as it is then.

        Raises:
            ApiError, StaleError: nothing is marked as handled; the next reconcile repeats the step.
        """
        while True:
            with step.guard or nullcontext():
                bundle, status = step.bundle, step.status
                if status is not None and step.ready is None:
                    bundle = await self.writer.write_part(bundle, status)
                elif status is not None and step.ready is not None:
                    ready, decided = step.ready, step.decided
                    bundle = await self.writer.write(bundle, status, ready, decided=decided)
                self.due += filter(None, step.due)
                if step.effect is None:
                    return bundle
                step = await step.effect(bundle)

    @property
    def earliest(self) -> datetime | None:
        """The earliest due time; None: the Bundle isn't reconciled until something changes."""
        return min(filter(None, self.due), default=None)


Problem = tuple[BundleReason, str]
"""Why nothing is deployed: the reason of Ready and its message."""

_PRECEDING: Final = (BundleReason.INVALID_SPEC, BundleReason.NAMESPACE_CHANGED)
"""Problems that are reported also of a release that its namespace hasn't accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReconciler:
    """Takes the next steps of one Bundle at a time."""

    context: Context
    patches: BundlePatcher
    writer: StatusWriter
    jobs: JobClient
    features: Features
    references: ReferenceReader
    seals: SealStore
    accounts: ServiceAccountChecker
    poll_states: PollStates
    resolver: VersionResolver
    deployer: Deployer
    attempts: AttemptRunner
    uninstaller: Uninstaller

    async def reconcile(self, key: BundleKey) -> Outcome:
        """Take a Bundle's next steps; the workers' handler for Bundle keys.

        Raises:
            ApiError: the request failed; the queue retries with back-off.
            Exception: an internal error; the Bundle's status reports it; retried likewise.
        """
        try:
            return await self._reconcile(key)
        except ApiError:
            raise
        except Exception as error:
            await self._report_failed(key, error)
            raise

    async def _reconcile(self, key: BundleKey) -> Outcome:
        steps, schedule = StepTaker(self.writer), self.context.schedule
        if (entry := self.context.bundles.get(key)) is None:
            self.context.memories.drop(key)
            return Done()
        # Before what all Bundles are decided by has been listed nothing is.
        if not (self.jobs.synced and self.features.are_ready(deleting=entry.deleting)):
            await self._report_unwatched(key)
            return RequeueAfter(1.0, Priority.RESYNC)
        changes, inputs = schedule.take_changes(key), self.resolver.take_inputs(key)
        try:
            with nullcontext() if entry.is_plain else self.features.reconciling(entry):
                await self._take_steps(steps, entry, changes, inputs)
        except StaleError:
            return RequeueAfter(0.0)
        except JobPendingError:  # what follows is done when it is there
            return Done()
        except Forbidden as error:
            await self._report_forbidden(key, error)
            raise
        except NotFound as error:
            if self.context.bundles.get(key) is not None:
                raise
            log.debug("%s was deleted while it was reconciled: %s", key, error)
            return Done()
        finally:
            if AT_ONCE in steps.due:  # also where a later step has failed
                schedule.set_due(key, AT_ONCE)
        if AT_ONCE not in steps.due:
            schedule.set_due(key, steps.earliest)
        return Done()

    async def _report_unwatched(self, key: BundleKey) -> None:
        """Report that the Jobs can't be watched, where that is forbidden."""
        if not self.jobs.synced and (forbidden := self.jobs.forbidden):
            await self._report_forbidden(key, forbidden)
            # So that the former condition is written again when the watch works.
            self.poll_states.of(key).forget()

    async def _take_steps(
        self,
        steps: StepTaker,
        entry: BundleEntry,
        changes: frozenset[Change],
        inputs: DeployInputs | None,
    ) -> None:
        if Change.REFERENCE in changes:
            for one in self.features.of(entry, Feature.retry):
                one.retry(entry)
        if entry.deleting:
            await self._reconcile_deleted(steps, entry)
        elif changes == {Change.ANSWER} and inputs is not None and self._are_current(inputs, entry):
            steps.due.append(inputs.due)
            await self._deploy(steps, inputs)
        else:
            await self._reconcile_live(steps, entry)
        if not entry.is_plain:
            steps.due.append(self.features.due(entry))

    def _are_current(self, inputs: DeployInputs, entry: BundleEntry) -> bool:
        """Whether the steps before a poll needn't be taken again when its answer has arrived."""
        read = inputs.entry.uid, inputs.entry.resource_version
        is_due = inputs.due is not None and inputs.due <= self.context.clock()
        return read == (entry.uid, entry.resource_version) and not is_due

    # --- a Bundle that isn't being deleted --------------------------------------------------------

    async def _reconcile_live(self, steps: StepTaker, entry: BundleEntry) -> None:
        """Reject the Bundle where it can't be deployed; else observe its Job or go on."""
        entry, not_admitted = await self._enter(steps, entry)
        spec = entry.spec
        if isinstance(spec, BundleSpec):
            spec = self.context.refusal(spec) or spec
        if isinstance(spec, InvalidSpec):
            await self._refuse(steps, entry, BundleReason.INVALID_SPEC, str(spec))
            return
        entry, spec, problem, unusable = await self._accept(steps, entry, spec)
        comes_first = problem is not None and problem[0] in _PRECEDING
        if not_admitted is not None and not (comes_first or entry.status.attempted.is_running):
            entry = await self.features.take(Feature.review, entry, steps.take)
            await steps.take(self._report_refused(entry, not_admitted, ready=entry.status.ready))
            return
        if problem is not None:
            await self._refuse(steps, entry, *problem)
            return
        entry = await self.patches.ensure_finalizer(entry)
        if not entry.is_plain:
            entry = await self.features.take(Feature.review, entry, steps.take)
        self.references.watches.follow(entry.key, references_of(spec))
        if entry.status.attempted.is_running:
            await steps.take(await self.attempts.observe(entry, spec))
        elif unusable is not None and not entry.is_paused:
            await steps.take(self._report_missing(entry, spec, unusable, entry.status))
        else:
            for job in self.jobs.of(entry.key, entry.uid):
                steps.due += await self.attempts.limit_job(entry, spec, job)
            await self._prepare(steps, entry, spec)

    async def _accept(
        self, steps: StepTaker, entry: BundleEntry, stated: BundleSpec
    ) -> tuple[BundleEntry, BundleSpec, Problem | None, MissingReferenceError | None]:
        """The Bundle, its spec as it is deployed, and why it isn't: a problem, or its place."""
        spec = self.context.effective(stated)
        if not entry.is_plain:
            entry = await self.features.take(Feature.tend, entry, steps.take, stated)
            entry = await self.features.take(Feature.begin, entry, steps.take, spec)
            links, bundles = self.context.gates.links, self.context.bundles
            if fault := find_cycle_fault(links, bundles, entry):
                return entry, spec, (BundleReason.INVALID_SPEC, fault), None
            try:
                for one in self.features.of(entry, Feature.locate):
                    entry, spec = await one.locate(entry, spec, steps.take)
            except MissingReferenceError as error:
                return entry, spec, None, error
        return entry, spec, self.attempts.ownership.conflict(entry, spec), None

    async def _enter(
        self, steps: StepTaker, entry: BundleEntry
    ) -> tuple[BundleEntry, ReadyCondition | None]:
        """The Bundle after the first steps of features, and their objection to its namespace."""
        if entry.is_plain and not self.features.reach_others:
            if entry.key in self.features.followed:
                self.features.follow(entry)
            return entry, None
        entry, not_admitted = await self.features.admit(entry, steps.take)
        self.features.follow(entry)
        return await self.features.take(Feature.keep, entry, steps.take), not_admitted

    async def _prepare(self, steps: StepTaker, entry: BundleEntry, spec: BundleSpec) -> None:
        """Take the steps before the registry is asked: features' Jobs, and what is read."""
        observed: BundleStatus | None = None
        if not entry.is_plain:
            for one in self.features.of(entry, Feature.advance):
                entry = await steps.take(await one.advance(entry, spec))
            for one in self.features.of(entry, Feature.observe):
                known = entry if observed is None else entry.with_status(observed)
                found = await one.observe(known, spec)
                observed = found.status or observed
                steps.due.append(found.due)
            steps.due.append(await self.seals.tidy(entry, spec))
            if entry.is_paused:
                await steps.take(self._pause(entry, spec, observed or entry.status))
                return
        elif spec.auth:
            steps.due.append(await self.seals.tidy(entry, spec))
        try:
            inputs = await self._read_inputs(entry, spec, observed)
        except MissingReferenceError as error:
            await steps.take(self._report_missing(entry, spec, error, observed or entry.status))
            return
        if not (entry.is_plain or inputs.is_unwritten):
            values_hash = inputs.desired.values_hash
            for one in self.features.of(entry, Feature.check):
                entry = await steps.take(await one.check(entry, spec, values_hash))
            inputs = replace(inputs, entry=entry, observed=entry.status if observed else None)
        if self.accounts.is_awaited(entry.key):
            await steps.take(await self.accounts.check(entry, spec))
        await self._deploy(steps, inputs)

    async def _read_inputs(
        self, entry: BundleEntry, spec: BundleSpec, observed: BundleStatus | None
    ) -> DeployInputs:
        """Read what the spec names, as far as it changed.

        Raises:
            MissingReferenceError: an object that the spec names doesn't exist, or isn't valid.
            ApiError: it can't be read.
        """
        access = await self.references.access(entry, spec)
        values_hash = await self.references.values_hash(entry, spec)
        read, read_key = NOTHING_FOUND, ""
        requests, further = [entry.request.token] if entry.request else [], tuple[object, ...]()
        if not entry.is_plain or self.features.reach_others:
            read, read_key = await self.features.read(entry, spec)
        if not entry.is_plain:
            requests.append(self.features.request(entry, entry.status))
            wanting = self.features.of(entry, Feature.wants)
            further = tuple(one.wants(entry, spec) for one in wanting)
        desired = DesiredVersion(
            generation=entry.generation,
            spec_hash=entry.spec_hash,
            values_hash=values_hash,
            request=" ".join(filter(None, requests)),
            login=access.credential.fingerprint if access.credential else "",
            read=read_key,
            cluster=spec.cluster,
            further=further,
        )
        return DeployInputs(entry, spec, access, read, desired, observed)

    async def _deploy(self, steps: StepTaker, inputs: DeployInputs) -> None:
        """Ask the registry, and act on its answer; without one, wait for it or the next poll."""
        entry, spec = inputs.entry, inputs.spec
        findings = self.features.find(spec)
        due, answer = steps.earliest, self.resolver.resolve(inputs, findings)
        if isinstance(answer, Step):
            waiting = () if entry.is_plain else self.features.of(entry, Feature.awaits_answer)
            if not any(one.awaits_answer(entry) for one in waiting):
                self.resolver.keep_inputs(replace(inputs, due=due))
            await steps.take(answer)
            return
        step, handled = await self.deployer.deploy(inputs, answer, findings)
        entry = await steps.take(step)
        if handled is not None:
            await steps.take(self.resolver.mark_handled(entry, handled))
        if inputs.is_unwritten:
            steps.due.append(AT_ONCE)  # for what was left out until this is written
        if self.features.find(spec) != findings:
            self.context.schedule.changed(entry.key, Change.GATE)

    def _pause(self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus) -> Step:
        """Record that updates are disabled: nothing is polled or deployed."""
        self.poll_states.of(entry.key).forget()
        status = structs.replace(end_failures(status), ready=kept_ready(status), next_poll_at=None)
        status = self.features.undecided(entry, spec, status)
        return Step(entry, status, ready_conditions.AUTOUPDATE_DISABLED)

    def _report_missing(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        error: MissingReferenceError,
        status: BundleStatus,
    ) -> Step:
        """Report a missing ConfigMap or Secret that the spec names.

        A watch requeues the Bundle when the object exists; the next poll is for references without
        a watch.
        """
        now = self.context.clock()
        is_values = error.reason is BundleReason.VALUES_MISSING
        status = structs.replace(
            record_error(end_failures(status), error.reason, str(error), now),
            ready=kept_ready(status) if is_values else 0,
        )
        status = self.features.undecided(entry, spec, status, str(error))

        async def forget_poll(written: BundleEntry) -> Step:
            self.poll_states.of(entry.key).forget()
            return Step(written, due=(self.resolver.poll_rhythm(entry, spec).after(now),))

        verdict = ready_conditions.unusable(error.reason, str(error), status)
        return Step(entry, status, verdict, effect=forget_poll)

    async def _refuse(
        self, steps: StepTaker, entry: BundleEntry, reason: BundleReason, message: str
    ) -> None:
        """Report why the spec is rejected; a Job of an older spec is observed to its end."""
        if entry.status.attempted.is_running:
            ended = await self.attempts.find_end(entry)
            await steps.take(ended)
            if ended.done:
                spec = self.context.spec_of(entry)
                await steps.take(await self.attempts.observe(entry, spec))
                return
        ready = 0 if reason is BundleReason.INVALID_SPEC else entry.status.ready
        verdict = ReadyCondition(Health.STALLED, reason, message)
        await steps.take(self._report_refused(entry, verdict, ready=ready))

    def _report_refused(
        self, entry: BundleEntry, verdict: ReadyCondition, *, ready: int | None
    ) -> Step:
        """Report why nothing is polled or deployed."""

        async def forget_poll(written: BundleEntry) -> Step:
            self.poll_states.of(entry.key).forget()
            return Step(written)

        status = structs.replace(end_failures(entry.status), ready=ready, next_poll_at=None)
        return Step(entry, status, verdict, effect=forget_poll)

    # --- a Bundle that is being deleted -----------------------------------------------------------

    async def _reconcile_deleted(self, steps: StepTaker, entry: BundleEntry) -> None:
        """Uninstall the release after the end of a running deploy.

        Its outcome decides whether there is a release to uninstall. Consent decides whose it is.
        """
        self.features.follow(entry)
        if len(self.context.bundles.bundles_of(entry.installed_release)) > 1:
            entry, _ = await self.features.admit(entry, steps.take)
        spec = entry.spec
        if isinstance(spec, BundleSpec) and self.context.refusal(spec) is None:
            entry = await self.features.take(Feature.tend, entry, steps.take, spec)
        if entry.status.attempted.is_running:
            step = await self.attempts.observe(entry, self.context.spec_of(entry))
            entry = await steps.take(step)
            if step.done:
                return
        await steps.take(await self.uninstaller.uninstall(entry))

    # --- faults -----------------------------------------------------------------------------------

    async def _report_failed(self, key: BundleKey, error: Exception) -> None:
        """Report an internal error in the status and an Event; other Bundles aren't affected.

        The queue retries with back-off; the workers log the traceback.
        """
        entry = self.context.bundles.get(key)
        if entry is None:
            return
        verdict = ready_conditions.failing(
            type(error).__name__, entry.status, deleting=entry.deleting
        )
        try:
            await self.writer.write(entry, entry.status, verdict, decided=False)
        except Exception as second:
            log.debug(
                "%s: the error can't be written to the status either: %s",
                key,
                type(second).__name__,
            )

    async def _report_forbidden(self, key: BundleKey, error: Forbidden) -> None:
        """Report a missing permission in the status, unless it is the one to write the status."""
        entry = self.context.bundles.get(key)
        if entry is not None:
            verdict = ready_conditions.unusable(BundleReason.FORBIDDEN, error.message, entry.status)
            with suppress(ApiError, StaleError):
                await self.writer.write(entry, entry.status, verdict)
