"""The missing permission that a 403 names: verb, resource and namespace, in RBAC's terms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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


def read_refusal(message: str, details: Mapping[str, Any]) -> Refusal | None:
    """Parse a 403's message; None where it names no missing verb."""
    found = _DENIED.search(message)
    if found is None or NOT_HELD in message:
        return None
    permission = Permission(found["group"], found["resource"], found["verb"])
    return Refusal(permission, found["namespace"] or "", str(details.get("name") or ""))
