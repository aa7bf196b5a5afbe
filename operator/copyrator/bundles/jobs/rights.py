"""The permissions that a Job's service account lacked. Pure.

The verbs are in docs/facts/werf.md, "What the Job's service account needs".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import MAX_MISSING, MissingPermission

VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete")
"""What werf does with every kind of a chart: server-side apply, dry runs, tracking."""
LOCK: Final = "werf-synchronization"
"""The ConfigMap with which werf locks a release."""
EVENTS_NAMESPACE: Final = "default"
"""Where the Events of objects in no namespace are (k8s.io/client-go/tools/events)."""
_NAMELESS: Final = ("list", "watch", "create")
"""Verbs of requests that name no object."""
_TEXT: Final = 8192
"""Characters of werf's output that are searched for missing permissions."""


@dataclass(frozen=True, slots=True)
class RequiredPermission:
    """Permissions on one resource in one namespace."""

    namespace: str
    """Empty: of objects in no namespace, or in all namespaces."""
    group: str
    resource: str
    """With a subresource, as in RBAC: ``pods/log``."""
    verbs: tuple[str, ...]
    name: str = ""
    """The name of the only object that is needed; empty: any object."""

    @property
    def key(self) -> str:
        """As in RBAC and kubectl: ``pods/log``, ``deployments.apps``."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def attributes(self, verb: str) -> dict[str, str]:
        """The resourceAttributes of an access review of one of its verbs."""
        resource, _, subresource = self.resource.partition("/")
        found = {
            "verb": verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": "" if verb in _NAMELESS else self.name,
        }
        return {key: value for key, value in found.items() if value}


def merge_permissions(one: RequiredPermission, other: RequiredPermission) -> RequiredPermission:
    """Both, of any object."""
    verbs = tuple(verb for verb in VERBS if verb in one.verbs or verb in other.verbs)
    return replace(one, verbs=verbs, name="")


def list_missing(missing: Iterable[RequiredPermission]) -> tuple[MissingPermission, ...]:
    """Missing permissions as a status lists them, sorted and limited in number."""
    order = sorted(missing, key=lambda one: (one.namespace, one.group, one.resource))
    return tuple(
        MissingPermission(verbs=one.verbs, resource=one.key, namespace=one.namespace or None)
        for one in order[:MAX_MISSING]
    )


_NAMESPACE: Final = "[a-z0-9][a-z0-9-]{0,62}"
_REFUSED: Final = re.compile(
    rf'is forbidden: User "system:serviceaccount:({_NAMESPACE}):([a-z0-9][a-z0-9.-]{{0,252}})" '
    rf'cannot ({"|".join(VERBS)}) resource "([a-z0-9-]{{1,63}}(?:/[a-z]{{1,63}})?)" '
    r'in API group "((?:[a-z0-9][a-z0-9.-]{0,252})?)" '
    rf'(?:in the namespace "({_NAMESPACE})"|at the cluster scope)'
)
"""The API server's message, which werf quotes (forbiddenMessage in k8s.io/apiserver)."""


def read_refused(text: str, account: ServiceAccount) -> tuple[RequiredPermission, ...]:
    """The permissions of this account that werf's output names as missing.

    A chart may print such a text as well, so the result is only shown, and never granted
    automatically.
    """
    found: dict[tuple[str, str, str], RequiredPermission] = {}
    for namespace, name, verb, resource, group, where in _REFUSED.findall(text[:_TEXT]):
        if ServiceAccount(namespace, name) != account:
            continue
        need = RequiredPermission(where, group, resource, (verb,))
        key = where, group, resource
        found[key] = merge_permissions(found[key], need) if key in found else need
    if len(found) > 1:  # where it may not create its lock, werf tries to create the namespace
        found.pop(("", "", "namespaces"), None)
    return tuple(found.values())[:MAX_MISSING]


def sentence(account: ServiceAccount, missing: Iterable[MissingPermission]) -> str:
    """A sentence with missing permissions: ``… cannot create, patch deployments.apps in app``."""
    return f"the service account {account} cannot {'; '.join(map(format_permission, missing))}"


def format_permission(one: MissingPermission) -> str:
    """A missing permission as text: ``create, patch deployments.apps in app``."""
    where = f"in {one.namespace}" if one.namespace else "in all namespaces"
    return f"{', '.join(one.verbs)} {one.resource} {where}"


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The account of a Bundle's Jobs."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, spec: BundleSpec) -> ServiceAccount:
        """The account of a Bundle's Jobs."""
        return cls(spec.namespace, spec.service_account)

    @property
    def user(self) -> str:
        """Its user name at the API server."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def groups(self) -> tuple[str, ...]:
        """Its groups at the API server."""
        every = "system:serviceaccounts"
        return every, f"{every}:{self.namespace}", "system:authenticated"
