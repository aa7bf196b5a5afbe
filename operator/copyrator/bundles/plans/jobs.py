"""The Jobs of plans: created, observed, read and counted.

Results are read from the pods and the end of their logs. A reconcile doesn't wait for a log, as a
kubelet may not respond: a separate task reads it, and the Bundle is requeued when the task has
ended.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.docker_config import HUB_HOSTS
from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import format_time
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.accounts import find_blocked, missing_account
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.choose import ERROR_SECONDS
from copyrator.bundles.engine.context import Context, cancel_all
from copyrator.bundles.engine.feature import Content, Features
from copyrator.bundles.engine.job_client import JobClient, PodReader
from copyrator.bundles.engine.references import MissingReferenceError, ReferenceReader
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.engine.step import Change
from copyrator.bundles.jobs.job import DeployOrder
from copyrator.bundles.jobs.outcome import (
    JobRecord,
    check_reason,
    ending_of,
    exit_code,
    name_values,
    secrets_of,
)
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER, JobKind, Login
from copyrator.bundles.jobs.redaction import Redactor, WithheldError
from copyrator.bundles.jobs.restrictions import image_repository
from copyrator.bundles.jobs.rights import ServiceAccount, list_missing, read_refused, sentence
from copyrator.bundles.jobs.werf_error import (
    ERROR,
    ITEM,
    MAX_BLOCK,
    NO_ERROR,
    describe_error,
    first_cause,
    lacks_access,
    refuses_login,
    remove_template_text,
)
from copyrator.bundles.plans.fields import PlanRecord
from copyrator.bundles.plans.operations import MAX_TEXT, BlockFault, Plan, block_lines, read_block
from copyrator.bundles.plans.orders import build_plan_job, plan_order
from copyrator.bundles.plans.queue import PlanTiming
from copyrator.bundles.plans.record import PlanFault
from copyrator.bundles.plans.rights import read_needs
from copyrator.bundles.plans.secrets import InputsStore, ValuesSealer
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.kube.resources import NAMESPACES
from copyrator.oci.errors import RegistryError
from copyrator.workqueue.fairness import FairLimit

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

TENANT_PLAN_READS: Final = 2
"""Logs of plans that are read for one namespace at a time: a kubelet that hangs delays nothing
else."""

TENANTS_PLAN_READS: Final = 8
"""The same of all namespaces together."""

log = logging.getLogger(__name__)

_DEADLINE: Final = "DeadlineExceeded"
_PINNED: Final = re.compile(r"[^@\s]{1,255}@sha256:[0-9a-f]{64}")
_ENDED: Final = re.compile(
    r"^werf bundle (?:plan|render) ended with exit code [0-9]{1,3}$", re.MULTILINE
)
"""The last line that a Job's script prints after werf has failed."""


_TRACE: Final = re.compile(
    r'[^\s:]\S{0,320}:\d{1,9}:\d{1,9}$|  executing "[^"]{1,320}" at <.{0,320}>:$'
)
"""Lines about a template, as werf 3 prints them before the line with its error."""


def find_plan_error(log: str) -> str:
    """Werf's last ``Error: …`` in the log of a plan, and the causes directly after it, if any.

    Other lines may have contents. After a template's error even such lines may be its text.
    """
    errors: list[str] = []
    is_open, last = False, ""
    for line in map(str.rstrip, log.split("\n")):
        is_traced = last.startswith("  executing ") and line.startswith("    ")
        if is_open and (is_traced or ITEM.match(line) or _TRACE.match(line)):
            errors[-1] += f"\n{line}"
        else:
            is_open = line.startswith(ERROR) and line not in NO_ERROR
            errors += [line] if is_open else []
        last = line
    of_template = (error for error in errors if remove_template_text(error) != error)
    return next(of_template, errors[-1] if errors else "")[:MAX_BLOCK]


@dataclass(frozen=True, slots=True)
class PlanSubject:
    """What a Job's plan is judged by, beside its log."""

    account: ServiceAccount
    image: str
    """werf's, as the spec names it."""
    content: Content


@dataclass(frozen=True, slots=True)
class PlanDelay:
    """A Job's plan can't be read yet; the message is None while the Job simply runs."""

    message: str | None = None
    due: datetime | None = None
    """When to look again; None: once something has changed."""


