"""Attests in the registry what Bundles run: signs and pushes the statements in their status.

What is recorded in ``status.attest`` is pushed, by a task of its own: a push that fails or takes
long holds no deploy up. A restart, or another leader, pushes the same again, which a registry takes
as one.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.api.reasons import Reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import InvalidSpec
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context, cancel_all
from copyrator.bundles.engine.poll import retry_delay
from copyrator.bundles.engine.references import MissingReferenceError
from copyrator.bundles.engine.step import Change, Step
from copyrator.bundles.features.attest.fields import (
    AttestationsStatus,
    AttestSpec,
    AttestState,
    AttestStatus,
    StatementKey,
    key_of,
)
from copyrator.bundles.features.attest.keys import AttestKeyReader
from copyrator.bundles.features.attest.metrics import AttestMetrics
from copyrator.bundles.features.attest.reasons import AttestReason
from copyrator.bundles.features.attest.settings import AttestSettings
from copyrator.bundles.features.attest.statements import (
    AttestFault,
    AttestInput,
    PushResult,
    due_at,
    find_pending,
    may_attest,
    record_push,
    statement_of,
)
from copyrator.bundles.features.promotion.fields import read_withdrawal
from copyrator.bundles.features.signatures.policy import find_signer
from copyrator.bundles.features.signatures.store import TrustStore
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.kube.resources import NAMESPACES, UID_NAMESPACE
from copyrator.oci.errors import RegistryError, TagNotFound
from copyrator.oci.exchange import Repository
from copyrator.oci.statements import PushTarget, StatementPusher
from copyrator.signatures.model import TrustError

log = logging.getLogger(__name__)

RETRY: Final = 15.0
"""Seconds before a push that failed is tried again, doubling up to 15 min."""
GONE_RETRY: Final = 3600.0
"""Of the withdrawal of what the registry doesn't have: it may come back with the statement."""


class _PushError(Exception):
    """Why a statement can't be pushed."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FailedPush:
    """A statement's last push, which failed."""

    fault: AttestFault
    count: int
    """Of consecutive ones."""
    at: datetime
    retry_at: datetime

    def is_due(self, now: datetime) -> bool:
        """Whether it is tried again: also where the clock was set back."""
        return not self.at <= now < self.retry_at


@dataclass(slots=True)
class AttestMemory:
    """The pushes of a Bundle's statements to the registry."""

    task: asyncio.Task[None] | None = None
    pushed: PushResult | None = None
    """The last statement that was pushed."""
    failed: dict[StatementKey, FailedPush] = field(default_factory=dict)
    spec: BundleSpec | None = None
    """By which they have failed."""

    @property
    def faults(self) -> dict[StatementKey, AttestFault]:
        """Why the last push failed, by statement."""
        return {key: one.fault for key, one in self.failed.items()}


def attest_input(context: Context, entry: BundleEntry) -> AttestInput | None:
    """What decides about a Bundle's statements beside its status; None: it attests nothing."""
    spec = entry.spec
    if isinstance(spec, InvalidSpec) or not spec.uses(AttestSpec):
        return None
    return AttestInput(
        spec=spec,
        is_allowed=may_attest(spec, context.settings.of(AttestSettings).attest_environments),
        is_deleted=entry.deleting,
        withdrawal=read_withdrawal(entry.annotations),
        seen=context.seen(),
    )


