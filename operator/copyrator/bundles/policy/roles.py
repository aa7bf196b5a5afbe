"""Roles and bindings with the permissions that a service account lacks by a status. Pure.

Whoever may write a status could forge one, and a chart decides what its deploy needs: so only verbs
and names of the usual form are taken, and a person reads the result before it is applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.plan_status import MissingPermission
from copyrator.bundles.policy.identity import hash_of
from copyrator.bundles.policy.permissions import VERBS, ServiceAccount

_RBAC: Final = "rbac.authorization.k8s.io"
_RESOURCE: Final = re.compile(
    r"([a-z0-9][a-z0-9-]{0,62}(?:/[a-z]{1,63})?)(?:\.([a-z0-9][a-z0-9.-]{0,252}))?"
)
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_HASH: Final = 8

Manifest = dict[str, Any]


def missing_of(status: BundleStatus) -> tuple[MissingPermission, ...]:
    """The permissions that the next deploy lacks, by its plan and by the last deploy if it failed.

    Empty once a deploy of the plan has succeeded. Entries in another form than the operator's are
    left out.
    """
    plan, attempted = status.plan, status.attempted
    is_spent = plan.job is not None and plan.job == attempted.plan_job
    found = plan.missing
    if plan.job is None or (is_spent and attempted.outcome != Outcome.RUNNING):
        found = (*found, *attempted.missing)
    if is_spent and attempted.outcome == Outcome.SUCCEEDED:
        found = ()
    return tuple(dict.fromkeys(one for one in found if _is_valid(one)))


def grants(
    account: ServiceAccount, bundle: str, missing: Iterable[MissingPermission]
) -> list[Manifest]:
    """A Role and a RoleBinding for each namespace; a ClusterRole and its binding for all of them.

    Their names have a hash of the rules: applied, they replace nothing that was granted before.
    """
    spaces: dict[str, list[MissingPermission]] = {}
    for one in missing:
        if _is_valid(one):
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
    name = "-".join((*whose, bundle, account.name[:63], hash_of(rules)[:_HASH]))
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


def _is_valid(one: MissingPermission) -> bool:
    place = one.namespace is None or _NAMESPACE.fullmatch(one.namespace)
    known = bool(one.verbs) and set(one.verbs) <= set(VERBS)
    return bool(place and known and _RESOURCE.fullmatch(str(one.resource)))
