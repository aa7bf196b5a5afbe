"""Converts an HTTP answer of the API server, or a failed request, to a typed error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import aiohttp

from copyrator.api.times import parse_retry_after
from copyrator.kube.errors import (
    AdmissionDenied,
    AlreadyExists,
    AnswerTooLarge,
    ApiError,
    BadRequest,
    BrokenAnswer,
    ConflictError,
    Forbidden,
    Gone,
    Invalid,
    NamespaceTerminating,
    NotFound,
    QuotaExceeded,
    ServerError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

RETRY_AFTER_CAP = 300.0
"""Seconds; a longer Retry-After is capped to this."""

_WEBHOOK = re.compile(r"""admission webhook ["'][^"']+["'] denied the request""")
_POLICY = re.compile(r"ValidatingAdmissionPolicy '[^']+' with binding '[^']+' denied request")
_TOO_LARGE = re.compile(
    r"request is too large|message larger than max|entity too large"
    r"|(?:may not be more than|must have at most|may not be longer than) \d{5,}(?: bytes)?"
)

_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: ConflictError,
    410: Gone,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
}


def from_answer(
    status: int, body: Mapping[str, Any] | None, headers: Mapping[str, str] | None = None
) -> ApiError:
    """Build the error for an HTTP answer.

    Args:
        status: the HTTP status (for an ERROR in a watch stream: the code in the Status object).
        body: the decoded Status object, None where the answer isn't one.
        headers: the answer's headers, for Retry-After.
    """
    body = body or {}
    message = str(body.get("message") or f"the API server responded with {status}")
    details = body.get("details")
    details = details if isinstance(details, Mapping) else {}
    reason = str(body.get("reason") or "")
    wait = _retry_after(headers or {}, details)
    kind = _classify(status, reason, message, details)
    if kind.default_reason not in (reason, "InternalError") and status not in (409, 410):
        reason = kind.default_reason
    return kind(message, status=status, reason=reason, details=details, retry_after=wait)


def no_answer(host: str, error: Exception) -> Unreachable:
    """Build the error for a request to `host` that raised an exception of aiohttp's."""
    if isinstance(error, aiohttp.ClientPayloadError):
        return BrokenAnswer(f"the response of {host} was truncated")
    if isinstance(error, TimeoutError):  # aiohttp's timeouts are TimeoutErrors too
        return Unreachable(f"{host} didn't respond in time", reason="Timeout")
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.strerror:
        text = error.os_error.strerror  # str(error) shows the repr of an SSLContext
    else:
        text = " ".join(str(error).split()) or type(error).__name__
    return Unreachable(f"{host} can't be reached: {text}")


def _classify(status: int, reason: str, message: str, details: Mapping[str, Any]) -> type[ApiError]:
    if 400 <= status < 500 and (_WEBHOOK.search(message) or _POLICY.search(message)):
        return AdmissionDenied
    if status in (400, 413, 422, 500) and _TOO_LARGE.search(message):
        return TooLarge
    special: type[ApiError] | None = None
    if status == 403 and _has_cause(details, "NamespaceTerminating"):
        special = NamespaceTerminating
    elif status == 403 and ("exceeded quota" in message or "failed quota" in message):
        special = QuotaExceeded
    elif status == 409 and reason == "AlreadyExists":
        special = AlreadyExists
    elif reason in {"Expired", "Gone"}:
        special = Gone
    return special or _BY_STATUS.get(status) or (ServerError if status >= 500 else ApiError)


def _has_cause(details: Mapping[str, Any], reason: str) -> bool:
    causes = details.get("causes") or ()
    return any(isinstance(cause, Mapping) and cause.get("reason") == reason for cause in causes)


_UNKNOWN_FIELD: Final = re.compile(r'unknown field "([^"]{1,253})"')


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    """Seconds from the header (a number or, from proxies, a date) or from the Status object."""
    value = headers.get("Retry-After") or details.get("retryAfterSeconds")
    seconds = parse_retry_after(value, headers) if value else None
    return None if seconds is None else min(max(seconds, 0.0), RETRY_AFTER_CAP)


def dropped_fields(warnings: Iterable[str]) -> set[str]:
    r"""The fields that the server has dropped, by its Warning headers.

    It sends these by default (``fieldValidation=Warn``): ``299 - "unknown field \"spec.x\""``.
    """
    found = (_UNKNOWN_FIELD.search(one.replace('\\"', '"')) for one in warnings)
    return {"".join(filter(str.isprintable, one[1])) for one in found if one}


async def read_answer(response: aiohttp.ClientResponse, most: int | None) -> bytes:
    """Read the whole answer.

    Raises:
        AnswerTooLarge: it is longer than `most` bytes; the connection is closed.
    """
    if most is None:
        return await response.read()
    chunks, left = [], most
    try:
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            left -= len(chunk)
            if left < 0:
                raise AnswerTooLarge(f"the response is longer than {most} bytes")
    except BaseException:
        response.close()  # as response.read() does
        raise
    return b"".join(chunks)
