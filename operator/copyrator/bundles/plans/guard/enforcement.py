"""Whether the API server can hold a Bundle's Jobs to what was approved, and if not, why.

It can where the chart's policy and its binding are in the cluster, every object of the plan is
written through this API server, and the Jobs' account can't change admission policies, as none is
asked for those (docs/facts/guard.md), nor act as somebody else in any namespace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.names import LABEL_GUARD
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.guard.listing import Guard
from copyrator.bundles.plans.operations import Operation
from copyrator.kube.errors import Forbidden, NotFound
from copyrator.kube.permissions import Subject, is_allowed

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

ADMISSION: Final = "admissionregistration.k8s.io"
POLICIES: Final = f"/apis/{ADMISSION}/v1/validatingadmissionpolicies"
BINDINGS: Final = f"/apis/{ADMISSION}/v1/validatingadmissionpolicybindings"
API_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
_EXEMPT: Final = (
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
)
"""What no policy is asked for."""
_IMPERSONATED: Final = ("users", "serviceaccounts")
"""Who can be impersonated: of them the policy knows no pod. Without one of them the API server
accepts no groups and no extra fields."""
_NAMED: Final = ("update", "patch", "delete")
_NAMELESS: Final = ("create", "deletecollection")
_AT_ONCE: Final = 5
"""Access reviews at the same time, of all Bundles."""
_OPERATIONS: Final = {"CREATE", "UPDATE", "DELETE", "CONNECT"}
FRESH: Final = 570.0
"""Seconds for which an answer is used: ten minutes, less a reconcile's time."""
_SECONDS: Final = 5.0
"""Timeout of one request in seconds."""
_UNENFORCED_SECONDS: Final = 30.0
"""How long it is believed that something can't be enforced: an administrator may mend it."""
_ACCOUNTS: Final = 1_000
"""Service accounts whose answers are kept."""
_SWITCH: Final = "bundles.guard.enabled of the chart"


