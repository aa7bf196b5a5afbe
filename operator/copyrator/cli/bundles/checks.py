"""What `copyrator doctor` checks of features of Bundles.

Without the admission policies everything works, but less is denied.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from copyrator import __version__
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.clouds import ANN_AWS_ROLE, ANN_AZURE_CLIENT, Provider
from copyrator.api.conditions import NO_CONDITION, read_conditions
from copyrator.api.names import LABEL_BUNDLE, LABEL_JOB_KIND
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.schema import InvalidSpec, SpecError
from copyrator.api.selectors import read_selector
from copyrator.api.text import count, first_of, said
from copyrator.api.verify import refs_of
from copyrator.bundles.engine.context import defaults_of
from copyrator.bundles.evidence.key_files import files_of
from copyrator.bundles.features.approval.settings import ApprovalSettings
from copyrator.bundles.features.attest.fields import ATTESTED, OPERATORS_KEY, AttestSpec
from copyrator.bundles.features.attest.reasons import AttestReason
from copyrator.bundles.features.login.identity import identity_of
from copyrator.bundles.features.promotion.fields import PromotionSpec
from copyrator.bundles.features.signatures.fields import VERIFIED
from copyrator.bundles.features.signatures.policy import (
    CONFIG_MAP,
    REQUIRED,
    policy_in,
    read_requirement,
)
from copyrator.bundles.features.signatures.settings import SignaturesSettings
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.bundles.jobs.pod import JobKind
from copyrator.bundles.plans.fields import ApprovalMode, ApprovalSpec
from copyrator.bundles.plans.guard.enforcement import find_fault
from copyrator.bundles.plans.guard.listing import Guard
from copyrator.bundles.plans.settings import PlanSettings
from copyrator.cli.bundles.clouds import shown_annotations
from copyrator.cli.bundles.resolve import attesters_of, read_files
from copyrator.cli.core.installation import Installation, allowed
from copyrator.cli.core.objects import Body, listed
from copyrator.cli.doctor.check import Check, find_policy, tried
from copyrator.kube import errors
from copyrator.kube.resources import (
    CONFIGMAPS,
    DAEMONSETS,
    NETWORKPOLICIES,
    SECRETS,
    SERVICEACCOUNTS,
)
from copyrator.kube.watch.reflector import name_of
from copyrator.signatures.attestation import is_encrypted, read_private_key
from copyrator.signatures.keyless import MISSING
from copyrator.signatures.model import TrustError

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.oci.auth import CloudIdentity


WHAT: Final = "Signatures"
_NAMED: Final = 3
"""Bundles and faults that a line names."""


async def signatures(
    client: KubeClient, installation: Installation, bundles: Sequence[Body] | None
) -> Check:
    """Whether the signature policy can be used, and what runs without being trusted."""
    policy = await _policy(client, installation)
    if bundles is None:
        return policy
    runs = _runs(bundles)
    found = {policy.good, runs.good}
    good = False if False in found else None if None in found else True
    only_bundles = good is False and policy.good is not False
    return Check(WHAT, good, f"{policy.said}; {runs.said}", of_object=only_bundles)


def _runs(bundles: Sequence[Body]) -> Check:
    """The Bundles that run a version that isn't trusted."""
    found = ((body, read_conditions(body).get(VERIFIED, NO_CONDITION)) for body in bundles)
    untrusted = sorted(str(name_of(body)) for body, verified in found if verified.is_false)
    if not untrusted:
        return Check(WHAT, True, "no running version is untrusted")
    runs = "runs a version that isn't" if len(untrusted) == 1 else "run versions that aren't"
    said = f"{count(len(untrusted), 'Bundle')} {runs} trusted: {first_of(untrusted, _NAMED, ', ')}"
    return Check(WHAT, False, said)


async def _policy(client: KubeClient, installation: Installation) -> Check:
    """The policy and the objects with keys that it names."""
    home = installation.settings.namespace
    where = f"ConfigMap {home}/{CONFIG_MAP}"
    contents: dict[LocalObjectRef, Mapping[str, bytes] | None] = {}
    try:
        policy = policy_in(await client.get(CONFIGMAPS, home, CONFIG_MAP))
        for ref in {ref for entry in policy.entries for ref in refs_of(entry.any_of)}:
            contents[ref] = await read_files(client, home, ref)
    except errors.NotFound:
        if installation.settings.of(SignaturesSettings).require_signature_policy:
            return Check(WHAT, False, f"{where} {REQUIRED}: nothing new is deployed")
        said = "no policy of the operator: only spec.verify of Bundles requires signatures"
        return Check(WHAT, True, said)
    except errors.ApiError as error:
        return Check(WHAT, None, f"{where} or its keys can't be read: {error.message}")
    except SpecError as error:
        return Check(WHAT, False, f"{where}: {error}; nothing new is deployed")
    faults = [
        fault
        for entry in policy.entries
        for fault in read_requirement(entry.name, home, entry.any_of, contents)[1]
    ]
    if faults:
        only_here = all(MISSING in fault for fault in faults)  # the operator's image may have it
        return Check(WHAT, None if only_here else False, f"{where}: {first_of(faults, _NAMED)}")
    entries = count(len(policy.entries), "entry", "entries")
    return Check(WHAT, True, f"{where} has {entries}, default {policy.default}")


BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
APPROVAL_DOMAIN = "bundles.operator.werf.dev"
"""Suffix of the name of the policy about approvals, after the release's namespace."""

APPROVAL = "Approval policy"


@tried(APPROVAL, "can't be listed")
async def approval_policy(client: KubeClient, installation: Installation) -> Check:
    """The policy about approvals and its binding."""
    consequence = "whoever can edit a Bundle can also approve its plans"
    name, said = await find_policy(
        client, installation, APPROVAL_DOMAIN, consequence, "bundles.approvalPolicy.enabled"
    )
    if not name:
        return Check(APPROVAL, None, said)
    bindings = (await client.request("GET", BINDINGS)).get("items") or ()
    specs = (binding.get("spec") or {} for binding in bindings)
    if not any(
        one.get("policyName") == name and "Deny" in (one.get("validationActions") or ())
        for one in specs
    ):
        said = f"{name} has no binding that denies: {consequence}; the chart installs one"
        return Check(APPROVAL, None, f"{said} (helm upgrade)")
    said = f"with {name} only users with the verb approve on bundles approve plans"
    return Check(APPROVAL, True, said)


GUARD: Final = "Enforced plans"


@tried(GUARD)
async def guard(client: KubeClient, installation: Installation) -> Check:
    """The policy by which the API server refuses what isn't approved."""
    found = Guard(installation.settings.of(PlanSettings).guard_policy, installation.namespace)
    consequence = "plans aren't enforced, so OnRisk asks for each; see docs/approval.md"
    if found.policy is None:
        said = "the operator has no policy for it (bundles.guard.enabled of the chart)"
        return Check(GUARD, None, f"{said}: {consequence}")
    if fault := await find_fault(client, found):
        return Check(GUARD, None, f"{fault}: {consequence}")
    return Check(GUARD, True, f"{found.policy} refuses what isn't approved")


def needs_approval(installation: Installation, bundles: Sequence[Body]) -> bool:
    """Whether deploys are approved, by the settings or by a Bundle's spec."""
    is_required = bool(installation.settings.of(ApprovalSettings).require_approval)
    return is_required or any(map(asks_for_approval, bundles))


def asks_for_approval(body: Body) -> bool:
    """Whether a Bundle's spec does."""
    approval = (body.get("spec") or {}).get("approval") or {}
    return bool(approval.get("mode", ApprovalMode.NEVER) != ApprovalMode.NEVER)


CLOUDS: Final = "Clouds' identities"
_REQUIRED: Final = {Provider.AWS: ANN_AWS_ROLE, Provider.AZURE: ANN_AZURE_CLIENT}


