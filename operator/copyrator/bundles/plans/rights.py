"""The permissions that the deploy of a plan needs, and those that it lacks. Pure.

The API server answers one verb on one resource in one namespace at a time, so a plan's objects are
reduced to their kinds in each namespace, a limited number of them. werf's other needs, and the
verbs, are in docs/facts/werf.md, "What the Job's service account needs".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from copyrator.api import structs
from copyrator.api.bundle_status import BundleStatus, MissingPermission, Outcome
from copyrator.api.conditions import ready_reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.jobs.checks import PERMISSION_KINDS
from copyrator.bundles.jobs.rights import (
    EVENTS_NAMESPACE,
    LOCK,
    VERBS,
    RequiredPermission,
    list_missing,
    merge_permissions,
)
from copyrator.bundles.plans.fields import PlanStatus
from copyrator.bundles.plans.operations import Operation

_RESOURCE: Final = re.compile(
    r"([a-z0-9][a-z0-9-]{0,62}(?:/[a-z]{1,63})?)(?:\.([a-z0-9][a-z0-9.-]{0,252}))?"
)
_NAMESPACE_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_EVENTS_VERBS: Final = ("list", "watch")
_READ: Final = ("get", "list", "watch")


class ServedKind(Protocol):
    """The part of kube.resources.Resource that is used here."""

    @property
    def group(self) -> str:
        """Empty for the core API."""
        ...

    @property
    def plural(self) -> str:
        """As in URLs and in RBAC."""
        ...

    @property
    def namespaced(self) -> bool:
        """Whether its objects are in namespaces."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class KindIn:
    """A kind of a plan's objects in one namespace."""

    namespace: str
    """As in a plan: empty for the release's own, and for objects that are in no namespace."""
    group: str
    kind: str


@dataclass(frozen=True, slots=True)
class PermissionFindings:
    """The result of the access reviews of a plan."""

    missing: tuple[RequiredPermission, ...] = ()
    """With the verbs that were denied."""
    unreviewed: int = 0
    """Kinds, counted in each namespace, that weren't reviewed."""


def kinds_of(operations: Iterable[Operation]) -> tuple[tuple[KindIn, ...], int]:
    """The kinds of a plan's objects in each namespace, and how many more there are than reviewed.

    Those in the release's own namespace come first.
    """
    found = {KindIn(one.namespace, one.group, one.kind) for one in operations}
    kinds = sorted(found)
    return tuple(kinds[:PERMISSION_KINDS]), max(len(kinds) - PERMISSION_KINDS, 0)


def required_permissions(
    release_namespace: str,
    kinds: Mapping[KindIn, ServedKind],
    *,
    is_namespace_missing: bool = False,
    denied: Iterable[RequiredPermission] = (),
) -> tuple[RequiredPermission, ...]:
    """The permissions that a deploy needs, with one entry for each resource in a namespace.

    Args:
        release_namespace: the release's.
        kinds: the kinds of the plan's objects, as the API server serves them.
        is_namespace_missing: whether werf has to create the release's namespace.
        denied: missing permissions that werf reported, where it failed before its plan.
    """
    found: dict[tuple[str, str, str], RequiredPermission] = {}
    for need in (
        *_for_every_release(release_namespace, is_namespace_missing),
        *_for_objects(release_namespace, kinds),
    ):
        key = need.namespace, need.group, need.resource
        found[key] = merge_permissions(found[key], need) if key in found else need
    for need in denied:
        whole = replace(need, verbs=need.verbs if "/" in need.resource else VERBS)
        found.setdefault((need.namespace, need.group, need.resource), whole)
    return tuple(found.values())


def _for_every_release(namespace: str, is_namespace_missing: bool) -> Iterator[RequiredPermission]:
    """What every deploy needs: the release's lock and storage, and tracking."""
    yield RequiredPermission(namespace, "", "configmaps", VERBS[:6], LOCK)
    yield RequiredPermission(
        namespace, "", "secrets", ("get", "list", "create", "update", "delete")
    )
    yield RequiredPermission(namespace, "", "namespaces", ("get",), namespace)
    yield RequiredPermission(namespace, "", "events", _EVENTS_VERBS)
    yield RequiredPermission(namespace, "", "pods", _READ)
    yield RequiredPermission(namespace, "", "pods/log", _READ)
    if is_namespace_missing:
        yield RequiredPermission("", "", "namespaces", ("create", "patch"))


def _for_objects(
    release_namespace: str, kinds: Mapping[KindIn, ServedKind]
) -> Iterator[RequiredPermission]:
    for one, served in kinds.items():
        namespace = (one.namespace or release_namespace) if served.namespaced else ""
        yield RequiredPermission(namespace, served.group, served.plural, VERBS)
        if not served.namespaced:  # their Events are in this namespace, and tracked there
            yield RequiredPermission(EVENTS_NAMESPACE, "", "events", _EVENTS_VERBS)
        if (served.group, served.plural) == ("apps", "deployments"):  # tracked by their ReplicaSets
            yield RequiredPermission(namespace, "apps", "replicasets", _READ)


_NEEDS: Final = re.compile(
    r"^needs (?:([a-z0-9.-]{1,253})/)?v[0-9a-z]{1,20} ([A-Za-z0-9]{1,63}) ([a-z0-9-]{0,63})$",
    re.MULTILINE,
)


def read_needs(log: str) -> tuple[KindIn, ...]:
    """The kinds that the log of a failed plan names, as the script printed them."""
    found = {KindIn(space, group, kind) for group, kind, space in _NEEDS.findall(log)}
    return tuple(sorted(found)[:PERMISSION_KINDS])


def record_findings(plan: PlanStatus, findings: PermissionFindings) -> PlanStatus:
    """The plan's record with the result of its access reviews."""
    return structs.replace(
        plan,
        missing=list_missing(findings.missing),
        missing_permissions=sum(len(one.verbs) for one in findings.missing),
        unreviewed=findings.unreviewed or None,
    )


def missing_of(status: BundleStatus) -> tuple[MissingPermission, ...]:
    """The permissions that the next deploy lacks, by its plan and by the last deploy if it failed.

    A plan that was reviewed after that deploy names all. Of a Bundle whose release is being
    uninstalled, those that the last uninstall lacked. Empty once a deploy of the plan has
    succeeded. Entries in another form than the operator's are left out.
    """
    plan, attempted = status.part(PlanStatus), status.attempted
    is_spent = plan.job is not None and plan.job == attempted.plan_job
    if is_uninstalled(status):
        return tuple(filter(is_valid, attempted.missing))
    found = plan.missing
    if is_spent or plan.missing_permissions is None:
        found = (*found, *attempted.missing)
    if is_spent and attempted.outcome == Outcome.SUCCEEDED:
        found = ()
    return tuple(dict.fromkeys(one for one in found if is_valid(one)))


def is_uninstalled(status: BundleStatus) -> bool:
    """Whether the release is being uninstalled, or that failed."""
    reasons = BundleReason.UNINSTALLING, BundleReason.UNINSTALL_FAILED
    return ready_reason(status.conditions) in reasons


def is_valid(one: MissingPermission) -> bool:
    """Whether it has the form that the operator writes, so that a role may be made of it."""
    place = one.namespace is None or _NAMESPACE_NAME.fullmatch(one.namespace)
    known = bool(one.verbs) and set(one.verbs) <= set(VERBS)
    return bool(place and known and _RESOURCE.fullmatch(str(one.resource)))