@dataclass(slots=True)
class LogReading:
    """A read of a Job's plan, or why it is read again at a later time."""

    task: asyncio.Task[Plan | PlanFault | PlanDelay]
    delay: PlanDelay | None = None


@dataclass(slots=True)
class PlanReadings:
    """The reads of the results of all plan Jobs of a Bundle."""

    by_job: dict[str, LogReading] = field(default_factory=dict)


def _normal_repository(image: str) -> str:
    """An image's repository in the form in which runtimes compare names: ``werf`` is Docker Hub's.

    Source: distribution's reference.ParseNormalizedNamed; and Docker Hub has several hosts.
    """
    host, slash, path = image_repository(image).partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, path = "docker.io", f"{host}{slash}{path}"
    host = host.lower().removesuffix(":443")
    if host in HUB_HOSTS:
        host, path = "docker.io", path if "/" in path else f"library/{path}"
    return f"{host}/{path}"


def pinned_image(pods: Sequence[Mapping[str, Any]], image: str) -> str | None:
    """Werf's image by digest, as the newest pod ran it; None where the pod doesn't tell.

    Runtimes name one repository in several ways. An ID without a repository, as CRI-O may report
    it, is no digest that a registry knows; and another repository's digest may not be in this one.

    Args:
        pods: newest last.
        image: as the spec names it; the result is of the same repository.
    """
    if _PINNED.fullmatch(image):
        return image
    status: Mapping[str, Any] = (pods[-1].get("status") or {}) if pods else {}
    for container in status.get("containerStatuses") or ():
        if container.get("name") != DEPLOY_CONTAINER:
            continue
        for name in ("imageID", "image"):
            found = str(container.get(name) or "").removeprefix("docker-pullable://")
            same = _normal_repository(found) == _normal_repository(image)
            if same and _PINNED.fullmatch(found):
                return f"{image_repository(image)}@{found.partition('@')[2]}"
    return None


