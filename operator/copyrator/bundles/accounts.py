"""Checks for missing service accounts of Bundles: rarely, and once for all Bundles of an account.

The operator may get a service account but not watch any, so a missing one is requested again with
growing pauses. Meanwhile a Bundle without its account costs as much as one that is deployed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.bundles.blocked import missing_account
from copyrator.bundles.cache import BundleEntry
from copyrator.bundles.context import Context
from copyrator.kube.errors import Forbidden

FIRST_LOOK: Final = 15.0
"""Seconds before a missing account is requested again; the next wait is twice as long."""
RAREST_LOOK: Final = 300.0
"""Seconds between two requests at most; less where the Bundle's interval is shorter."""
SHARING: Final = 1.0
"""Seconds for which a response also serves a Bundle that checks for the first time."""


@dataclass(slots=True)
class _Lack:
    """An account that is missing."""

    text: str
    looked_at: float
    """Monotonic seconds, as `next_look`."""
    next_look: float
    wait: float
    waiting: set[BundleKey] = field(default_factory=set)


class Accounts:
    """The service accounts that were found missing, for all Bundles."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lacks: dict[tuple[str, str], _Lack] = {}

    def has_come(self, spec: BundleSpec) -> bool:
        """Whether another Bundle's request found the missing account, or was refused."""
        return (spec.namespace, spec.service_account) not in self._lacks

    async def missing(
        self, entry: BundleEntry, spec: BundleSpec, *, anew: bool = False
    ) -> str | None:
        """A message where the account is missing; requests it only when a check is due.

        `anew` requests it in any case, except right after another Bundle did. The Bundle whose
        request failed is requeued for the next one; all waiting Bundles are requeued once the
        account exists.
        """
        account = spec.namespace, spec.service_account
        now = self._context.monotonic()
        lack = self._lacks.get(account)
        if lack and now < (lack.looked_at + SHARING if anew else lack.next_look):
            lack.waiting.add(entry.key)
            return lack.text
        is_due = lack is None or now >= lack.next_look
        if lack and is_due:
            lack.next_look = now + lack.wait  # no other Bundle requests it meanwhile
        try:
            text = await missing_account(self._context.client, spec)
        except Forbidden:
            self._visit_waiting(entry.key, account)  # unknown from now on: each reports it itself
            raise
        lack = self._lacks.get(account)
        if text is None:
            self._visit_waiting(entry.key, account)
            return None
        if lack is None:
            lack = self._lacks[account] = _Lack(text, now, now, FIRST_LOOK / 2)
        if is_due:
            lack.wait = min(lack.wait * 2, RAREST_LOOK, max(spec.interval, 1.0))
            lack.next_look = now + lack.wait
            look_at = self._context.clock() + timedelta(seconds=lack.wait)
            self._context.memory(entry.key).account_at = look_at
        lack.looked_at = now
        lack.waiting.add(entry.key)
        return text

    def _visit_waiting(self, finder: BundleKey, account: tuple[str, str]) -> None:
        lack = self._lacks.pop(account, None)
        if lack is not None:
            for key in lack.waiting - {finder}:
                self._context.queue.add(key)

    def forget(self, key: BundleKey) -> None:
        """A Bundle's account isn't missing (any more)."""
        for account, lack in list(self._lacks.items()):
            lack.waiting.discard(key)
            if not lack.waiting:
                del self._lacks[account]
