"""What the chart of a gated Bundle's version is."""

from __future__ import annotations

from dataclasses import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.choose import ERROR_SECONDS, PendingError, RegistryReader
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Content, Feature, Parts, Registry
from copyrator.bundles.engine.gate import Candidate, Findings, Gates, Occasion, Waiting
from copyrator.bundles.engine.references import MissingReferenceError, ReferenceReader
from copyrator.bundles.engine.registry import RegistryPoller
from copyrator.bundles.evidence.attached import AttachedReader
from copyrator.bundles.features.charts.facts import ChartFacts
from copyrator.bundles.features.charts.gates import PLAIN, VENDORED, FoundChart
from copyrator.bundles.features.charts.reader import ChartReader
from copyrator.bundles.jobs.checks import checked_deploy
from copyrator.bundles.jobs.job import DeployOrder
from copyrator.oci.errors import RegistryError


class ChartsFeature(Feature):
    """Of gated Bundles; of others where one of their versions is only planned."""

    reaches = False  # what gates a Bundle has it from another feature

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.uses = context.is_gated
        self.gates = Gates(version=(replace(VENDORED, concerns=self.uses), PLAIN))

    def connect(self, parts: Parts) -> None:
        """Make what reads charts."""
        context = self.context
        self._references = parts.of(ReferenceReader)
        self._polls = parts.of(RegistryPoller)
        self._reader = ChartReader(
            context.oci, parts.of(AttachedReader).isolated, context.timing.chart_timeout
        )

    def ask(
        self, registry: Registry, candidate: Candidate, occasion: Occasion, found: Findings
    ) -> FoundChart:
        """The chart of a version."""
        facts = registry.look_up(self._reader, candidate.digest, None)
        if isinstance(facts, RegistryError):
            text = f"{facts.message}; it is tried again"
            return FoundChart(Waiting(BundleReason.REGISTRY_UNREACHABLE, text))
        return FoundChart(facts)

    async def shape(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, job: str
    ) -> DeployOrder:
        """A deploy ends where werf has to download dependencies."""
        return replace(order, command=checked_deploy) if spec.is_gated else order

    async def content(
        self, entry: BundleEntry, spec: BundleSpec, digest: str
    ) -> Content | RegistryError | None:
        """What is known of its chart; it isn't requested while updates are disabled."""
        try:
            access = await self._references.access(entry, spec)
        except MissingReferenceError as error:
            return _content(ChartFacts(unreadable=str(error)))
        since = self.context.monotonic() - ERROR_SECONDS
        registry = RegistryReader(entry, spec, access, self._polls, since)
        try:
            found = registry.look_up(self._reader, digest, None, known_only=entry.is_paused)
        except PendingError:
            return None
        return found if isinstance(found, RegistryError) else _content(found)


def _content(facts: ChartFacts) -> Content:
    if facts.unreadable is not None:
        return Content((f"the chart can't be judged: {facts.unreadable}",))
    return Content(facts.unbound, facts.literals)


FEATURE = ChartsFeature