class PlanReader:
    """Reads the plans of all Bundles' Jobs."""

    def __init__(
        self, context: Context, jobs: JobClient, features: Features, redaction: Redactor
    ) -> None:
        self._context = context
        self._timing = context.timing.of(PlanTiming)
        self._jobs = jobs
        self._features = features
        self._redaction = redaction
        context.memories.on_drop(self._cancel)
        self._slots = FairLimit(each=TENANT_PLAN_READS, together=TENANTS_PLAN_READS)

    def read(
        self, key: BundleKey, job: JobRecord, nonce: str, made_of: PlanSubject
    ) -> Plan | PlanFault | PlanDelay | None:
        """The plan that a finished Job printed as a block with this nonce, or why it has none.

        None while it is being read; the Bundle is requeued when it was read.

        Raises:
            ApiError: its pods can't be read now.
        """
        readings = self._context.memories.of(key, PlanReadings).by_job
        reading, now = readings.get(job.name), self._context.clock()
        delay = reading.delay if reading is not None else None
        if reading is None or (delay is not None and delay.due is not None and now >= delay.due):
            task = asyncio.create_task(
                self._read_in_slot(key, job, nonce, made_of), name=f"plan of {job.name}"
            )
            task.add_done_callback(lambda ended: self._handle_end(key, ended))
            for name in [name for name, one in readings.items() if one.task.done()]:
                del readings[name]  # its result isn't needed any more
            readings[job.name] = LogReading(task)
            return None
        if delay is not None:
            return delay
        if not reading.task.done():
            return None
        del readings[job.name]
        found = reading.task.result()
        if isinstance(found, PlanDelay):
            found = replace(found, due=now + timedelta(seconds=self._timing.log_retry))
            readings[job.name] = LogReading(reading.task, found)
        return found

    async def close(self) -> None:
        """End all reads."""
        tasks = set()
        for _, readings in self._context.memories.each(PlanReadings):
            tasks |= {one.task for one in readings.by_job.values()}
            readings.by_job.clear()
        await cancel_all(tasks)

    def _cancel(self, key: BundleKey) -> None:
        if (readings := self._context.memories.find(key, PlanReadings)) is not None:
            for reading in readings.by_job.values():
                reading.task.cancel()

    def _handle_end(self, key: BundleKey, task: asyncio.Task[Plan | PlanFault | PlanDelay]) -> None:
        if not task.cancelled():
            task.exception()  # raised where the result is read
            self._context.schedule.changed(key, Change.AWAITED)

    async def _read_in_slot(
        self, key: BundleKey, job: JobRecord, nonce: str, made_of: PlanSubject
    ) -> Plan | PlanFault | PlanDelay:
        async with self._slots.slot(job.namespace):
            return await self._read(key, job, nonce, made_of)

    async def _read(
        self, key: BundleKey, job: JobRecord, nonce: str, made_of: PlanSubject
    ) -> Plan | PlanFault | PlanDelay:
        pods, account = await self._jobs.output.pods(job), made_of.account
        code = exit_code(pods)
        if code != 0:
            reason = check_reason(code) or BundleReason.PLAN_FAILED
            log = await self._jobs.output.log_end(pods)
            whole = await self._cause(key, job, pods, log)
            cause = remove_template_text(whole, made_of.content.literals)
            # The API server's words: they name no values of the chart.
            named = whole if "error calling lookup: " in cause else cause
            # Of another cluster's account nothing is known, whatever its name is.
            denied = () if job.server else read_refused(named, account)
            if lacks_access(named, job.server) or (job.server and job.failed == _DEADLINE):
                reason = BundleReason.CLUSTER_UNREACHABLE
            if denied and read_refused(first_cause(named), account):
                text = sentence(account, list_missing(denied))
            else:
                text = describe_error(cause)
                text = f"{ERROR} {text}" if cause.startswith(ERROR) else text
            excuse = self._features.excuse(key, job, whole, is_refused=refuses_login(whole))
            if excuse is not None:
                reason, text = excuse.reason or reason, f"{text}{excuse.text}"
            kinds = read_needs(log) if denied else ()
            return PlanFault(f"Job {job.name}: {text}", reason, denied, kinds)
        timeout = self._timing.log_timeout
        try:
            async with asyncio.timeout(timeout):
                plan = await read_printed_plan(self._jobs.output, pods[-1], nonce)
        except TimeoutError:
            return self._late(job, f"there was no answer within {timeout:g} s")
        except ApiError as error:
            if error.transient:
                return self._late(job, error.message)
            plan = BlockFault(f"its log can't be read: {error.message}")
        if isinstance(plan, BlockFault):
            return PlanFault(f"Job {job.name}: {plan.message}")
        return replace(plan, image=pinned_image(pods, made_of.image), drawn=made_of.content.unbound)

    def _late(self, job: JobRecord, why: str) -> PlanDelay | PlanFault:
        """A delay for a log that can't be read now, and a fault after log_patience."""
        now = self._context.clock()
        end = (job.finished or now) + timedelta(seconds=self._timing.log_patience)
        text = f"Job {job.name}: its log can't be read: {why}"
        if now >= end:
            return PlanFault(text)
        return PlanDelay(f"{text}; it is tried again until {format_time(end)}")

    async def _cause(
        self, key: BundleKey, job: JobRecord, pods: list[dict[str, Any]], log: str
    ) -> str:
        """The text for a Job without a plan: werf's last error, without the values of Secrets."""
        ended = _ENDED.findall(log)
        found = find_plan_error(log) or (ended[-1] if ended else ending_of(job, pods).message)
        found = name_values(found, job, pods)
        try:
            secrets, written = secrets_of(pods), self._features.secrets(key, job)
            (found,) = await self._redaction.redacted(job.namespace, secrets, [found], written)
        except WithheldError as error:
            found = error.in_place_of_log(job.namespace, job.name)
        return found


PAUSED: Final = f"Job {{}} isn't created until the annotation {ANN_DISABLE_AUTOUPDATE} is removed"
"""The message for a plan without a Job, where updates of the Bundle are disabled."""


EDITED: Final = PlanFault(
    "the values were edited before its Job was created; request it again",
    BundleReason.PLAN_CHANGED,
)
"""The Job of a plan isn't created, as what it would be made of has changed since."""


