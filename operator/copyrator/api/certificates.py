"""Certificates in a rule's sources: their part of its status, and when that changes."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from copyrator.api.conditions import Condition, ConditionStatus, FurtherCondition
from copyrator.api.reasons.rules import CertificateReason
from copyrator.api.schema import TIME, SpecError, StatusMap, custom, kept
from copyrator.api.text import format_time, parse_time

MAX_CERTIFICATES: Final = 5
"""Certificates that a status holds: those that end soonest."""
MAX_COMMON_NAME: Final = 64
"""Characters of a common name that are kept: the limit of RFC 5280."""
MAX_SOURCE: Final = 512
"""Characters of a certificate's source, and of its key, that are kept."""
_MORE: Final = re.compile(
    r"; ([1-9][0-9]*) more in status[.]certificates; renew it at the source\Z", re.ASCII
)
"""The end of a message about several certificates."""
CREDENTIAL: Final = "kubeconfig "
"""Begins the source of a token or certificate by which the sources are read, then the Secret."""
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""An earlier end is reported as this one."""


def _read_date(raw: Any) -> datetime:
    found = parse_time(raw)
    if found is None:
        raise SpecError("", "isn't a time")
    return whole_seconds(found)


_DATE: Final = custom(_read_date, TIME.schema)


class Certificate(StatusMap, frozen=True, order=True):
    """The end of one certificate; sorted by it."""

    not_after: Annotated[datetime, _DATE]
    """When it ends."""
    source: Annotated[str, kept(MAX_SOURCE)]
    """The source that has it, as namespace/name; of a rule with spec.sources the names of all its
    sources; of the credential of another cluster kubeconfig and the Secret, as namespace/name."""
    key: Annotated[str, kept(MAX_SOURCE)]
    """Its key, in the source or the rendered object."""
    common_name: Annotated[str, kept(MAX_COMMON_NAME)] = ""
    """The common name of its subject, if it has one."""
    not_before: Annotated[datetime, _DATE] = EARLIEST
    """When it begins to be valid."""

    @property
    def noun(self) -> str:
        """What it is, for messages."""
        return "credential" if self.source.startswith(CREDENTIAL) else "certificate"

    def to_string(self) -> str:
        """``api.example.com (infra/tls, key tls.crt)``."""
        where = f"{self.source}, key {self.key}"
        return f"{self.common_name} ({where})" if self.common_name else f"in {where}"


def soonest(certificates: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """Those that end first, each once, sorted; no more than a status holds."""
    return tuple(heapq.nsmallest(MAX_CERTIFICATES, set(certificates)))


def whole_seconds(moment: datetime) -> datetime:
    """A time of a certificate as the status has it."""
    return moment.replace(microsecond=0) if moment > EARLIEST else EARLIEST


def expiring(
    certificates: Sequence[Certificate], now: datetime, warning: float
) -> FurtherCondition | None:
    """The condition CertificateExpiring; None where there is no certificate.

    ``certificates`` are sorted; ``warning`` is how many seconds before an end it is True. Its
    message changes only when a certificate begins to be warned of, ends, or is replaced.
    """
    if not certificates:
        return None
    first = certificates[0]
    due = sum(_left(one, now) <= warning for one in certificates)
    end = format_time(first.not_after)
    if not due:
        return FurtherCondition(
            ConditionStatus.FALSE,
            CertificateReason.VALID,
            f"the first {first.noun} to expire is {first.to_string()}, at {end}",
        )
    over = _left(first, now) <= 0
    more = f"; {due - 1} more in status.certificates" if due > 1 else ""
    return FurtherCondition(
        ConditionStatus.TRUE,
        CertificateReason.EXPIRED if over else CertificateReason.EXPIRING,
        f"the {first.noun} {first.to_string()} {'expired' if over else 'expires'} at {end}{more}; "
        "renew it at the source",
    )


def warned(condition: Condition) -> int:
    """How many certificates, from the first of the status on, a stored condition warns of."""
    if not condition.is_true:
        return 0
    more = _MORE.search(condition.message or "")
    return 1 + int(more[1]) if more else 1


def seconds_until_transition(
    certificates: Iterable[Certificate], now: datetime, warning: float
) -> float | None:
    """Seconds until the condition changes although no source does; None: it doesn't."""
    moments = (
        moment
        for one in certificates
        for moment in (_left(one, now) - warning, _left(one, now))
        if moment > 0
    )
    return min(moments, default=None)


def _left(certificate: Certificate, now: datetime) -> float:
    return (certificate.not_after - now).total_seconds()
