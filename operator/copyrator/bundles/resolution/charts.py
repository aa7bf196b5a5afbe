"""What the chart of a Bundle's digest can do, for those who make and judge its plans."""

from __future__ import annotations

from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy.chart.facts import ChartFacts
from copyrator.bundles.references.reader import MissingReferenceError, References
from copyrator.bundles.resolution.polls import Polls
from copyrator.bundles.resolution.queries import PendingError, Queries
from copyrator.oci.errors import RegistryError

ERROR_SECONDS: Final = 30.0
"""Seconds after which a chart that couldn't be read is requested again."""


class Charts:
    """The charts of all Bundles; those that the gate `vendored` judged are known."""

    def __init__(self, context: Context, references: References, polls: Polls) -> None:
        self._context = context
        self._references = references
        self._polls = polls

    async def of(
        self, entry: BundleEntry, spec: BundleSpec, digest: str
    ) -> ChartFacts | RegistryError | None:
        """The facts of a digest's chart, at once where it was judged before.

        None while it is being read, as after a restart: the Bundle is requeued when it is there.
        It isn't requested while updates of the Bundle are disabled. An error of the registry isn't
        kept: after ERROR_SECONDS the chart is requested again.

        Raises:
            ApiError: the Secret of ``spec.auth`` or the CA can't be read now.
        """
        try:
            access = await self._references.access(entry, spec)
        except MissingReferenceError as error:
            return ChartFacts(unreadable=str(error))
        since = self._context.monotonic() - ERROR_SECONDS
        try:
            queries = Queries(entry, spec, access, self._polls, since)
            answer = queries.chart(digest, known_only=entry.is_paused)
        except PendingError:
            return None
        return answer.chart or answer.error
