"""Deletes the Secrets of Jobs that a former process has left."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.text import parse_time
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.choose import ERROR_SECONDS
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Features
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.engine.step import AT_ONCE
from copyrator.kube.errors import ApiError

log = logging.getLogger(__name__)

LEFT_WITHIN: Final = timedelta(hours=1)
"""Time after a Job's end in which a new process removes what an earlier one left."""


@dataclass(frozen=True, slots=True)
class SecretTidier:
    """Deletes them once in a process; of all Bundles."""

    context: Context
    seals: SealStore
    features: Features

    async def tidy(
        self, entry: BundleEntry, spec: BundleSpec, *further: str | None, may_have: bool = False
    ) -> datetime | None:
        """Delete what a Bundle's Jobs don't need, where one may have left something.

        Args:
            entry: the Bundle.
            spec: its spec.
            further: when Jobs ended, beside that of the last attempt.
            may_have: whether its Jobs may have had Secrets, beside those for logins and clusters.

        Returns:
            When to try again, as an error stops nothing.
        """
        if self.seals.is_tidied(entry.key):
            return None
        has_secrets = self.features.have_secrets(spec)
        if not (may_have or spec.auth or has_secrets or spec.is_remote):
            return None
        since = AT_ONCE if has_secrets else self.context.clock() - LEFT_WITHIN
        ends = map(parse_time, (*further, entry.status.attempted.finished_at))
        if any(end >= since for end in ends if end is not None):
            try:
                needed = self.features.needed_jobs(entry.status)
                await self.seals.remove_others(entry, needed)
            except ApiError as error:
                log.debug("%s: Secrets can't be deleted now: %s", entry.key, error)
                return self.context.clock() + timedelta(seconds=ERROR_SECONDS)
        self.seals.set_tidied(entry.key)
        return None
