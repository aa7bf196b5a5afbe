"""What a 403 says is missing: the verb, the resource and the place, in RBAC's words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_DENIED = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
"""The API server's sentence, the same for every authorizer.

Source: forbiddenMessage in k8s.io/apiserver, endpoints/handlers/responsewriters/errors.go.
"""
NOT_HELD = "RBAC permissions not currently held"
"""In the refusal to let anybody grant what they don't have themselves: no verb is missing there."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource; `resource` may go on with a subresource, as RBAC writes it."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        resource, slash, subresource = self.resource.partition("/")
        key = f"{resource}.{self.group}" if self.group else resource
        return f"{self.verb} {key}{slash}{subresource}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A right that was missing; without a namespace it was asked for in the whole cluster."""

    right: Right
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.right} {f'in {self.namespace}' if self.namespace else 'in all namespaces'}"

    @property
    def attributes(self) -> dict[str, str]:
        """As the resourceAttributes of a review ask for it."""
        resource, _, subresource = self.right.resource.partition("/")
        return {
            "verb": self.right.verb,
            "group": self.right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        }


def read_refusal(message: str, details: Mapping[str, Any]) -> Refusal | None:
    """Read a 403's message; None where it was another kind of no."""
    found = _DENIED.search(message)
    if found is None or NOT_HELD in message:
        return None
    right = Right(found["group"], found["resource"], found["verb"])
    return Refusal(right, found["namespace"] or "", str(details.get("name") or ""))
