"""Typed errors of the Kubernetes API, and the permission that a 403 names; answers.py makes them.

Callers decide by class and by a few properties, never by parsing a message again. Messages come
from the API server; they are cut to a size that fits a condition, and the client removes the values
of Secrets from them before it raises (see redaction.py).
"""

# ruff: noqa: N818 - the classes have the API's own reasons as names, which don't end in Error

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from copyrator.api.text import truncate

MESSAGE_LIMIT = 1024
"""Characters of a message that are kept, so that it fits a condition."""

_IMMUTABLE = re.compile(
    r"immutable|cannot change roleRef|may not (?:be changed|change) once set"
    r"|updates to .{1,200} are forbidden",
    re.IGNORECASE,
)


class ApiError(Exception):
    """An answer of the API server that isn't success, or a missing answer.

    Attributes:
        status: the HTTP status, 0 where there was no answer.
        reason: the machine-readable reason of the Status object, or one of ours.
        message: human-readable, at most `MESSAGE_LIMIT` characters, free of Secret values.
        details: the Status object's details (kind, name, causes …), may be empty.
        retry_after: seconds to wait as the server requires, None where it requires none.
    """

    default_status: ClassVar[int] = 0
    default_reason: ClassVar[str] = "Unknown"

    def __init_subclass__(cls, *, status: int = 0, reason: str = "") -> None:
        """Without a reason it is the class's name."""
        cls.default_status, cls.default_reason = status, reason or cls.__name__

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status = self.default_status if status is None else status
        self.reason = reason or self.default_reason
        self.message = truncate(message, MESSAGE_LIMIT) or self.reason
        self.details: dict[str, Any] = dict(details or {})
        self.retry_after = retry_after
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.reason} ({self.status}): {self.message}" if self.status else self.message

    @property
    def causes(self) -> list[dict[str, Any]]:
        """The Status object's causes: dicts with reason, message and field."""
        causes = self.details.get("causes")
        return [c for c in causes if isinstance(c, dict)] if isinstance(causes, list) else []

    @property
    def throttled(self) -> bool:
        """True where the server is overloaded, so that all requests should slow down."""
        return self.status == 429 or (self.status == 503 and self.retry_after is not None)

    @property
    def concerns_all(self) -> bool:
        """True where the next request, whatever its object, can be expected to fail as well."""
        if isinstance(self, ServerError):
            return "webhook" not in self.message  # a broken webhook affects only its namespaces
        return isinstance(self, Unreachable | Unauthorized | TooManyRequests | NotLeading)

    @property
    def transient(self) -> bool:
        """True where the same request may succeed later without any change."""
        return isinstance(self, Unreachable | TooManyRequests | ServerError)


class BadRequest(ApiError, status=400):
    """400: the request is malformed."""


class Unauthorized(ApiError, status=401):
    """401, after the credentials were refreshed once."""


class Forbidden(ApiError, status=403):
    """403: a permission is missing. The other causes of a 403 have classes of their own."""

    @property
    def refusal(self) -> Refusal | None:
        """The missing permission; None where it is no verb on a resource."""
        found = _DENIED.search(self.message)
        if found is None or NOT_HELD in self.message:
            return None
        permission = Permission(found["group"], found["resource"], found["verb"])
        return Refusal(permission, found["namespace"] or "", str(self.details.get("name") or ""))


class NamespaceTerminating(ApiError, status=403):
    """403: nothing can be created in this namespace any more."""


class QuotaExceeded(ApiError, status=403):
    """403: a ResourceQuota of the namespace is used up."""


class AdmissionDenied(ApiError, status=403):
    """An admission webhook or a ValidatingAdmissionPolicy denied the request (with any 4xx)."""


class NotFound(ApiError, status=404):
    """404: the object, its namespace, or the whole kind doesn't exist."""

    @property
    def namespace_missing(self) -> bool:
        """True where it is the namespace that doesn't exist."""
        return self.details.get("kind") == "namespaces"

    @property
    def kind_missing(self) -> bool:
        """True where the path isn't served at all (the CRD was deleted), whatever the object."""
        return not self.details.get("name")


class AlreadyExists(ApiError, status=409):
    """409 to a create: an object of that name exists."""


class ConflictError(ApiError, status=409, reason="Conflict"):
    """409: uid or resourceVersion differ from those that the write was decided on."""


class Gone(ApiError, status=410, reason="Expired"):
    """410: the resourceVersion or the page token has been compacted; list again."""


class TooLarge(ApiError, status=413):
    """The object is larger than the API server or etcd accepts."""


class AnswerTooLarge(ApiError):
    """The answer is longer than the call allows; the rest of it was not read."""


class Invalid(ApiError, status=422):
    """422: validation failed."""

    @property
    def immutable(self) -> bool:
        """True where an immutable field is (part of) the cause."""
        texts = [str(cause.get("message", "")) for cause in self.causes] or [self.message]
        return any(_IMMUTABLE.search(text) for text in texts)


class TooManyRequests(ApiError, status=429):
    """429: API Priority and Fairness, or a proxy, throttles us."""


class ServerError(ApiError, status=500, reason="InternalError"):
    """5xx: the server, a webhook, or etcd behind it, has failed."""


class Unreachable(ApiError):
    """No usable answer: name resolution, connection refused, TLS, a timeout. Outcome unknown."""


class BrokenAnswer(Unreachable):
    """An answer that was cut off or isn't JSON. The outcome is unknown."""


class ClusterChanged(ApiError):
    """Another cluster answers than before, by the uid of its Namespace kube-system."""


class NotLeading(ApiError):
    """Not sent: this replica isn't the leader (any more), so it must not write."""


class KindUnavailable(ApiError, status=404):
    """The cluster serves no such kind at present: its CRD may not be installed."""


class AmbiguousKind(ApiError):
    """Several API groups serve a kind of that name: apiVersion must be set."""


_DENIED = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
"""The API server's message, the same for every authorizer.

Source: forbiddenMessage in k8s.io/apiserver, endpoints/handlers/responsewriters/errors.go.
"""
NOT_HELD = "RBAC permissions not currently held"
"""Part of the 403 against privilege escalation by a grant: it names no missing verb."""


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """One verb on one resource; `resource` may include a subresource, as in RBAC."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        resource, slash, subresource = self.resource.partition("/")
        key = f"{resource}.{self.group}" if self.group else resource
        return f"{self.verb} {key}{slash}{subresource}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A missing permission; without a namespace the request was for all namespaces."""

    permission: Permission
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f"in {self.namespace}" if self.namespace else "in all namespaces"
        return f"{self.permission} {where}"

    @property
    def attributes(self) -> dict[str, str]:
        """The resourceAttributes of an access review."""
        resource, _, subresource = self.permission.resource.partition("/")
        return {
            "verb": self.permission.verb,
            "group": self.permission.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
