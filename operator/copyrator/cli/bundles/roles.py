"""Roles that grant the permissions that a Job's service account lacked. Pure.

Whoever may write a status could forge missing permissions, and a chart decides what its deploy
needs: so only verbs and names of the usual form are taken into roles, and a person reads these
before they are applied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from copyrator.api.bundle_status import MissingPermission
from copyrator.bundles.jobs.rights import LOCK, VERBS, RequiredPermission, ServiceAccount
from copyrator.bundles.plans.rights import is_valid

_RBAC: Final = "rbac.authorization.k8s.io"
Manifest = dict[str, Any]


def uninstall_permissions(namespace: str) -> tuple[RequiredPermission, ...]:
    """What every uninstall needs in the release's namespace, besides the release's objects.

    Measured with werf 3.2; werf 2.75 needs a part of it.
    """
    return (
        RequiredPermission(namespace, "", "configmaps", ("get", "update"), LOCK),
        RequiredPermission(namespace, "", "namespaces", ("get",), namespace),
        RequiredPermission(namespace, "", "secrets", ("get", "list", "update", "delete")),
    )


def grants(
    account: ServiceAccount, bundle: str, missing: Iterable[MissingPermission]
) -> list[Manifest]:
    """A Role and a RoleBinding for each namespace; a ClusterRole and its binding for all of them.

    Their names stay the same, so what they granted before is to be added (``add_rules``).
    """
    spaces: dict[str, list[MissingPermission]] = {}
    for one in missing:
        if is_valid(one):
            spaces.setdefault(one.namespace or "", []).append(one)
    return [
        manifest
        for namespace in sorted(spaces)
        for manifest in _pair(account, bundle, namespace, _rules(spaces[namespace]))
    ]


def _pair(
    account: ServiceAccount, bundle: str, namespace: str, rules: list[Manifest]
) -> tuple[Manifest, Manifest]:
    scope = "" if namespace else "Cluster"
    whose = () if namespace else (account.namespace,)
    name = "-".join((*whose, bundle, account.name[:63]))
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    head = {"apiVersion": f"{_RBAC}/v1"}
    role = head | {"kind": f"{scope}Role", "metadata": metadata, "rules": rules}
    binding = head | {
        "kind": f"{scope}RoleBinding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": _RBAC, "kind": f"{scope}Role", "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
        ],
    }
    return role, binding


def add_rules(role: Manifest, granted: Iterable[Manifest]) -> Manifest:
    """A role with what it grants in the cluster already, so that applying it takes nothing away."""
    parts = [(rule, _parts(rule)) for rule in (*role["rules"], *granted)]
    plain = [one for _, found in parts for one in found or ()]
    others = [rule for rule, found in parts if found is None]
    return role | {"rules": [*_rules(plain), *others]}


def _parts(rule: Manifest) -> list[MissingPermission] | None:
    """What a rule grants, as permissions; None for a rule of another form than ours."""
    found = [
        MissingPermission(
            verbs=tuple(rule.get("verbs") or ()),
            resource=f"{resource}.{group}" if group else resource,
        )
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
    ]
    is_ours = rule.keys() == {"apiGroups", "resources", "verbs"} and not any(
        "." in resource
        for resource in rule["resources"] or ()  # it would name another group
    )
    return found if is_ours and all(map(is_valid, found)) else None


def _rules(missing: Iterable[MissingPermission]) -> list[Manifest]:
    """One rule for all resources of a group with the same verbs."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for one in missing:
        resource, group = split(str(one.resource))
        verbs.setdefault((group, resource), set()).update(one.verbs)
    rules: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), wanted in sorted(verbs.items()):
        ordered = tuple(verb for verb in VERBS if verb in wanted)
        rules.setdefault((group, ordered), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(ordered)}
        for (group, ordered), resources in rules.items()
    ]


def split(key: str) -> tuple[str, str]:
    """Resource and group of ``deployments.apps`` and ``pods/log``."""
    resource, _, group = key.partition(".")
    return resource, group
