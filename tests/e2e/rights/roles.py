"""The chart's roles in a cluster, from which single rights are taken away for a while."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.operator_process import until
from tests.e2e.rbac import RBAC, may

from demo.chart import Rendered
from localcluster import Api

Right = str
"""`create secrets`, `patch bundles.operator.werf.dev/status`: as /readyz names it."""


def rights_of(role: dict[str, Any]) -> set[Right]:
    """Every verb on every resource that a role gives."""
    return {
        _named(verb, group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def rights_of_chart(rendered: Rendered) -> set[Right]:
    """Every right of the operator's."""
    return {right for role in _roles(rendered) for right in rights_of(role)}


class Roles:
    """The operator's roles."""

    def __init__(self, api: Api, rendered: Rendered, namespace: str) -> None:
        self._api = api
        self._roles = _roles(rendered)
        self._user = f"system:serviceaccount:{namespace}:{rendered.service_account}"

    @contextmanager
    def without(self, right: Right) -> Iterator[None]:
        """Take a right away, from every rule that gives it, and give it back at the end."""
        changed = [role for role in self._roles if right in rights_of(role)]
        assert changed, f"the chart doesn't give {right}"
        for role in changed:
            self._replace(_less(role, right))
        until(lambda: not self._may(right), f"{right} is gone")
        try:
            yield
        finally:
            for role in changed:
                self._replace(role)
        until(lambda: self._may(right), f"{right} is back")

    def _replace(self, role: dict[str, Any]) -> None:
        namespace = role["metadata"].get("namespace")
        home = f"{RBAC}/namespaces/{namespace}/roles" if namespace else f"{RBAC}/clusterroles"
        self._api.replace(f"{home}/{role['metadata']['name']}", role)

    def _may(self, right: Right) -> bool:
        """Ask the authorizer, which learns of a changed role a moment later."""
        role = next(role for role in self._roles if right in rights_of(role))
        rule = next(rule for rule in role["rules"] if right in rights_of({"rules": [rule]}))
        verb, _, rest = right.partition(" ")
        group = rule["apiGroups"][0]
        resource, _, subresource = rest.replace(f".{group}", "").partition("/")
        asked = {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "namespace": role["metadata"].get("namespace", ""),
            "name": (rule.get("resourceNames") or [""])[0],
        }
        return may(self._api, self._user, **asked)


def _roles(rendered: Rendered) -> list[dict[str, Any]]:
    return rendered.bound_roles


def _less(role: dict[str, Any], right: Right) -> dict[str, Any]:
    """The role without one verb on one resource: each of its rules taken apart."""
    less = copy.deepcopy(role)
    less["rules"] = [
        {**rule, "apiGroups": [group], "resources": [resource], "verbs": verbs}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if (verbs := [verb for verb in rule["verbs"] if _named(verb, group, resource) != right])
    ]
    return less


def _named(verb: str, group: str, resource: str) -> Right:
    plural, slash, subresource = resource.partition("/")
    key = f"{plural}.{group}" if group else plural
    return f"{verb} {key}{slash}{subresource}"