class EnforcementReviewer:
    """What can be enforced of the plans of all Bundles.

    Args:
        client: sends the requests; nothing else waits for it.
        guard: holds Jobs to plans.
        monotonic: the time in seconds.
    """

    def __init__(self, client: KubeClient, guard: Guard, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._guard = guard
        self._monotonic = monotonic
        self._answers: dict[ServiceAccount | str, tuple[str, float]] = {}
        """The fault, empty where there is none, and when it was asked, in monotonic seconds.

        By account, and by what else was asked; the oldest first.
        """
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._others: frozenset[str] = frozenset()
        """API groups of other API servers."""

    async def find_reason(self, spec: BundleSpec, operations: Collection[Operation]) -> str:
        """Why the API server can't hold a deploy to these operations; at most ten minutes old.

        A sentence without a full stop; empty: it can.

        Raises:
            ApiError: it can't be asked now.
        """
        if self._guard.policy is None:
            return f"the operator has no policy for it ({_SWITCH})"
        if spec.is_remote:
            return "the release is in another cluster, which has no such policy"
        account = ServiceAccount.of(spec)
        if fault := await self._known("policy", lambda: find_fault(self._client, self._guard)):
            return fault
        if fault := await self._known("groups", self._find_groups):
            return fault
        if away := sorted({one.group for one in operations} & self._others):
            return f"objects of {', '.join(away)} go to another API server, which asks no policy"
        return await self._known(account, lambda: self._account_fault(account))

    async def _known(
        self, question: ServiceAccount | str, ask: Callable[[], Awaitable[str]]
    ) -> str:
        now, known = self._monotonic(), self._answers.get(question)
        if known is not None:
            reason, at = known
            if now - at < (_UNENFORCED_SECONDS if reason else FRESH):
                return reason
        reason = await ask()
        self._answers.pop(question, None)
        self._answers[question] = reason, now
        if len(self._answers) > _ACCOUNTS:
            del self._answers[next(iter(self._answers))]
        return reason

    async def _find_groups(self) -> str:
        try:
            found = await self._client.request("GET", API_SERVICES, timeout=_SECONDS)
        except Forbidden as error:
            return f"which API groups other servers have can't be read: {error.message}"
        specs = [one.get("spec") or {} for one in found.get("items") or ()]
        self._others = frozenset(str(one.get("group")) for one in specs if one.get("service"))
        return ""

    async def _account_fault(self, account: ServiceAccount) -> str:
        """Why an account can't be held to a list: it may change the policies, or evade them."""
        asked = (self._review_fault(account, review) for review in self._reviews())
        return next(filter(None, await asyncio.gather(*asked)), "")

    def _reviews(self) -> Iterator[dict[str, str]]:
        """What an account must not be allowed.

        A role may have rights to the guard alone, by its name: a review without a name doesn't
        find these, one with a name finds both.

        That it may impersonate the service accounts of one namespace doesn't count: the
        ClusterRoles ``admin`` and ``edit`` have that, and no chart can make werf do it.
        """
        name = self._guard.policy or ""
        for resource in _EXEMPT:
            attributes = {"group": ADMISSION, "resource": resource}
            yield from ({"verb": verb, **attributes} for verb in _NAMELESS)
            yield from ({"verb": verb, "name": name, **attributes} for verb in _NAMED)
        yield from ({"verb": "impersonate", "group": "", "resource": one} for one in _IMPERSONATED)

    async def _review_fault(self, account: ServiceAccount, attributes: Mapping[str, str]) -> str:
        subject = Subject(account.user, account.groups)
        try:
            async with self._limit:
                granted = await is_allowed(self._client, attributes, subject, timeout=_SECONDS)
        except Forbidden as error:
            return (
                f"whether service account {account} may change admission policies or impersonate "
                f"others can't be asked: {error.message} (bundles.permissionReviews.enabled of the "
                "chart)"
            )
        if not granted:
            return ""
        what = ".".join(filter(None, (attributes["resource"], attributes["group"])))
        evades = "remove the policy" if attributes["group"] else "write as somebody without a list"
        return (
            f"service account {account} may {attributes['verb']} {what}, so it could {evades}: "
            "give it a role without that"
        )


async def find_fault(client: KubeClient, guard: Guard) -> str:
    """What is wrong with the policy and its binding, as a sentence; empty: nothing.

    Raises:
        ApiError: they can't be read now.
    """
    name = guard.policy or ""
    of_binding = partial(binding_fault, policy=name, home=guard.namespace)
    for path, kind, fault_of in (
        (POLICIES, "ValidatingAdmissionPolicy", policy_fault),
        (BINDINGS, "ValidatingAdmissionPolicyBinding", of_binding),
    ):
        try:
            body = await client.request("GET", f"{path}/{name}", timeout=_SECONDS)
        except NotFound:
            return f"there is no {kind} {name} (v1, Kubernetes 1.30 and later; {_SWITCH})"
        except Forbidden as error:
            return f"{kind} {name} can't be read: {error.message}"
        if fault := fault_of(body.get("spec") or {}):
            return f"{kind} {name} isn't the chart's: {fault}"
    return ""


def policy_fault(spec: Mapping[str, Any]) -> str:
    """What in a ValidatingAdmissionPolicy isn't as the chart's guard; empty: nothing.

    Only what decides whether it holds: who may change it could write any expression.
    """
    if spec.get("failurePolicy") != "Fail":
        return "failurePolicy isn't Fail"
    if spec.get("paramKind") != {"apiVersion": "v1", "kind": "ConfigMap"}:
        return "paramKind isn't a ConfigMap"
    constraints = spec.get("matchConstraints") or {}
    if not any(map(_is_all, constraints.get("resourceRules") or ())):
        return "matchConstraints leaves some requests out"
    if constraints.get("namespaceSelector") or constraints.get("objectSelector"):
        return "matchConstraints leaves some objects out"
    return "" if spec.get("validations") else "it has no validations"


def _is_all(rule: Mapping[str, Any]) -> bool:
    """Whether a rule is for every request."""
    resources = (rule.get("apiGroups"), rule.get("apiVersions"), rule.get("resources"))
    return (
        resources == (["*"], ["*"], ["*/*"])
        and set(rule.get("operations") or ()) >= _OPERATIONS
        and rule.get("scope", "*") == "*"
        and not rule.get("resourceNames")
    )


def binding_fault(spec: Mapping[str, Any], policy: str, home: str) -> str:
    """What in its binding isn't as the chart's; empty: nothing.

    Args:
        spec: the binding's.
        policy: the policy's name.
        home: the namespace of the lists.
    """
    reference = spec.get("paramRef") or {}
    if spec.get("policyName") != policy:
        return f"policyName isn't {policy}"
    if "Deny" not in (spec.get("validationActions") or ()):
        return "validationActions lacks Deny"
    if reference.get("namespace") != home:
        return f"its lists aren't those of namespace {home}"
    exists = {"key": LABEL_GUARD, "operator": "Exists"}
    if reference.get("selector") != {"matchExpressions": [exists]}:
        return f"paramRef.selector isn't by the label {LABEL_GUARD}"
    narrowed = (spec.get("matchResources") or {}).items()
    if any(value for name, value in narrowed if name != "matchPolicy"):
        return "matchResources leaves some objects out"
    return ""
