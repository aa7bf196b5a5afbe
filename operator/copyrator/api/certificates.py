"""Certificates in a rule's sources: their part of its status, and when that changes."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.fields import maps_in
from copyrator.api.reasons.rules import CertificateReason
from copyrator.api.times import format_time, parse_time

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


@dataclass(frozen=True, slots=True, order=True)
class Certificate:
    """The end of one certificate; sorted by it."""

    not_after: datetime
    """In whole seconds."""
    source: str
    """``namespace/name`` of the object that has it, or the names of a template's sources."""
    key: str
    common_name: str = ""
    """Empty where its subject has none."""
    not_before: datetime = EARLIEST
    """When it begins to be valid, in whole seconds."""

    @property
    def noun(self) -> str:
        """What it is, for messages."""
        return "credential" if self.source.startswith(CREDENTIAL) else "certificate"

    def to_dict(self) -> dict[str, str]:
        """As in the status."""
        found = {"source": self.source, "key": self.key, "notAfter": format_time(self.not_after)}
        if self.not_before > EARLIEST:
            found["notBefore"] = format_time(self.not_before)
        return found | ({"commonName": self.common_name} if self.common_name else {})

    def to_string(self) -> str:
        """``api.example.com (infra/tls, key tls.crt)``."""
        where = f"{self.source}, key {self.key}"
        return f"{self.common_name} ({where})" if self.common_name else f"in {where}"


def soonest(certificates: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """Those that end first, each once, sorted; no more than a status holds."""
    return tuple(heapq.nsmallest(MAX_CERTIFICATES, set(certificates)))


def read_certificates(status: Mapping[str, Any]) -> tuple[Certificate, ...]:
    """The certificates of a stored status; malformed ones are left out."""
    found: list[Certificate] = []
    for item in maps_in(status, "certificates")[:MAX_CERTIFICATES]:
        ends = parse_time(item.get("notAfter"))
        begins = parse_time(item.get("notBefore")) or EARLIEST
        texts = [item.get(part, "") for part in ("source", "key", "commonName")]
        if ends is not None and all(isinstance(text, str) for text in texts):
            source, key, name = texts[0][:MAX_SOURCE], texts[1][:MAX_SOURCE], texts[2]
            dates = whole_seconds(ends), whole_seconds(begins)
            found.append(Certificate(dates[0], source, key, name[:MAX_COMMON_NAME], dates[1]))
    return soonest(found)


def whole_seconds(moment: datetime) -> datetime:
    """A time of a certificate as the status has it."""
    return max(moment, EARLIEST).replace(microsecond=0)


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


def warned(condition: Mapping[str, Any]) -> int:
    """How many certificates, from the first of the status on, a stored condition warns of."""
    if condition.get("status") != ConditionStatus.TRUE:
        return 0
    more = _MORE.search(str(condition.get("message") or ""))
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
