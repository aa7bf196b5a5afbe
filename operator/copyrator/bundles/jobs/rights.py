"""The permissions that a Job's service account lacked, and roles with those. Pure.

The verbs are in docs/facts/werf.md, "What the Job's service account needs".

Whoever may write a status could forge missing permissions, and a chart decides what its deploy
needs: so only verbs and names of the usual form are taken into roles, and a person reads these
before they are applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import MAX_MISSING, BundleStatus, MissingPermission
from copyrator.api.conditions import ready_reason
from copyrator.api.reasons.bundles import BundleReason

PERMISSION_KINDS: Final = 50
"""Kinds of a chart's objects, counted in each namespace, that a script names, and whose permissions
are reviewed: seven requests each."""

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


def uninstall_permissions(namespace: str) -> tuple[RequiredPermission, ...]:
    """What every uninstall needs in the release's namespace, besides the release's objects.

    Measured with werf 3.2; werf 2.75 needs a part of it.
    """
    return (
        RequiredPermission(namespace, "", "configmaps", ("get", "update"), LOCK),
        RequiredPermission(namespace, "", "namespaces", ("get",), namespace),
        RequiredPermission(namespace, "", "secrets", ("get", "list", "update", "delete")),
    )


ASK_FOR_EVENTS: Final = f"""\
may() {{
  case $(WERF_SKIP_TLS_VERIFY_REGISTRY=0 werf kubectl auth can-i "$1" events \\
    --namespace {EVENTS_NAMESPACE} --request-timeout 10s 2>/dev/null) in
  yes | 'yes '*) ;;
  no | 'no '*)
    printf 'KUBEDOG_DISABLE_EVENTS=1: the account may not %s events in namespace %s\\n' \\
      "$1" {EVENTS_NAMESPACE}
    export KUBEDOG_DISABLE_EVENTS=1
    return 1
    ;;
  *) return 1 ;;
  esac
}}
[ -n "${{KUBEDOG_DISABLE_EVENTS+set}}" ] || {{ may list && may watch; }} || :
"""
"""Have werf track without Events where it may not read those of objects in no namespace.

It would fail after the apply (docs/facts/werf.md). Without an answer, and where the Bundle sets the
variable, nothing is set. The first variable is of the registry, and kubectl's of the API server.
It sets no other variable: the Bundle may have one of that name.
"""


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


NEEDS: Final = "needs ([a-z0-9.-]+/)?v[0-9a-z]+ [A-Za-z0-9]+ [a-z0-9-]*"
"""A line with the kind and namespace of a chart's object, as an extended regular expression."""


def sentence(account: ServiceAccount, missing: Iterable[MissingPermission]) -> str:
    """A sentence with missing permissions: ``… cannot create, patch deployments.apps in app``."""
    return f"the service account {account} cannot {'; '.join(map(format_permission, missing))}"


def format_permission(one: MissingPermission) -> str:
    """A missing permission as text: ``create, patch deployments.apps in app``."""
    where = f"in {one.namespace}" if one.namespace else "in all namespaces"
    return f"{', '.join(one.verbs)} {one.resource} {where}"


_RBAC: Final = "rbac.authorization.k8s.io"
_RESOURCE: Final = re.compile(
    r"([a-z0-9][a-z0-9-]{0,62}(?:/[a-z]{1,63})?)(?:\.([a-z0-9][a-z0-9.-]{0,252}))?"
)
_NAMESPACE_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

Manifest = dict[str, Any]


def is_uninstalled(status: BundleStatus) -> bool:
    """Whether the release is being uninstalled, or that failed."""
    reasons = BundleReason.UNINSTALLING, BundleReason.UNINSTALL_FAILED
    return ready_reason(status.conditions) in reasons


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


def is_valid(one: MissingPermission) -> bool:
    """Whether it has the form that the operator writes, so that a role may be made of it."""
    place = one.namespace is None or _NAMESPACE_NAME.fullmatch(one.namespace)
    known = bool(one.verbs) and set(one.verbs) <= set(VERBS)
    return bool(place and known and _RESOURCE.fullmatch(str(one.resource)))


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
