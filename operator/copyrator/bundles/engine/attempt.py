"""Attempts: whose release it is, the orders of Jobs, and the way from a record to its outcome.

The order of writes makes a crash harmless at any point: the attempt is recorded before its Job is
created, the outcome before the Job may be deleted. So no attempt runs twice and none is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.conditions import ConditionType
from copyrator.api.keys import BundleKey, ReleaseKey
from copyrator.api.reasons import Reason
from copyrator.api.reasons.bundles import BundleEvent, BundleReason
from copyrator.api.text import parse_time
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine import deciding
from copyrator.bundles.engine.accounts import find_blocked
from copyrator.bundles.engine.bundle import BundleEntry, awaits_reset
from copyrator.bundles.engine.choose import PollStates
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.deciding import NO_EVIDENCE
from copyrator.bundles.engine.feature import Content, Feature, Features
from copyrator.bundles.engine.gate import NOTHING_FOUND
from copyrator.bundles.engine.job_client import RENEWED, JobClient, stored_revisions
from copyrator.bundles.engine.references import MissingReferenceError, ReferenceReader
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.engine.status import BundlePatcher, StaleError
from copyrator.bundles.engine.step import AT_ONCE, Step
from copyrator.bundles.jobs.job import (
    DeployOrder,
    build_deploy_job,
    kubeconfig_secret,
    login_secret,
    order_of,
)
from copyrator.bundles.jobs.outcome import (
    Blocked,
    Ending,
    JobRecord,
    add_cause,
    add_missing_permissions,
    checked_ending,
    ending_of,
    excuse_lost_access,
    excused,
    has_begun,
    name_values,
    secrets_of,
)
from copyrator.bundles.jobs.pod import JobKind, Kept, Login
from copyrator.bundles.jobs.redaction import Redactor, WithheldError
from copyrator.bundles.jobs.revisions import RolledBack, asks_for_rollback, judge
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.jobs.werf_error import find_error, log_tail, remove_template_text
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.oci.errors import RegistryError

log = logging.getLogger(__name__)

_REMEDY: Final = "rename this one, set another project_namespace, or delete one of the two"


class ReleaseOwnership:
    """Whether a Bundle owns the release that it names."""

    def __init__(self, context: Context, jobs: JobClient) -> None:
        self._context = context
        self._jobs = jobs
        self._beginning: dict[ReleaseKey, BundleEntry] = {}

    def conflict(self, entry: BundleEntry, spec: BundleSpec) -> tuple[BundleReason, str] | None:
        """The reason and message where a Bundle may not deploy its release; None where it may."""
        release, there = spec.release_key, entry.status.deployed
        if there.namespace and there.namespace != release.namespace:
            return BundleReason.NAMESPACE_CHANGED, (
                f"the release is deployed in {there.namespace}, and project_namespace is now "
                f"{release.namespace}: the old release would remain installed. Set it back, "
                "or delete and recreate the Bundle"
            )
        if there.namespace and (there.server or "") != release.server:
            return BundleReason.NAMESPACE_CHANGED, (
                f"the release is deployed in {_cluster(there.server)}, and spec.kubeConfig now "
                f"stands for {_cluster(release.server)}: the old release would remain installed. "
                "Set it back, or delete and recreate the Bundle"
            )
        named = self._context.bundles.bundles_of(release)
        if named and named[0].key != entry.key and named[0].holds(release):
            return BundleReason.RELEASE_CONFLICT, _belongs(release, named[0])
        for rival in named[1:]:
            if self.uninstalls(rival):
                return BundleReason.RELEASE_CONFLICT, (
                    f"a Job of Bundle {_name(rival)} is uninstalling release {release}; "
                    "this Bundle deploys it when that Job has ended"
                )
        return None

    def uninstalls(self, entry: BundleEntry) -> bool:
        """Whether an uninstall Job of a Bundle hasn't ended yet."""
        if not entry.deleting:
            return False
        jobs = self._jobs.of(entry.key, entry.uid)
        return any(job.kind is JobKind.UNINSTALL and not job.done for job in jobs)

    @contextmanager
    def beginning(self, entry: BundleEntry, spec: BundleSpec) -> Iterator[None]:
        """Record an attempt and create its Job while no other Bundle of the release can do so.

        Raises:
            StaleError: another Bundle has become the release's owner.
        """
        release = spec.release_key
        holder = self._beginning.get(release)
        if self.conflict(entry, spec) or (holder is not None and holder.key != entry.key):
            raise StaleError
        self._record_takeover(entry, release)
        self._beginning[release] = entry
        try:
            yield
        finally:
            del self._beginning[release]

    def _record_takeover(self, entry: BundleEntry, release: ReleaseKey) -> None:
        """Emit an Event where another Bundle deployed the release, which isn't accepted there."""
        rivals = self._context.bundles.bundles_of(release)[1:]
        if not rivals or entry.installed_release == release:
            return
        for rival in rivals:
            if rival.installed_release == release and not rival.deleting:
                text = (
                    f"Release {release} was deployed by Bundle {_name(rival)}, which "
                    f"namespace {release.namespace} hasn't accepted; this Bundle takes it over"
                )
                self._context.record(entry, BundleEvent.RELEASE_TAKEN_OVER, text)
                log.info("%s: %s", entry.key, text)


