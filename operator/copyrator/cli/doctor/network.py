"""Whether NetworkPolicies restrict what the pods of plans' Jobs connect to before an approval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import SpecError
from copyrator.api.names import LABEL_BUNDLE, LABEL_JOB_KIND
from copyrator.api.selectors import parse_selector
from copyrator.api.text import first_of
from copyrator.bundles.context import defaults_of
from copyrator.bundles.deploy.pod import JobKind
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.objects import listed, listed_in
from copyrator.cli.doctor.check import Check
from copyrator.kube import errors
from copyrator.kube.resources import BUNDLES, DAEMONSETS, NETWORKPOLICIES

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

_WHAT: Final = "Network of plans"
_NAMED: Final = 3
_PLUGINS: Final = (
    *("antrea", "azure-npm", "calico", "canal", "cilium", "kube-network-policies"),
    *("kube-router", "ovn", "romana", "weave"),
)
"""Parts of the names of DaemonSets of network plug-ins that enforce NetworkPolicies.

Source: Kubernetes, "Declare Network Policy", and the plug-ins' manifests."""


async def network(client: KubeClient, installation: Installation) -> Check:
    """Of the Bundles whose plans are approved: they run before anybody has seen them."""
    try:
        bundles = await listed_in(client, BUNDLES, installation.settings.scopes)
        defaults = defaults_of(installation.settings)
        specs = [
            spec
            for body in bundles
            if isinstance(spec := parse_bundle(body, defaults), BundleSpec)
            and spec.approval.is_enabled
        ]
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
    except errors.ApiError as error:
        return Check(_WHAT, None, f"can't be checked: {error.message}")
    if open_:
        said = (
            "before an approval the pods of plans may connect anywhere, as no NetworkPolicy "
            f"restricts their egress: {first_of(open_, _NAMED, ', ')}; the chart makes some "
            "(bundles.networkPolicy), see docs/approval.md"
        )
        return Check(_WHAT, None, said)
    said = "NetworkPolicies restrict the pods of all Bundles that need an approval"
    if found := next((one for one in plugins if any(part in one for part in _PLUGINS)), None):
        return Check(_WHAT, True, f"{said}; the network plug-in {found} enforces them")
    unseen = "no network plug-in that enforces them was recognised: check that yours does"
    return Check(_WHAT, None, f"{said}; {unseen}")


def _is_restricted(spec: BundleSpec, policies: Sequence[Mapping[str, Any]]) -> bool:
    labels = {**spec.job.pod_labels, LABEL_BUNDLE: spec.name, LABEL_JOB_KIND: JobKind.PLAN.value}
    return any(_restricts(policy["spec"], labels) for policy in policies)


def _restricts(policy: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether it selects a pod with these labels and restricts where that connects to."""
    try:
        selects = parse_selector(policy.get("podSelector") or {}, "podSelector").matches(labels)
    except SpecError:
        return False
    return selects and "Egress" in (policy.get("policyTypes") or ())
