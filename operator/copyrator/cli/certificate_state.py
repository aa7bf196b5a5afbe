"""The certificates in copies, as commands show them: pure, from rules' statuses and the time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from copyrator.api.certificates import Certificate, CertificateReason, read_certificates, warned
from copyrator.api.conditions import ConditionStatus, ConditionType, conditions_by_type
from copyrator.api.times import format_time

Body = Mapping[str, Any]


class Validity(StrEnum):
    """The state of a certificate in lists."""

    ENDED = "ended"
    EARLY = "not valid yet"
    ENDING = "ends soon"
    VALID = "valid"


@dataclass(frozen=True, slots=True, order=True)
class CertificateRow:
    """A certificate in the copies of a rule; sorted by its end."""

    certificate: Certificate
    namespace: str
    """Of the rule."""
    name: str
    validity: Validity = field(compare=False)
    text: str = field(compare=False)
    """``until 2026-01-01T00:00:00Z (12d)``."""

    @property
    def shown(self) -> str:
        """The rule as ``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def left(certificate: Certificate, now: datetime) -> str:
    """How long a certificate is valid: ``12d``, ``5h``, or that it isn't."""
    if certificate.not_after <= now:
        return Validity.ENDED
    if certificate.not_before > now:
        return Validity.EARLY
    seconds = int((certificate.not_after - now).total_seconds())
    return f"{seconds // 86400}d" if seconds >= 2 * 86400 else f"{seconds // 3600}h"


def first_end(body: Body, now: datetime) -> str:
    """How long all certificates in a rule's copies are valid; a dash where there is none."""
    found = read_certificates(body.get("status") or {})
    return left(found[0], now) if found else "-"


def period(certificate: Certificate, now: datetime) -> str:
    """``until 2026-01-01T00:00:00Z (12d)``; with the beginning if that is to come."""
    early = now < certificate.not_before < certificate.not_after
    begins = f"from {format_time(certificate.not_before)} " if early else ""
    return f"{begins}until {format_time(certificate.not_after)} ({left(certificate, now)})"


def lines(status: Body, now: datetime, source: str | None = None) -> Iterator[str]:
    """``api.example.com (infra/tls, key tls.crt) until … (12d)``, the first to end first.

    Those of one ``source`` (``namespace/name``), or of all.
    """
    for certificate in read_certificates(status):
        if source in (None, certificate.source):
            yield f"{certificate.to_string()} {period(certificate, now)}"


def warning(body: Body) -> str:
    """The operator's message about a certificate that ends soon or has ended; else empty."""
    condition = _condition(body)
    is_warned = condition.get("status") == ConditionStatus.TRUE
    return str(condition.get("message") or "") if is_warned else ""


def is_expired(body: Body) -> bool:
    """Whether the operator has found that a certificate in a rule's copies has ended."""
    return bool(_condition(body).get("reason") == CertificateReason.EXPIRED)


def first_rows(rules: Iterable[Body], now: datetime, most: int) -> list[CertificateRow]:
    """The certificates of all rules that end first."""
    return heapq.nsmallest(most, (row for body in rules for row in _rows(body, now)))


def _rows(body: Body, now: datetime) -> Iterator[CertificateRow]:
    metadata, due = body["metadata"], warned(_condition(body))
    for number, one in enumerate(read_certificates(body.get("status") or {})):
        validity = Validity.VALID
        if one.not_after <= now:
            validity = Validity.ENDED
        elif one.not_before > now:
            validity = Validity.EARLY
        elif number < due:  # the operator's setting decides, which isn't known here
            validity = Validity.ENDING
        yield CertificateRow(
            one, metadata["namespace"], metadata["name"], validity, period(one, now)
        )


def _condition(body: Body) -> Mapping[str, Any]:
    conditions = (body.get("status") or {}).get("conditions")
    return conditions_by_type(conditions).get(ConditionType.CERTIFICATE_EXPIRING, {})