def _cluster(server: str | None) -> str:
    return f"the cluster of {server}" if server else "the operator's own cluster"


def _belongs(release: ReleaseKey, owner: BundleEntry) -> str:
    if owner.installed_release == release:
        return f"Bundle {_name(owner)} already deploys release {release}; {_REMEDY}"
    if owner.running_release == release:
        return (
            f"a Job of Bundle {_name(owner)} is deploying release {release}; this Bundle is "
            f"reconciled again when it has ended. To resolve the conflict now, {_REMEDY}"
        )
    why = "which is older"
    if not release.server and owner.key.namespace == release.namespace:
        why = "which is in the release's own namespace"
    return f"release {release} belongs to Bundle {_name(owner)}, {why}; {_REMEDY}"


def _name(entry: BundleEntry) -> str:
    return f"{entry.key.namespace}/{entry.key.name}"


@dataclass(slots=True)
class AttemptMemory:
    """The Job of the recorded attempt."""

    creating: int | None = None
    """The attempt whose Job this process began to create without knowing yet that it exists."""
    begun: int | None = None
    """The attempt whose Job this process has created or seen: if it doesn't exist, it is lost."""


@dataclass(eq=False, kw_only=True)
class AttemptRunner:
    """Creates the Jobs of recorded attempts and records their outcomes."""

    context: Context
    jobs: JobClient
    references: ReferenceReader
    patches: BundlePatcher
    redaction: Redactor
    seals: SealStore
    features: Features
    poll_states: PollStates
    ownership: ReleaseOwnership

    def _memory(self, key: BundleKey) -> AttemptMemory:
        return self.context.memories.of(key, AttemptMemory)

    async def begin(self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus) -> Step:
        """Record an attempt with its Job's name; then create the Job.

        The step raises StaleError where another Bundle has become the release's owner.

        Raises:
            ApiError: what a feature adds can't be read.
        """
        job = order_of(spec, status.attempted, entry.uid, entry.labels, entry.annotations).job
        status = structs.replace(status, attempted=structs.replace(status.attempted, job=job))
        if not entry.is_plain:
            for one in self.features.known_to(spec, entry.status, Feature.attempt):
                status = await one.attempt(entry, spec, status)
        return Step(
            entry,
            status,
            ready_conditions.deploying(status),
            effect=partial(self._make_job, spec),
            guard=self.ownership.beginning(entry, spec),
        )

    async def observe(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Observe the recorded attempt; ``done`` where it has ended, so that it runs no more.

        While it runs, the Job's watch requeues the key.
        """
        attempted = entry.status.attempted
        memory = self._memory(entry.key)
        job = await self.jobs.find(entry.key, entry.uid, attempted.job or "")
        if job is None:
            if memory.creating == attempted.attempt and not entry.deleting:
                return await self._make_job(spec, entry)
            if (end := self._handover_end(entry)) is not None:
                return Step(entry, due=(end,))
            text = f"Job {attempted.job} was deleted before it had an outcome"
            return self._finish(entry, spec, _interrupted(BundleReason.JOB_LOST, text))
        memory.creating, memory.begun = None, attempted.attempt
        if awaits_reset(entry.status):
            entry = await self.patches.reset_force(entry)
        if not job.done:
            renew_at = await self.features.attend(entry, spec, job)
            step = await self._check_pods(entry, spec, job)
            return replace(step, due=(*step.due, renew_at))
        pods = await self.jobs.output.pods(job)
        ending, found, is_explained = checked_ending(ending_of(job, pods)), NOTHING_FOUND, False
        for one in self.features.known_to(spec, entry.status, Feature.conclude):
            said = await one.conclude(entry, spec, job, pods, ending)
            ending, found = said.ending, found.including((said.found,))
            is_explained = is_explained or said.is_explained
        evidence = NO_EVIDENCE
        if ending.outcome is Outcome.SUCCEEDED:
            evidence = deciding.Evidence(await self.jobs.output.printed_digests(pods))
        else:
            if not is_explained:
                ending, evidence = await self._explained(entry, spec, job, pods, ending)
            if ending.outcome is Outcome.FAILED and entry.status.deployed.digest:
                back = await self._rolled_back(entry, pods, ending)
                evidence = replace(evidence, rolled_back=back)
        evidence = replace(evidence, found=found)
        return self._finish(entry, spec, ending, evidence, job, secrets=secrets_of(pods))

    async def limit_job(
        self, entry: BundleEntry, spec: BundleSpec, job: JobRecord
    ) -> tuple[datetime | None, ...]:
        """Set the TTL of a Bundle's Job, which isn't of an attempt without a recorded outcome.

        Returns when to do so again: when a feature keeps it no more, and to keep a Job of which a
        sidecar runs on.
        """
        kept = Kept(spec.job.ttl_seconds_after_finished)
        if job.kind.is_further:
            found = (one.keeps(entry, job) for one in self.features.offering(Feature.keeps))
            kept = next(filter(None, found), kept)
        await self.jobs.set_ttl(job, kept.seconds, grace=kept.grace)
        if not job.kind.is_further:
            return ()
        return kept.until, self.context.clock() + RENEWED if job.is_held else None

    async def find_end(self, entry: BundleEntry) -> Step:
        """``done`` where the recorded attempt's Job has an outcome, or was deleted without one."""
        attempted = entry.status.attempted
        job = await self.jobs.find(entry.key, entry.uid, attempted.job or "")
        if job is not None:
            return Step(entry, done=job.done)
        if self._memory(entry.key).creating == attempted.attempt:
            return Step(entry)
        end = self._handover_end(entry)
        return Step(entry, due=(end,), done=end is None)

    async def _explained(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: JobRecord,
        pods: list[dict[str, Any]],
        ending: Ending,
    ) -> tuple[Ending, deciding.Evidence]:
        """The ending of a failed Job with its cause, and the end of its log, both redacted."""
        whole = name_values(await self.jobs.output.log_end(pods), job, pods)
        literals: tuple[str, ...] = ()
        if spec.is_gated and remove_template_text(whole) != whole:
            digest = entry.status.attempted.digest or ""
            content = await self.features.content(entry, spec, digest)
            literals = content.literals if isinstance(content, Content) else ()
        log = remove_template_text(whole, literals)
        told = name_values(ending.message, job, pods)
        ending = replace(ending, message=remove_template_text(told, literals))
        account = ServiceAccount.of(spec) if not job.server else None
        try:
            message, log = await self._redacted(entry, spec, job, pods, [ending.message, log])
        except WithheldError as error:
            text = error.in_place_of_log(job.namespace, job.name)
            return replace(ending, message=text), NO_EVIDENCE
        ending = replace(ending, message=message)
        evidence = deciding.Evidence(log_tail=log_tail(log))
        said = find_error(log)
        for one in self.features.known_to(spec, entry.status, Feature.blame):
            if (blamed := await one.blame(entry, spec, ending, said)) is not None:
                return blamed, evidence
        refused = add_missing_permissions(ending, log, account)
        is_told = refused.message != ending.message
        ending = refused if is_told else add_cause(refused, log)
        ending = excuse_lost_access(ending, log, job.server)
        is_refused = ending.reason is BundleReason.AUTHENTICATION_FAILED
        excuse = self.features.excuse(entry.key, job, said, is_refused=is_refused)
        return excused(ending, excuse), evidence

    async def _redacted(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: JobRecord,
        pods: Sequence[Mapping[str, Any]],
        texts: Sequence[str],
    ) -> list[str]:
        """The texts without the values of the Secrets that the Job had.

        Raises:
            WithheldError: it can't be determined what to remove.
        """
        secrets, sources, written = secrets_of(pods), {}, self.features.secrets(entry.key, job)
        if spec.auth is not None:
            sources[login_secret(job.name)] = spec.auth
        if spec.cluster_secret is not None:
            sources[kubeconfig_secret(job.name)] = spec.cluster_secret
        try:
            return await self.redaction.redacted(job.namespace, secrets, texts, written)
        except WithheldError:
            # With bundles.allowedSecrets the operator may read only what they were made of.
            is_edited = entry.status.attempted.generation != entry.generation
            if is_edited or sources.keys().isdisjoint(secrets):
                raise
        secrets = [sources.get(name, name) for name in secrets]
        return await self.redaction.redacted(job.namespace, secrets, texts, written)

    async def _rolled_back(
        self, entry: BundleEntry, pods: Sequence[Mapping[str, Any]], ending: Ending
    ) -> RolledBack | None:
        """Whether a failed deploy was rolled back; None where no rollback was requested."""
        if ending.revision is None or not asks_for_rollback(pods):
            return None
        namespace = entry.status.attempted.namespace or entry.key.namespace
        if entry.status.attempted.server is not None:
            return judge([], ending.revision)  # it isn't known: the operator has no access there
        try:
            found = await stored_revisions(self.context.client, namespace, entry.key.name)
        except Forbidden:  # bundles.allowedSecrets of the chart
            found = []
        return judge(found, ending.revision)

    def _handover_end(self, entry: BundleEntry) -> datetime | None:
        """Until when another process, the former leader, may create the Job; None: it can't."""
        attempted, now = entry.status.attempted, self.context.clock()
        started = parse_time(attempted.started_at)
        is_begun = self._memory(entry.key).begun == attempted.attempt
        if started is None or is_begun:
            return None
        left = self.context.timing.job_handover - abs((now - started).total_seconds())
        return now + timedelta(seconds=left) if left > 0 else None

    async def _make_job(self, spec: BundleSpec, entry: BundleEntry) -> Step:
        """Create the Job of the recorded attempt.

        Raises:
            ApiError: it may have been created; the next reconcile tries the same name again.
        """
        memory = self._memory(entry.key)
        memory.creating = memory.begun = entry.status.attempted.attempt
        try:
            order = await self._order(entry, spec)
        except MissingReferenceError as error:
            return self._give_up(entry, spec, error.reason, str(error))
        except ApiError as error:
            if error.transient or isinstance(error, Forbidden):
                raise
            text = f"copies of its values can't be created: {error.message}"
            return self._give_up(entry, spec, BundleReason.JOB_UNSCHEDULABLE, text)
        except RegistryError as error:
            return self._give_up(entry, spec, error.reason, error.message)
        try:
            job = await self.jobs.create(build_deploy_job(order))
        except ApiError as error:
            if error.transient:
                raise
            text = f"the API server rejected the Job: {error.message}"
            return self._give_up(entry, spec, BundleReason.JOB_UNSCHEDULABLE, text)
        if job is None:
            text = f"a Job {order.job} already exists and wasn't created for this Bundle; delete it"
            return self._give_up(entry, spec, BundleReason.JOB_LOST, text)
        memory.creating = None
        if awaits_reset(entry.status):
            entry = await self.patches.reset_force(entry)
        return Step(entry)

    async def _order(self, entry: BundleEntry, spec: BundleSpec) -> DeployOrder:
        """The input of the recorded attempt's Job.

        Raises:
            MissingReferenceError: an object that the spec names doesn't exist, or is another than
                the attempt was recorded for.
            RegistryError, JobPendingError: a feature lacks what it adds, or still does.
        """
        attempted, kubeconfig = entry.status.attempted, None
        if spec.is_remote:
            target = await self.references.in_cluster(entry, spec)
            spec, kubeconfig = target.spec, target.kubeconfig
        if (attempted.server or "") != spec.server:
            text = f"spec.kubeConfig now stands for {_cluster(spec.server)}"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        order = replace(
            order_of(spec, attempted, entry.uid, entry.labels, entry.annotations),
            recorded_name=attempted.job,
        )
        if kubeconfig is not None:
            sealed = await self.seals.write_kubeconfig(entry, order.job, kubeconfig)
            order = replace(order, kubeconfig=sealed)
        access = await self.references.access(entry, spec)
        order = replace(order, login=access.login)
        if access.login is Login.SELECTED:
            await self.seals.write_login(entry, spec, order.job, access.selected)
        if not entry.is_plain or spec.is_gated:
            order = await self.features.shape(entry, spec, order, order.job)
        if order.sealed is None and attempted.plan_job is not None:
            text = "the spec was edited after the plan was made"  # no feature holds it to that
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        if order.sealed is not None:
            return order
        _, files = await self.references.values(entry, spec)
        return replace(order, values=(*files, *order.values))

    def _give_up(self, entry: BundleEntry, spec: BundleSpec, reason: Reason, text: str) -> Step:
        self._memory(entry.key).creating = None
        return self._finish(entry, spec, _interrupted(reason, text))

    async def _check_pods(self, entry: BundleEntry, spec: BundleSpec, job: JobRecord) -> Step:
        """Report why the Job is blocked; clear it on progress.

        A Job that a feature stops before its pod has started is ended.
        """
        if job.given_up:  # the Job controller is ending it: that it has no pod says nothing
            return Step(entry)
        if await self._is_stopped(entry, spec, job):
            return Step(entry)
        if job.suspended:
            # It may wait for any time, and is ended where the spec was edited or the Bundle is
            # deleted: nothing of it runs.
            if entry.generation != entry.status.attempted.generation:
                await self.jobs.give_up(job)
            if entry.deleting:
                return Step(entry)
            queued = ready_conditions.queued(entry.status)
            return Step(entry, entry.status, queued, decided=False)
        told = entry.status.condition(ConditionType.READY)
        now, timing = self.context.clock(), self.context.timing
        is_resumed = told.message == ready_conditions.queued(entry.status).message
        patience = (job.began or job.created or now) + timedelta(seconds=timing.job_blocked)
        verdict, step = ready_conditions.running(entry.status), Step(entry, due=(patience,))
        is_due = now >= patience
        if is_due:
            step = Step(entry, due=(now + timedelta(seconds=timing.job_recheck),))
        if is_due and (blocked := await self._find_blocked(entry, spec, job)):
            verdict = ready_conditions.blocked(entry.status, blocked.reason, blocked.message)
        is_told = told.reason == verdict.reason == BundleReason.DEPLOYING or not is_due
        if entry.deleting or (is_told and not is_resumed):
            return step
        return replace(step, status=entry.status, ready=verdict, decided=False)

    async def _find_blocked(
        self, entry: BundleEntry, spec: BundleSpec, job: JobRecord
    ) -> Blocked | None:
        """Why a Job makes no progress; one that can't go on is ended."""
        blocked = self.features.hinders(entry.key, job)
        blocked = blocked or await find_blocked(self.context.client, self.jobs, job, spec)
        if blocked is not None and blocked.reason is BundleReason.PLAN_CHANGED:
            await self.jobs.give_up(job, blocked.reason)
        elif blocked is not None and entry.generation != entry.status.attempted.generation:
            # Nothing of it has run, and the new spec may provide what it waits for. A deletion is a
            # new generation too.
            await self.jobs.give_up(job)
        return blocked

    async def _is_stopped(self, entry: BundleEntry, spec: BundleSpec, job: JobRecord) -> bool:
        """End a Job that a feature stops before its pod has started; returns whether it ends."""
        asked = self.features.used_in(spec, Feature.stops)
        found = (one.stops(entry, spec) for one in asked)
        if (reason := next(filter(None, found), None)) is None:
            return False
        if has_begun(await self.jobs.output.pods(job)):
            return False
        await self.jobs.give_up(job, reason)
        return True

    def _finish(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        ending: Ending,
        evidence: deciding.Evidence = NO_EVIDENCE,
        job: JobRecord | None = None,
        *,
        secrets: Sequence[str] = (),
    ) -> Step:
        """Record the outcome of the attempt in the status; another reconcile follows.

        ``secrets``: of the Job's pod; empty where they aren't known.
        """
        now = self.context.clock()
        status = deciding.finish(entry.status, ending, evidence, spec.retry, now)
        for one in self.features.known_to(spec, entry.status, Feature.finish):
            status = one.finish(entry, status, ending, evidence.found)
        if entry.deleting:
            verdict = ready_conditions.uninstalling(f"The last deploy has ended: {ending.message}")
        elif deciding.has_succeeded(status):
            verdict = ready_conditions.deployed(status, spec.ignored_env)
        elif ending.reason is BundleReason.FROZEN:
            verdict = ready_conditions.ended_by_freeze(status)
        elif status.attempted.next_retry_at is None:
            verdict = ready_conditions.quarantined(status)
        else:
            verdict = ready_conditions.will_retry(status)
        asked = self.features.known_to(spec, entry.status, Feature.has_copies)
        is_sealed = any(one.has_copies(spec, status.attempted) for one in asked)
        is_sealed = is_sealed or status.attempted.server is not None
        login = login_secret(status.attempted.job or "")
        has_login = bool(spec.auth) or self.features.have_secrets(spec)
        may_have_login = login in secrets or (has_login and not secrets)

        async def tidy(written: BundleEntry) -> Step:
            if is_sealed or may_have_login:
                needed = self.features.needed_jobs(status)
                await self.seals.remove_others(written, needed)
            if is_sealed or status.attempted.next_retry_at is not None:
                # For what a feature does then, or for what delays the retry: a freeze, windows.
                self.poll_states.decide_again(entry.key, spec.interval)
            if not status.available.version:
                # The registry had nothing: poll it again.
                self.poll_states.of(entry.key).forget()
            began, ended = (job.created, job.finished or now) if job is not None else (None, None)
            self.jobs.count("deploy", ending.outcome.value.lower(), began, ended)
            return Step(written, due=(AT_ONCE,))

        return Step(entry, status, verdict, decided=False, effect=tidy, done=True)


def _interrupted(reason: Reason, text: str) -> Ending:
    return Ending(Outcome.INTERRUPTED, reason, text)
