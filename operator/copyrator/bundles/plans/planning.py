"""What plans of all purposes share, and what holds Jobs to them; the controller makes it once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.choose import PollStates
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Features, Parts
from copyrator.bundles.engine.job_client import JobClient
from copyrator.bundles.engine.references import ReferenceReader
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.jobs.redaction import Redactor
from copyrator.bundles.plans.guard.ends import JobEnds
from copyrator.bundles.plans.guard.enforcement import EnforcementReviewer
from copyrator.bundles.plans.guard.listing import Guard
from copyrator.bundles.plans.guard.lists import GuardLists, GuardTiming
from copyrator.bundles.plans.jobs import PlanJobClient
from copyrator.bundles.plans.queue import PlanQueue
from copyrator.bundles.plans.record import PlanResult
from copyrator.bundles.plans.secrets import InputsStore, InventoryStore, PlanStore, ValuesSealer
from copyrator.bundles.plans.settings import PlanSettings
from copyrator.workqueue.isolated import Isolated

Judge = Callable[[BundleEntry, BundleSpec, BundleStatus, PlanResult], Awaitable[BundleStatus]]
"""Returns the status with what a plan of the next deploy says beside its record."""


class Planning:
    """The parts that make, queue and store plans, and the lists that hold Jobs to them."""

    def __init__(self, context: Context, parts: Parts) -> None:
        self.context, self.all_jobs = context, parts.of(JobClient)
        references, self.seals = parts.of(ReferenceReader), parts.of(SealStore)
        self.values = ValuesSealer(self.seals, references)
        self.jobs = PlanJobClient(
            context,
            self.all_jobs,
            references,
            parts.of(Redactor),
            values=self.values,
            features=parts.of(Features),
            inputs=InputsStore(context, self.seals, parts.of(Isolated)),
        )
        self.stored = PlanStore(context, self.seals)
        self.inventories = InventoryStore(context.client, self.seals)
        settings, own = context.settings, context.settings.of(PlanSettings)
        self.queue = PlanQueue(context, self.all_jobs, own.max_plan_jobs)
        self.poll_states = parts.of(PollStates)
        home, informers = settings.lease_namespace or settings.namespace, context.informers
        self.guard = guard = Guard(own.guard_policy, home)
        self.enforcement = EnforcementReviewer(context.reviewer, guard, context.monotonic)
        kept, ends = context.timing.of(GuardTiming).kept, JobEnds(context.client, informers)
        self.lists = GuardLists(context.client, guard, informers, ends, kept=kept)
        self.judges: list[Judge] = []
        """Are asked about each plan of a next deploy that was made, in this order."""

    def start(self) -> None:
        """Watch the lists of guarded Jobs."""
        self.lists.start()

    async def close(self) -> None:
        """End that, and requests in flight."""
        await self.lists.close()
        await self.jobs.close()