class Attester:
    """Pushes the statements of all Bundles, one of each at a time."""

    def __init__(
        self,
        context: Context,
        keys: AttestKeyReader,
        trust: TrustStore,
        pusher: StatementPusher,
    ) -> None:
        self._context = context
        self._keys = keys
        self._trust = trust
        self._pusher = pusher
        self._cluster = ""
        context.memories.on_drop(self._cancel)

    async def close(self) -> None:
        """End all pushes."""
        memories = self._context.memories.each(AttestMemory)
        await cancel_all([one.task for _, one in memories if one.task is not None])
        await self._pusher.close()

    def faults(self, key: BundleKey) -> dict[StatementKey, AttestFault]:
        """Why the last push of a Bundle's statements failed."""
        return self._context.memories.of(key, AttestMemory).faults

    def pushed(self, key: BundleKey) -> PushResult | None:
        """A Bundle's last statement that was pushed."""
        return self._context.memories.of(key, AttestMemory).pushed

    def retry(self, key: BundleKey) -> None:
        """Push what has failed at once: what it failed by may have changed."""
        if (memory := self._context.memories.find(key, AttestMemory)) is not None:
            memory.failed.clear()

    def attest(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Push what the status has and the registry may lack; the Bundle is requeued afterwards."""
        if (around := attest_input(self._context, entry)) is None:
            return Step(entry)
        pushes = self._context.memories.of(entry.key, AttestMemory)
        due = due_at(entry.status.part(AttestationsStatus).attest, entry.status, around)
        status = record_push(entry.status, pushes.pushed)  # a deleted Bundle's isn't written
        pending = [] if entry.is_paused else find_pending(status, around)
        is_busy = pushes.task is not None and not pushes.task.done()
        if not pending or is_busy:
            return Step(entry, due=(due,))
        keys = {key_of(one) for one in pending} if pushes.spec == spec else set()
        pushes.failed = {key: one for key, one in pushes.failed.items() if key in keys}
        pushes.spec, now = spec, self._context.clock()
        for one in pending:  # those that fail hold no other up
            failed = pushes.failed.get(key_of(one))
            if failed is None or failed.is_due(now):
                name = f"attestation of {entry.key}"
                pushes.task = asyncio.create_task(self._push(entry, spec, one), name=name)
                return Step(entry, due=(due,))
        return Step(entry, due=(due, min(one.retry_at for one in pushes.failed.values())))

    async def _push(self, entry: BundleEntry, spec: BundleSpec, record: AttestStatus) -> None:
        memory = self._context.memories.of(entry.key, AttestMemory)
        count = self._context.metrics.of(AttestMetrics).attestations
        fault, retry_after = None, 0.0
        try:
            memory.pushed = await self._sign_and_push(entry, spec, record)
        except RegistryError as error:
            fault = AttestFault(error.reason, error.message)
            retry_after = error.retry_after or 0.0
            if type(error) is TagNotFound and not record.is_positive:
                retry_after = GONE_RETRY
                memory.pushed = PushResult(record, None, record.left or 0)
                if record.state != AttestState.GONE:
                    text = f"a withdrawal isn't pushed: {error.message}; it is if that comes back"
                    self._context.record(entry, fault.reason, text)
                    log.warning("%s: %s", entry.key, text)
        except _PushError as error:
            fault = AttestFault(error.reason, str(error))
        except Exception as error:  # else nothing would requeue the Bundle
            log.exception("%s: its statement can't be pushed", entry.key)
            text = f"the operator failed ({type(error).__name__}); it is tried again"
            fault = AttestFault(BundleReason.PUSH_REFUSED, text)
        before = memory.failed.pop(key_of(record), None)
        if fault is None:
            is_positive = record.is_positive
            count.labels(AttestState.ATTESTED if is_positive else AttestState.WITHDRAWN).inc()
        else:
            number, now = before.count + 1 if before else 1, self._context.clock()
            delay = max(retry_delay(RETRY, number), retry_after)
            retry_at = now + timedelta(seconds=delay)
            memory.failed[key_of(record)] = FailedPush(fault, number, now, retry_at)
            count.labels(fault.reason).inc()
        self._context.schedule.changed(entry.key, Change.WATCHED)

    async def _sign_and_push(
        self, entry: BundleEntry, spec: BundleSpec, record: AttestStatus
    ) -> PushResult:
        namespace = entry.key.namespace
        statement = statement_of(record, entry.status, spec, await self._find_cluster())
        if statement is None:
            raise _PushError(BundleReason.PUSH_REFUSED, "its record in status.attest isn't whole")
        try:
            found = await self._keys.access(entry, spec)
            bundle = await self._pusher.sign(found.key, statement, namespace)
            signers = await self._trust.signers(entry, spec)
        except MissingReferenceError as error:
            raise _PushError(error.reason, str(error)) from None
        except TrustError as error:
            raise _PushError(AttestReason.ATTEST_KEY_INVALID, str(error)) from None
        except ApiError as error:
            reason = BundleReason.FORBIDDEN if isinstance(error, Forbidden) else None
            raise _PushError(reason or AttestReason.ATTEST_KEY_INVALID, error.message) from None
        if (signer := await asyncio.to_thread(find_signer, bundle, signers)) is not None:
            text = f"{found.key.name} is trusted for signatures by {signer}: attest with another"
            raise _PushError(AttestReason.ATTEST_KEY_INVALID, text)
        repository = Repository(
            spec.registry,
            spec.repo,
            plain_http=spec.insecure,
            verify=not spec.skip_tls_verify,
            ca=found.access.ca,
        )
        pushed = await self._pusher.push(
            PushTarget(repository, found.access.credential),
            statement.digest,
            bundle,
            namespace,
            replaces=record.manifest,
        )
        kept = record.manifest not in (None, pushed.manifest) and not pushed.deleted
        return PushResult(record, pushed.manifest, (record.left or 0) + kept)

    async def _find_cluster(self) -> str:
        """What names this cluster in statements: the uid of its Namespace kube-system."""
        if not self._cluster:
            try:
                body = await self._context.client.get(NAMESPACES, None, UID_NAMESPACE)
            except ApiError as error:
                text = (
                    f"the Namespace {UID_NAMESPACE}, whose uid names this cluster, can't be read: "
                    f"{error.message}; with watchNamespaces the chart allows it by "
                    "attest.environments"
                )
                raise _PushError(BundleReason.FORBIDDEN, text) from None
            self._cluster = str(body["metadata"]["uid"])
        return self._cluster

    def _cancel(self, key: BundleKey) -> None:
        memory = self._context.memories.find(key, AttestMemory)
        if memory is not None and memory.task is not None:
            memory.task.cancel()
