"""A Bundle none of whose attempts runs: ask the registry when it is time to, decide, begin.

Each visit does what is due and goes away; nothing here waits for a registry or a Job.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    Available,
    BundleReason,
    BundleStatus,
    LastError,
    Rejected,
)
from copyrator.api.times import format_time
from copyrator.bundles import state, verdicts
from copyrator.bundles.candidates import Choice, Verdict, explain
from copyrator.bundles.requests import pending_request
from copyrator.bundles.resolution import (
    Wish,
    kept_ready,
    resolved,
    unresolved,
    with_error,
)
from copyrator.bundles.schedule import next_slot, poll_retry
from copyrator.kube.errors import NotFound
from copyrator.kube.resources import SERVICEACCOUNTS
from copyrator.oci.errors import AuthenticationFailed, RateLimited, RegistryError
from copyrator.reconcile.bundle_context import Context
from copyrator.reconcile.bundle_offers import Offer, Offers
from copyrator.reconcile.bundle_polls import Polls
from copyrator.reconcile.bundle_references import Access, MissingReferenceError, References
from copyrator.reconcile.bundle_runs import Runs
from copyrator.reconcile.bundle_status import StatusWriter
from copyrator.registry.bundles import BundleEntry

ACCOUNT_RETRY: Final = 15.0
"""Seconds between two looks for a service account that is missing."""


class Deploys:
    """The visit to a Bundle that neither is being deleted nor has a Job that runs."""

    def __init__(
        self,
        context: Context,
        references: References,
        writer: StatusWriter,
        polls: Polls,
        runs: Runs,
    ) -> None:
        self._context = context
        self._references = references
        self._writer = writer
        self._offers = Offers(context, writer, polls)
        self._runs = runs

    async def visit(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Do what is due.

        Raises:
            ApiError, StaleError: what was wished for is still wished for at the next visit.
        """
        memory = self._context.memory(entry.key)
        if entry.is_paused:
            memory.wish = memory.asked_since = None
            self._context.wake_at(entry.key)
            status = replace(entry.status, ready=kept_ready(entry.status), next_poll_at=None)
            await self._writer.write(entry, status, verdicts.autoupdate_disabled(status))
            return
        try:
            access = await self._references.access(entry, spec)
            values_hash = await self._references.values_hash(entry, spec)
        except MissingReferenceError as error:
            await self._report_missing(entry, spec, error)
            return
        wish = _wish(entry, access, values_hash)
        offer = await self._offers.ask(entry, spec, access, wish)
        if offer is None:
            return
        asked_since = memory.asked_since
        if offer.error is not None:
            await self._poll_failed(entry, spec, offer.error)
        elif offer.choice is not None and offer.choice.tag is None:
            await self._nothing_chosen(entry, spec, offer.choice)
        elif await self._decide(entry, spec, offer, values_hash):
            wish = replace(wish, request="")
        memory.wish = wish
        if offer.error is None:
            memory.answered_at = self._context.monotonic()
        if memory.asked_since == asked_since:  # else a push was announced meanwhile
            memory.asked_since = None

    async def _poll_failed(
        self, entry: BundleEntry, spec: BundleSpec, error: RegistryError
    ) -> None:
        now = self._context.clock()
        memory = self._context.memory(entry.key)
        failures = memory.poll_failures + 1
        wait = error.retry_after if isinstance(error, RateLimited) else None
        next_poll = poll_retry(spec, failures, now, wait)
        refused = isinstance(error, AuthenticationFailed)
        status = replace(
            with_error(entry.status, error.reason, error.message, now),
            ready=0 if refused else kept_ready(entry.status),
            next_poll_at=format_time(next_poll),
        )
        verdict = verdicts.unusable(error.reason, error.message, status)
        await self._writer.write(entry, status, verdict)
        memory.poll_failures, memory.next_poll = failures, next_poll
        self._context.wake_at(entry.key, next_poll)

    async def _report_missing(
        self, entry: BundleEntry, spec: BundleSpec, error: MissingReferenceError
    ) -> None:
        """A watch calls when it appears; the slot is for references that aren't watched."""
        now = self._context.clock()
        is_values = error.reason is BundleReason.VALUES_MISSING
        status = replace(
            with_error(entry.status, error.reason, str(error), now),
            ready=kept_ready(entry.status) if is_values else 0,
        )
        await self._writer.write(entry, status, verdicts.unusable(error.reason, str(error), status))
        memory = self._context.memory(entry.key)
        memory.wish = memory.asked_since = None
        self._context.wake_at(entry.key, next_slot(spec, now))

    async def _nothing_chosen(self, entry: BundleEntry, spec: BundleSpec, choice: Choice) -> None:
        """A whole list has no tag to go on to: say so and leave what is deployed as it is."""
        now = self._context.clock()
        memory = self._context.memory(entry.key)
        memory.poll_failures, memory.next_poll = 0, next_slot(spec, now)
        reason = BundleReason.NO_MATCHING_VERSION
        if choice.verdict is Verdict.WOULD_DOWNGRADE:
            reason = BundleReason.WOULD_DOWNGRADE
        text = explain(choice, spec.version, entry.status.deployed.version)
        status = unresolved(entry.status, choice.rejected, memory.next_poll, now)
        status = with_error(status, reason, text, now)
        verdict = verdicts.unusable(reason, text, status)
        if spec.suspend:
            verdict = verdicts.suspended(status)
        await self._writer.write(entry, status, verdict)
        self._context.wake_at(entry.key, memory.next_poll)

    async def _decide(
        self, entry: BundleEntry, spec: BundleSpec, offer: Offer, values_hash: str | None
    ) -> bool:
        """Act on the registry's answer. True where a request was acted on."""
        now = self._context.clock()
        memory = self._context.memory(entry.key)
        memory.poll_failures, memory.next_poll = 0, next_slot(spec, now)
        wanted = state.Wanted(
            version=offer.tag,
            digest=offer.digest,
            reference=spec.reference,
            values_hash=values_hash,
            spec_hash=entry.spec_hash,
            generation=entry.generation,
            request=pending_request(entry.annotations, entry.status),
        )
        decision = state.decide(entry.status, wanted, spec.retry, now)
        available = Available(
            version=offer.tag, digest=offer.digest, rejected=_rejected(offer, decision)
        )
        status = resolved(entry.status, available, memory.next_poll, now)
        if spec.suspend:
            await self._writer.write(entry, status, verdicts.suspended(status))
            self._context.wake_at(entry.key, memory.next_poll)
            return False
        if decision.action is state.Action.DEPLOY:
            assert decision.need is not None
            return await self._begin(entry, spec, status, wanted, decision.need)
        if decision.action is state.Action.WAIT:
            verdict = verdicts.will_retry(status)
        elif decision.action is state.Action.QUARANTINE:
            verdict = verdicts.quarantined(status)
        else:
            verdict = verdicts.deployed(status, spec.ignored_env)
            status = replace(status, last_error=LastError())
        await self._writer.write(entry, status, verdict)
        self._context.wake_at(entry.key, memory.next_poll, decision.until)
        return False

    async def _begin(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        status: BundleStatus,
        wanted: state.Wanted,
        need: state.Need,
    ) -> bool:
        """Record the attempt, then make its Job."""
        now = self._context.clock()
        if not await self._has_account(spec):
            text = (
                f"ServiceAccount {spec.namespace}/{spec.service_account}, under which werf runs, "
                "doesn't exist; make it and give it the rights that the bundle needs"
            )
            reason = BundleReason.SERVICE_ACCOUNT_MISSING
            status = with_error(status, reason, text, now)
            await self._writer.write(entry, status, verdicts.unusable(reason, text, status))
            self._context.memory(entry.key).next_poll = now + timedelta(seconds=ACCOUNT_RETRY)
            self._context.wake_at(entry.key, now + timedelta(seconds=ACCOUNT_RETRY))
            return False
        status = self._runs.named(entry, spec, state.begin(status, wanted, now))
        verdict = verdicts.deploying(status, need)
        entry = await self._writer.write(entry, status, verdict)
        await self._runs.make_job(entry, spec)
        return True

    async def _has_account(self, spec: BundleSpec) -> bool:
        """Without it the Job controller makes no pod, and says so only in an Event."""
        try:
            await self._context.client.get(SERVICEACCOUNTS, spec.namespace, spec.service_account)
        except NotFound:
            return False
        return True


def _wish(entry: BundleEntry, access: Access, values_hash: str | None) -> Wish:
    request = pending_request(entry.annotations, entry.status)
    return Wish(
        generation=entry.generation,
        spec_hash=entry.spec_hash,
        values_hash=values_hash,
        request=request.token if request else "",
        login=access.credential.fingerprint if access.credential else "",
    )


def _rejected(offer: Offer, decision: state.Decision) -> tuple[Rejected, ...]:
    """What a range passed over; a tag that failed too often is none of it once it is new again."""
    found = offer.choice.rejected if offer.choice else ()
    if decision.action is state.Action.QUARANTINE:
        return found
    return tuple(one for one in found if one.version != offer.tag)
