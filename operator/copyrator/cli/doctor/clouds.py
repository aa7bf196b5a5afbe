"""Doctor's check of Bundles whose registries get tokens of a cloud's identity."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from copyrator import __version__
from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults
from copyrator.api.clouds import ANN_AWS_ROLE, ANN_AZURE_CLIENT, Provider
from copyrator.api.fields import InvalidSpec
from copyrator.api.text import first_of
from copyrator.bundles.context import identity_of
from copyrator.cli.bundles.clouds import shown_annotations
from copyrator.cli.core.installation import Installation, allowed
from copyrator.cli.core.objects import listed_in
from copyrator.cli.doctor.check import Check
from copyrator.kube import errors
from copyrator.kube.resources import BUNDLES, SECRETS, SERVICEACCOUNTS
from copyrator.kube.watch.store import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.oci.auth import CloudIdentity

WHAT: Final = "Clouds' identities"
_SHOWN: Final = 3
_REQUIRED: Final = {Provider.AWS: ANN_AWS_ROLE, Provider.AZURE: ANN_AZURE_CLIENT}


async def clouds(client: KubeClient, installation: Installation) -> AsyncIterator[Check]:
    """Each identity that Bundles use, and why it can't be used; nothing without ``spec.provider``.

    Whether the cloud trusts it, only the cloud can tell: `copyrator resolve --bundle` asks it.
    """
    used: dict[CloudIdentity, str] = {}
    faults: list[str] = []
    for body in await listed_in(client, BUNDLES, installation.settings.scopes):
        if not (body.get("spec") or {}).get("provider"):
            continue
        spec = parse_bundle(body, BundleDefaults())
        bundle = f"Bundle {name_of(body)}"
        if isinstance(spec, InvalidSpec):
            faults.append(f"{bundle}: {spec}")
        elif identity := identity_of(spec, installation.settings):
            used.setdefault(identity, bundle)
    for identity, bundle in used.items():
        who, fault = await _examine(client, installation, identity)
        if fault:
            faults.append(f"{bundle}: {fault}")
        used[identity] = who
    if faults:
        yield Check(WHAT, False, first_of(faults, _SHOWN))
    if used:
        yield _image(installation, used)
        yield Check(
            WHAT, True, f"Bundles use {first_of(list(dict.fromkeys(used.values())), _SHOWN)}"
        )


async def _examine(
    client: KubeClient, installation: Installation, identity: CloudIdentity
) -> tuple[str, str]:
    """Who it is, and why a token of it can't be asked for, as far as that can be seen."""
    provider, namespace = identity.registry.provider, identity.namespace
    shown = f"{identity} for {identity.registry.host}"
    if not identity.account:
        return f"{shown} in {namespace}", await _secrets(client, installation, namespace)
    try:
        body = await client.get(SERVICEACCOUNTS, namespace, identity.account)
    except errors.NotFound:
        return shown, f"{identity} doesn't exist; create it, or set spec.serviceAccountName"
    annotations: Mapping[str, Any] = body["metadata"].get("annotations") or {}
    shown = f"{identity}{shown_annotations(provider, annotations)} for {identity.registry.host}"
    required = _REQUIRED.get(provider)
    if required and not annotations.get(required):
        return shown, f"{identity} has no annotation {required}; see docs/clouds.md"
    if identity.account not in installation.settings.allowed_service_accounts:
        return shown, f"{identity} isn't in bundles.allowedServiceAccounts"
    need = (SERVICEACCOUNTS, "token", "create", namespace)
    if not await allowed(client, need, installation.user, identity.account):
        return shown, (
            f"{installation.user or 'you'} cannot create tokens of {identity}; set "
            "bundles.workloadIdentity.enabled of the chart"
        )
    return shown, await _secrets(client, installation, namespace)


async def _secrets(client: KubeClient, installation: Installation, namespace: str) -> str:
    if await allowed(client, (SECRETS, "", "create", namespace), installation.user):
        return ""
    return (
        f"{installation.user or 'you'} cannot create Secrets in {namespace}, which Jobs get the "
        "token in; set bundles.plans.enabled of the chart"
    )


def _image(installation: Installation, used: Mapping[CloudIdentity, str]) -> Check:
    """Whether the operator's image has the libraries, where its tag is one of a release."""
    image = installation.image or ""
    providers = ", ".join(sorted({str(one.registry.provider) for one in used}))
    if image.endswith((f":{__version__}", f":{__version__}-keyless")):
        said = f"{image} has no library for {providers}; set image.clouds of the chart"
        return Check(WHAT, False, said)
    if image.endswith("-clouds"):
        return Check(WHAT, True, f"{image} has the libraries for {providers}")
    said = f"whether the operator has the library for {providers} can't be seen"
    return Check(WHAT, None, f"{said} by the name of its image{image and f', {image}'}")
