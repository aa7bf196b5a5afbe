"""Maps an API server's error for a copy to a reason and a remedy."""

from __future__ import annotations

from collections.abc import Sequence

from copyrator.api.rule_status import FailureReason
from copyrator.copies.cache.copy_request import CopyRequest
from copyrator.kube import errors
from copyrator.kube.errors import ApiError
from copyrator.kube.refusals import NOT_HELD, Permission, Refusal
from copyrator.kube.resources import Resource

REFUSED = (errors.Forbidden, errors.QuotaExceeded, errors.AdmissionDenied)
"""Errors that the API server returns before it checks whether the object exists.

The permission to grant a role's permissions, quotas and webhooks are checked first.
"""

_REASONS: tuple[tuple[type[ApiError], FailureReason], ...] = (
    (errors.QuotaExceeded, FailureReason.QUOTA_EXCEEDED),
    (errors.AdmissionDenied, FailureReason.ADMISSION_DENIED),
    (errors.Forbidden, FailureReason.FORBIDDEN),
    (errors.TooLarge, FailureReason.TOO_LARGE),
)


def is_namespace_closed(error: ApiError) -> bool:
    """Terminating or gone: skipped, and not counted as a failure."""
    return isinstance(error, errors.NamespaceTerminating) or (
        isinstance(error, errors.NotFound) and error.namespace_missing
    )


def is_place_gone(error: ApiError) -> bool:
    """Whether more is missing than the object: its namespace or its kind."""
    return isinstance(error, errors.NotFound) and (error.namespace_missing or error.kind_missing)


def reason_of(error: ApiError) -> FailureReason:
    """The reason for the status."""
    if isinstance(error, errors.Invalid) and error.immutable:
        return FailureReason.IMMUTABLE
    return next((word for kind, word in _REASONS if isinstance(error, kind)), FailureReason.ERROR)


def conflict_message(differs: Sequence[str] | None) -> str:
    """The remedy for an object that isn't ours; where it was compared, the fields that differ."""
    how = f" (it differs in {', '.join(differs)})" if differs else ""
    return (
        f"an object of that name that isn't a copy exists; delete it, or set spec.onConflict{how}"
    )


def unsealed_message(owner: str) -> str:
    """The remedy for an object with the marks of a rule (``namespace/name``) and no seal."""
    return (
        f"an object that carries the marks of the rule {owner} without a valid seal "
        "exists, with other content than the rule requires; delete it, or overwrite "
        f"it: copyrator reseal rule {owner}"
    )


def awaited_message(owner: str) -> str:
    """Why an object isn't overwritten that may be the source of a rule."""
    return (
        f"the rule {owner} copies the existing object, and its source isn't known yet: "
        "see that rule's status"
    )


def missing_bind(error: ApiError, winner: CopyRequest | None, resource: Resource) -> Refusal | None:
    """The missing permission to bind the role of a copied binding, where that failed the write."""
    if NOT_HELD not in error.message or resource.kind != "RoleBinding":
        return None
    if winner is None or winner.broken:
        return None
    role = winner.binding.content(winner.namespace).payload.get("roleRef") or {}
    permission = Permission(resource.group, f"{str(role.get('kind')).lower()}s", "bind")
    return Refusal(permission, winner.namespace.name, str(role.get("name")))


def message_of(error: ApiError, bind: Refusal | None) -> str:
    """The API server's error, and the remedy."""
    reason = reason_of(error)
    if reason is FailureReason.IMMUTABLE:
        return f"{error.message}; set spec.onImmutable: Recreate to delete and recreate it"
    if reason is FailureReason.FORBIDDEN and NOT_HELD in error.message:
        return _not_held(bind, error.message)
    return error.message


def _not_held(bind: Refusal | None, said: str) -> str:
    """The missing permission; the API server's own message lists every rule of the role."""
    if bind is None:
        missing = said.partition(f"{NOT_HELD}:")[2].split("\n")
        rules = [rule.strip() for rule in missing if rule.strip()]
        more = f" and {len(rules) - 1} more" if len(rules) > 1 else ""
        named = f": {rules[0]}{more}" if rules else ""
        return f"the operator can't grant permissions that it doesn't have{named}"
    verb = f'the verb "bind" on {bind.permission.resource} "{bind.name}"'
    if bind.permission.resource == "clusterroles":
        return f"needs rules.bindClusterRoles=[{bind.name}] (chart), which grants {verb}"
    return f"needs {verb}"
