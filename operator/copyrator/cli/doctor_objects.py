"""Checks of the operator's pods, and of rules and Bundles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from copyrator.api.rule_status import RuleReason
from copyrator.api.times import parse_time
from copyrator.cli import rows
from copyrator.cli.doctor_check import Check
from copyrator.cli.hints import hint
from copyrator.cli.installation import DEPLOYMENTS, Installation
from copyrator.cli.objects import listed
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import BUNDLES, PODS, RULES

PATIENCE = 30.0
"""Seconds after which an object without a status counts as not reconciled."""

Body = Mapping[str, Any]


async def pods(client: KubeClient, installation: Installation) -> AsyncIterator[Check]:
    """Whether a pod is ready behind the Deployment, and if not, what its containers wait for."""
    if installation.deployment is None:
        return
    namespace = installation.namespace
    body = await client.get(DEPLOYMENTS, namespace, installation.deployment)
    wanted, status = body["spec"].get("replicas", 1), body.get("status") or {}
    ready = status.get("readyReplicas") or 0
    if wanted == 0:
        said = f"the Deployment {namespace}/{installation.deployment} is scaled to 0"
        yield Check("Pods", None, said)
        return
    if ready:
        yield Check("Pods", True, f"{ready} of {wanted} ready")
        return
    labels = body["spec"]["selector"].get("matchLabels") or {}
    selector = ",".join(f"{label}={value}" for label, value in sorted(labels.items()))
    found: list[dict[str, Any]] = []
    try:
        found = await listed(client, PODS, namespace, selector=selector)
    except errors.Forbidden:
        why = ["you have no permission to list them"]
    else:
        why = [reason for pod in found for reason in waiting(pod)]
    said = f"0 of {wanted} ready"
    reasons = f": {'; '.join(why)}" if why else "" if found else "; no pods found"
    look = f"kubectl -n {namespace} describe pods -l {selector}"
    yield Check("Pods", False, f"{said}{reasons}; see: {look}")


def waiting(pod: Body) -> Iterator[str]:
    """What a pod's containers wait for; of a pod that isn't scheduled, why."""
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    for container in status.get("containerStatuses") or ():
        state = (container.get("state") or {}).get("waiting") or {}
        if state.get("reason"):
            message = f": {state['message']}" if state.get("message") else ""
            yield f"{name}: {state['reason']}{message}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield f"{name}: {condition.get('reason')}: {condition.get('message')}"


async def objects(client: KubeClient, installation: Installation) -> AsyncIterator[Check]:
    """Rules and Bundles that fail, and those that the operator hasn't reconciled."""
    now = datetime.now(UTC)
    denied: list[errors.Forbidden] = []
    for resource, what in ((RULES, "rules"), (BUNDLES, "bundles")):
        try:
            bodies = [
                body
                for scope in installation.settings.scopes
                for body in await listed(client, resource, scope)
            ]
        except errors.Forbidden as error:
            denied.append(error)
            said = f"you have no permission to check them: {error.message}"
            yield Check(what.capitalize(), None, said)
            continue
        wrong = list(object_faults(bodies, resource.kind, installation, now))
        for check in wrong:
            yield check
        if not wrong:
            said = f"{len(bodies)} found, none failing ({hint('get', what, '-A')})"
            yield Check(what.capitalize(), True, said)


def object_faults(
    bodies: list[dict[str, Any]], kind: str, installation: Installation, now: datetime
) -> Iterator[Check]:
    """What isn't well with rules or Bundles; a suspended one is only information."""
    for body in bodies:
        metadata = body["metadata"]
        shown = f"{kind} {metadata['namespace']}/{metadata['name']}"
        condition = rows.ready(body)
        said = f"{condition.get('reason')}: {rows.trouble(body)}"
        is_failing = condition.get("status") == "False"
        if is_failing and not rows.is_suspended(body):
            yield Check(shown, False, said)
        elif failed := rows.failed_poll(body):
            yield Check(shown, None, failed)
        elif is_failing or condition.get("reason") == RuleReason.NO_TARGETS:
            yield Check(shown, None, said)
        elif not rows.ready(body) and is_overlooked(body, kind, installation, now):
            said = "not reconciled yet: the operator isn't running, or can't list this kind"
            yield Check(shown, False, said)


def is_overlooked(body: Body, kind: str, installation: Installation, now: datetime) -> bool:
    """Whether an object without a status should have one by now."""
    named = installation.settings.rule_name
    if kind == RULES.kind and named not in (None, body["metadata"]["name"]):
        return False
    created = parse_time(body["metadata"].get("creationTimestamp"))
    return created is not None and (now - created).total_seconds() > PATIENCE
