"""What is said of another cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, ClusterStatus
from copyrator.api.conditions import ConditionType
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.reasons.notices import About
from copyrator.api.text import said
from copyrator.bundles.features.cluster.fields import ClusterSpec
from copyrator.bundles.words import DeployStep, Notice, Place, StepState, Told, View, Words


class ClusterWords(Words):
    """Where the release is."""

    def lines(self, view: View, place: Place) -> Iterator[str]:
        """That cluster, also of an invalid spec."""
        if place is Place.CLUSTER and (view.body.get("spec") or {}).get("kubeConfig"):
            yield _describe(view)

    def steps(self, view: View, spec: BundleSpec, place: Place) -> Iterator[DeployStep]:
        """Whether its kubeconfig can be used."""
        if place is Place.NAMESPACE and spec.uses(ClusterSpec):
            yield _step(view)

    def notices(self, told: Told) -> Iterator[Notice]:
        """That its credential ends."""
        found = told.status.condition(ConditionType.CERTIFICATE_EXPIRING)
        if found.is_true:
            since, why = found.last_transition_time or "", found.message or ""
            what = "uses a kubeconfig whose credential ends soon"
            yield Notice(7, About.CERTIFICATE_EXPIRING, what, since, since, why, told.why)

    def unknown(self, status: BundleStatus) -> Iterator[About]:
        """Whether it does, without conditions, as after a backup was restored."""
        if not status.conditions:
            yield About.CERTIFICATE_EXPIRING


def _describe(view: View) -> str:
    """The cluster of spec.kubeConfig: its API server, and the Secret that names it."""
    status, spec = view.status, view.spec
    server = status.deployed.server or status.part(ClusterStatus).server
    by = spec.find(ClusterSpec) if isinstance(spec, BundleSpec) else None
    named = f" ({by})" if by is not None else ""
    return f"{said(server)}{named}" if server else f"a cluster that isn't known yet{named}"


def _step(view: View) -> DeployStep:
    """Whether the kubeconfig of another cluster can be used."""
    ready = view.status.condition(ConditionType.READY)
    unusable = BundleReason.KUBE_CONFIG_INVALID, BundleReason.CLUSTER_UNREACHABLE
    text, reason = f"the release is in {view.cluster}", ready.reason
    if _is_tried_again(view):
        reason = BundleReason.CLUSTER_UNREACHABLE
    if reason in unusable:
        return DeployStep("cluster", StepState.WAITING, text, reason=reason)
    is_known = view.status.part(ClusterStatus).server is not None
    return DeployStep("cluster", StepState.PASSED if is_known else StepState.WAITING, text)


def _is_tried_again(view: View) -> bool:
    """Whether a deploy or a plan is running after one that had no access to the cluster."""
    attempted, last = view.status.attempted, next(iter(view.status.past), None)
    if attempted.is_running and attempted.interruptions:
        return last is not None and last.reason == BundleReason.CLUSTER_UNREACHABLE
    return view.is_repeating


WORDS: Final = ClusterWords()
