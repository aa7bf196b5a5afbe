"""Checks of the chart's admission policies; everything works without them, but less is denied."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from copyrator.api.bundle_spec import ApprovalMode
from copyrator.cli.doctor_check import Check
from copyrator.cli.installation import Installation
from copyrator.cli.objects import listed
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import BUNDLES

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/validatingadmissionpolicybindings"
MARKS_DOMAIN = "copyrator.flant.com"
"""Suffix of the name of the policy about marks, after the release's namespace."""
APPROVAL_DOMAIN = "bundles.operator.werf.dev"
"""Likewise of the policy about approvals."""

MARKS = "Admission policy"
APPROVAL = "Approval policy"


async def marks_policy(client: KubeClient, installation: Installation) -> Check:
    """The policy about marks."""
    try:
        names = await _names(client, installation, MARKS_DOMAIN)
    except errors.NotFound:
        said = (
            "not served as v1 by this API server (Kubernetes 1.30 and later); the marks of "
            "copies aren't protected"
        )
        return Check(MARKS, None, f"{said}, see docs/trust.md")
    except errors.ApiError as error:
        return Check(MARKS, None, f"can't be listed: {error.message}")
    if names:
        return Check(MARKS, True, f"{names[0]} protects the marks of copies")
    said = "not installed: a user who can edit a copy can also change its marks"
    return Check(MARKS, None, f"{said}; the chart installs one (rules.admissionPolicy)")


async def plans_are_asked(client: KubeClient, installation: Installation) -> bool:
    """Whether the settings or a Bundle that the user may list ask for approval."""
    if installation.settings.require_approval:
        return True
    with suppress(errors.ApiError):
        for scope in installation.settings.scopes:
            if any(map(_asks, await listed(client, BUNDLES, scope))):
                return True
    return False


async def approval_policy(client: KubeClient, installation: Installation) -> Check:
    """The policy about approvals and its binding."""
    consequence = "whoever can edit a Bundle can also approve its plans"
    try:
        names = await _names(client, installation, APPROVAL_DOMAIN)
        bindings = (await client.request("GET", BINDINGS)).get("items") or ()
    except errors.NotFound:
        said = (
            "not served as v1 by this API server (Kubernetes 1.30 and later): "
            f"{consequence}; upgrade Kubernetes, see docs/trust.md"
        )
        return Check(APPROVAL, None, said)
    except errors.ApiError as error:
        return Check(APPROVAL, None, f"can't be listed: {error.message}")
    if not names:
        said = f"not installed: {consequence}; the chart installs one"
        return Check(APPROVAL, None, f"{said} (bundles.approvalPolicy.enabled)")
    if not any(_denies(binding, names[0]) for binding in bindings):
        said = f"{names[0]} has no binding that denies: {consequence}; the chart installs one"
        return Check(APPROVAL, None, f"{said} (helm upgrade)")
    said = f"with {names[0]} only users with the verb approve on bundles approve plans"
    return Check(APPROVAL, True, said)


def _asks(body: Mapping[str, Any]) -> bool:
    approval = (body.get("spec") or {}).get("approval") or {}
    return bool(approval.get("mode", ApprovalMode.NEVER) != ApprovalMode.NEVER)


def _denies(binding: Mapping[str, Any], policy: str) -> bool:
    spec = binding.get("spec") or {}
    return spec.get("policyName") == policy and "Deny" in (spec.get("validationActions") or ())


async def _names(client: KubeClient, installation: Installation, domain: str) -> list[str]:
    """The installation's policies of this domain.

    Raises:
        NotFound: the API server doesn't serve the kind.
        ApiError: they can't be listed.
    """
    found = await client.request("GET", POLICIES)
    ending = f".{installation.namespace}.{domain}"
    names = [str(one["metadata"]["name"]) for one in found.get("items") or ()]
    return [name for name in names if name.endswith(ending)]