@dataclass(eq=False)
class PlanJobClient:
    """The plan Jobs of all Bundles."""

    context: Context
    jobs: JobClient
    references: ReferenceReader
    redaction: InitVar[Redactor]
    _: KW_ONLY
    values: ValuesSealer
    features: Features
    inputs: InputsStore
    _reader: PlanReader = field(init=False)

    @property
    def seals(self) -> SealStore:
        """Their Secrets."""
        return self.values.seals

    def __post_init__(self, redaction: Redactor) -> None:
        self._reader = PlanReader(self.context, self.jobs, self.features, redaction)

    async def create(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        plan: PlanRecord,
        kind: JobKind,
        *,
        renders: int,
        keeps_inputs: bool = False,
    ) -> PlanFault | None:
        """Create the Job of a plan; else the result says why not.

        EDITED: the values have changed since, or a source of them is gone. Another fault: a change
        of the spec or the cluster is needed.

        Args:
            entry: the Bundle.
            spec: its spec.
            plan: its record.
            kind: of its Job.
            renders: how often it renders the chart; a plan that is to be bound needs two.
            keeps_inputs: whether it is recorded what it is made of.

        Raises:
            JobPendingError: a feature waits for what it adds; then the next reconcile creates it.
            ApiError: it may have been created; the next reconcile tries the same name again.
        """
        order = plan_order(entry, spec, plan.version or "", plan.digest or "")
        job = plan.job or ""
        inputs = self.inputs.begin(entry, order.spec) if keeps_inputs else None
        try:
            order = await self._add_credentials(entry, spec, job, order)
            also = inputs.add if inputs is not None else None
            values_hash, sealed = await self.values.write(entry, spec, job, also)
            if inputs is not None and values_hash == plan.values_hash:
                await self.inputs.store(entry, job, inputs)
        except MissingReferenceError as error:
            log.debug("%s: not planned: %s", entry.key, error)
            return EDITED  # the next reconcile reports it
        except (ApiError, RegistryError) as error:
            text, reason = error.message, BundleReason.PLAN_FAILED
            if isinstance(error, RegistryError):
                reason = error.reason
            elif error.transient or isinstance(error, Forbidden):
                raise
            else:
                text = f"copies of its values can't be: {text}"
            return PlanFault(f"Job {job} isn't created: {text}", reason)
        if values_hash != plan.values_hash:
            return EDITED
        body = build_plan_job(
            order,
            sealed,
            job,
            self._nonce(entry, job),
            kind,
            renders=renders,
            is_owned=not entry.deleting,
        )
        try:
            created = await self.jobs.create(body)
        except ApiError as error:
            if error.transient:
                raise
            return PlanFault(f"the API server rejected Job {job}: {error.message}")
        if created is None:
            text = f"a Job {job} already exists and wasn't created for this Bundle; delete it"
            return PlanFault(text)
        return None

    async def prepare(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Have features get what they add to its Job before a plan takes a slot.

        Raises:
            JobPendingError: that isn't there yet.
        """
        with suppress(RegistryError):  # the plan reports it
            await self.features.prepare(entry, spec)

    async def _add_credentials(
        self, entry: BundleEntry, spec: BundleSpec, job: str, order: DeployOrder
    ) -> DeployOrder:
        """The order with copies of the credentials of a cluster and a registry.

        Raises:
            MissingReferenceError: there are none, or the kubeconfig is of another cluster by now.
            RegistryError, JobPendingError: a feature lacks what it adds, or still does.
            ApiError: a Secret can't be written.
        """
        target = await self.references.in_cluster(entry, spec)
        if target.spec != spec:
            text = "spec.kubeConfig stands for another cluster by now"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        if target.kubeconfig is not None:
            sealed = await self.seals.write_kubeconfig(entry, job, target.kubeconfig)
            order = replace(order, kubeconfig=sealed)
        access = await self.references.access(entry, spec)
        order = replace(order, login=access.login)
        if access.login is Login.SELECTED:
            await self.seals.write_login(entry, spec, job, access.selected)
        return await self.features.shape(entry, spec, order, job)

    def _nonce(self, entry: BundleEntry, job: str) -> str:
        return self.seals.derive(entry, job, "nonce")

    async def find(self, entry: BundleEntry, plan: PlanRecord) -> JobRecord | None:
        """The Job of a recorded plan; None where it doesn't exist."""
        return await self.jobs.find(entry.key, entry.uid, plan.job or "")

    async def progress(
        self, entry: BundleEntry, spec: BundleSpec, job: JobRecord, plan: PlanRecord
    ) -> Plan | PlanFault | PlanDelay:
        """The result of a plan's Job, or why there is none yet.

        Args:
            entry: the Bundle, which is reconciled once the result was read.
            spec: its spec.
            job: the Job as it is now.
            plan: its record in the status, with the message about a delay.

        Raises:
            ApiError: its pods, or the registry's credentials, can't be read now.
        """
        if not job.done:
            renew_at = await self.features.attend(entry, spec, job)
            delay = await self._delay(entry.key, job, spec, plan.message)
            return replace(delay, due=min(filter(None, (delay.due, renew_at)), default=None))
        content = await self.features.content(entry, spec, plan.digest or "")
        if content is None:
            return PlanDelay(plan.message)
        if isinstance(content, RegistryError):
            again = self.context.clock() + timedelta(seconds=ERROR_SECONDS)
            text = f"Job {job.name}: the chart can't be read: {content.message}; it is tried again"
            return PlanDelay(text, again)
        made_of = PlanSubject(ServiceAccount.of(spec), spec.werf_image, content)
        found = self._reader.read(entry.key, job, self._nonce(entry, job.name), made_of)
        return found or PlanDelay(plan.message)

    async def close(self) -> None:
        """End all reads of logs."""
        await self._reader.close()

    async def _delay(
        self, key: BundleKey, job: JobRecord, spec: BundleSpec, known: str | None
    ) -> PlanDelay:
        """Why an unfinished Job makes no progress; ``known`` where its pods aren't read yet.

        A Job whose Secrets were deleted is ended.
        """
        now, timing = self.context.clock(), self.context.timing
        queued = f"Job {job.name}, {ready_conditions.SUSPENDED}"
        if job.suspended:
            return PlanDelay(queued)
        patience = (job.began or job.created or now) + timedelta(seconds=timing.job_blocked)
        if now < patience:
            return PlanDelay(None if known == queued else known, patience)
        blocked = self.features.hinders(key, job)
        blocked = blocked or await find_blocked(self.context.client, self.jobs, job, spec)
        if blocked is not None and blocked.reason is BundleReason.PLAN_CHANGED:
            await self.jobs.give_up(job, blocked.reason)
        text = f"Job {job.name} is blocked: {blocked.message}" if blocked else None
        return PlanDelay(text, now + timedelta(seconds=timing.job_recheck))

    async def missing_namespace(self, spec: BundleSpec) -> str | None:
        """The name of the release's namespace where it is known not to exist, else None."""
        namespace = spec.project_namespace
        if spec.is_remote:
            return None  # it isn't known: the operator has no access there
        return namespace if await is_namespace_missing(self.context.client, namespace) else None

    async def missing_account(self, spec: BundleSpec) -> PlanFault | None:
        """The fault of a missing service account; None where it isn't known to be missing."""
        try:
            text = await missing_account(self.context.client, spec)
        except Forbidden:
            return None
        return PlanFault(text, BundleReason.SERVICE_ACCOUNT_MISSING) if text else None

    async def discard(self, entry: BundleEntry) -> None:
        """End the Jobs of plans that the status no longer has, and delete their Secrets."""
        needed = self.features.needed_jobs(entry.status)
        await self.jobs.end_further(entry.key, entry.uid, needed)
        await self.seals.remove_others(entry, needed)


LINE_BYTES: Final = 512
"""Bytes of a log's last line that are read."""


async def read_printed_plan(
    output: PodReader, pod: Mapping[str, Any], nonce: str
) -> Plan | BlockFault:
    """The plan in the log of a plan Job's pod, whose last line has how many lines to read.

    Raises:
        ApiError: it can't be read.
    """
    last = await output.read_log(pod, tail_lines=1, limit_bytes=LINE_BYTES)
    lines = block_lines(last, nonce)
    if isinstance(lines, BlockFault):
        return lines
    log_end = await output.read_log(pod, tail_lines=lines, limit_bytes=MAX_TEXT)
    return read_block(log_end, nonce)


async def is_namespace_missing(client: KubeClient, namespace: str) -> bool:
    """Whether a release's namespace doesn't exist; False where reading it is forbidden.

    Raises:
        ApiError: it can't be read now.
    """
    try:
        await client.get(NAMESPACES, None, namespace)
    except NotFound:
        return True
    except Forbidden:
        log.debug("namespace %s can't be read", namespace)
    return False