async def clouds(
    client: KubeClient, installation: Installation, bundles: Sequence[Body]
) -> AsyncIterator[Check]:
    """Each identity that Bundles use, and why it can't be used; nothing without ``spec.provider``.

    Whether the cloud trusts it, only the cloud can tell: `copyrator resolve --bundle` asks it.
    """
    used: dict[CloudIdentity, str] = {}
    faults: list[str] = []
    for body in bundles:
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
        yield Check(CLOUDS, False, first_of(faults, _NAMED))
    if used:
        yield _image(installation, used)
        yield Check(
            CLOUDS, True, f"Bundles use {first_of(list(dict.fromkeys(used.values())), _NAMED)}"
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
        said = f"{image} has no library for {providers}; set image.variant=clouds of the chart"
        return Check(CLOUDS, False, said)
    if image.endswith("-clouds"):
        return Check(CLOUDS, True, f"{image} has the libraries for {providers}")
    said = f"whether the operator has the library for {providers} can't be seen"
    return Check(CLOUDS, None, f"{said} by the name of its image{image and f', {image}'}")


NETWORK: Final = "Network of plans"
_PLUGINS: Final = (
    *("antrea", "azure-npm", "calico", "canal", "cilium", "kube-network-policies"),
    *("kube-router", "ovn", "romana", "weave"),
)
"""Parts of the names of DaemonSets of network plug-ins that enforce NetworkPolicies.

Source: Kubernetes, "Declare Network Policy", and the plug-ins' manifests."""


@tried(NETWORK)
async def network(client: KubeClient, installation: Installation, bundles: Sequence[Body]) -> Check:
    """Whether NetworkPolicies restrict what the pods of plans connect to before an approval."""
    defaults = defaults_of(installation.settings)
    parsed = (parse_bundle(body, defaults) for body in bundles)
    specs = [one for one in parsed if isinstance(one, BundleSpec) and one.uses(ApprovalSpec)]
    policies = {
        namespace: await listed(client, NETWORKPOLICIES, namespace)
        for namespace in {spec.namespace for spec in specs}
    }
    open_ = [
        f"{spec.namespace}/{spec.name}"
        for spec in specs
        if not _is_restricted(spec, policies[spec.namespace])
    ]
    plugins = [body["metadata"]["name"] for body in await listed(client, DAEMONSETS, None)]
    if open_:
        said = (
            "before an approval the pods of plans may connect anywhere, as no NetworkPolicy "
            f"restricts their egress: {first_of(open_, _NAMED, ', ')}; the chart makes some "
            "(bundles.networkPolicy), see docs/approval.md"
        )
        return Check(NETWORK, None, said)
    said = "NetworkPolicies restrict the pods of all Bundles that need an approval"
    if found := next((one for one in plugins if any(part in one for part in _PLUGINS)), None):
        return Check(NETWORK, True, f"{said}; the network plug-in {found} enforces them")
    unseen = "no network plug-in that enforces them was recognised: check that yours does"
    return Check(NETWORK, None, f"{said}; {unseen}")


def _is_restricted(spec: BundleSpec, policies: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one selects the pods of its plans and restricts where these connect to."""
    labels = {**spec.job.pod_labels, LABEL_BUNDLE: spec.name, LABEL_JOB_KIND: JobKind.PLAN.value}
    for policy in (one["spec"] for one in policies):
        with suppress(SpecError):
            selects = read_selector(policy.get("podSelector") or {}).matches(labels)
            if selects and "Egress" in (policy.get("policyTypes") or ()):
                return True
    return False


ATTESTATIONS: Final = "Attestations"


@tried(ATTESTATIONS, "keys can't be read")
async def attestations(
    client: KubeClient, installation: Installation, bundles: Iterable[Body]
) -> Check:
    """Doctor's check: what Bundles attest is pushed, their keys and environments' can be used."""
    faults: list[str] = []
    attesting = promoted = 0
    for body in bundles:
        spec = parse_bundle(body, BundleDefaults())
        if not isinstance(spec, BundleSpec):
            continue
        attesting += spec.uses(AttestSpec)
        promoted += bool(spec.part(PromotionSpec).attestations)
        fault = _push_fault(body) if spec.uses(AttestSpec) else ""
        fault = fault or await _key_fault(client, installation, spec)
        try:
            fault = fault or (await attesters_of(client, spec)).fault
        except SpecError as error:
            fault = str(error)
        if fault:
            faults.append(f"Bundle {name_of(body)}: {fault}")
    if faults:
        return Check(ATTESTATIONS, False, first_of(faults, _NAMED))
    attest = count(attesting, "Bundle attests", "Bundles attest")
    follow = count(promoted, "is", "are")
    return Check(ATTESTATIONS, True, f"{attest}, and {follow} promoted by attestations")


async def _key_fault(client: KubeClient, installation: Installation, spec: BundleSpec) -> str:
    """Why the key that attests can't be used; empty where it can, or none is needed.

    An encrypted one isn't decrypted: that may take as long as its file says.
    """
    if (attest := spec.find(AttestSpec)) is None:
        return ""
    key = attest.own_key or OPERATORS_KEY
    namespace = spec.namespace if attest.own_key else installation.namespace
    ref = LocalObjectRef(key.secret, ValuesKind.SECRET)
    where = f"Secret {namespace}/{key.secret} of spec.attest"
    try:
        files = files_of(ref, await client.get(SECRETS, namespace, key.secret))
    except errors.NotFound:
        return f"{where} doesn't exist; create it"
    password = files.get(key.password_key or "")
    is_required = attest.own_key is not None and key.password_key is not None
    missing = [key.key] if key.key not in files else []
    missing += [str(key.password_key)] if is_required and password is None else []
    if missing:
        return f"{where} has no key {missing[0]}; add it"
    content = files[key.key]
    if is_encrypted(content) and password:
        return ""
    try:
        read_private_key(f"the key {key.key} of {where}", content, password)
    except TrustError as error:
        return str(error)
    return ""


def _push_fault(body: Body) -> str:
    """Why a Bundle's statement isn't in the registry; empty where it is, or was withdrawn."""
    found = read_conditions(body).get(ATTESTED, NO_CONDITION)
    if not found.is_false or found.reason == AttestReason.ATTESTATION_WITHDRAWN:
        return ""
    return f"{said(found.reason)}: {said(found.message, 512)}"
