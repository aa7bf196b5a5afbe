"""The permissions on workloads, which the operator needs only for some fields of Bundles and rules.

The chart grants them by switches of their own: `bundles.health.enabled`, `rules.consumers` and
`rules.restart`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api.health import HealthMode
from copyrator.api.rollout import Restart
from copyrator.cli.doctor_check import Check
from copyrator.cli.doctor_permissions import allowed
from copyrator.cli.installation import Installation
from copyrator.cli.objects import listed
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import (
    BUNDLES,
    DAEMONSETS,
    DEPLOYMENTS,
    JOBS,
    RULES,
    STATEFULSETS,
    Resource,
)

WORKLOADS: Final = (DEPLOYMENTS, STATEFULSETS, DAEMONSETS)


def _rollout(body: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (body.get("spec") or {}).get("rollout")
    return found if isinstance(found, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Feature:
    """A field that needs permissions, and the chart's switch that grants them."""

    what: str
    field: str
    users: Resource
    """The kind that has the field."""
    asks: Callable[[Mapping[str, Any]], bool]
    kinds: tuple[Resource, ...]
    verbs: tuple[str, ...]
    switch: str
    consequence: str


FEATURES: Final = (
    Feature(
        "Health of releases",
        "spec.health",
        BUNDLES,
        lambda body: (body.get("spec") or {}).get("health") == HealthMode.WATCH,
        (*WORKLOADS, JOBS),
        ("list", "watch"),
        "bundles.health.enabled",
        "the condition Healthy stays Unknown",
    ),
    Feature(
        "Health of rollouts",
        "spec.rollout.health",
        RULES,
        lambda body: _rollout(body).get("health") is True,
        WORKLOADS,
        ("get", "list"),
        "rules.consumers",
        "their rollouts wait",
    ),
    Feature(
        "Restarts of rollouts",
        "spec.rollout.restart",
        RULES,
        lambda body: _rollout(body).get("restart") == Restart.CONSUMERS,
        WORKLOADS,
        ("get", "list", "patch"),
        "rules.restart",
        "their rollouts wait",
    ),
)


async def workloads(client: KubeClient, installation: Installation) -> AsyncIterator[Check]:
    """A check of each feature that a Bundle or a rule uses."""
    objects: dict[str, list[Mapping[str, Any]]] = {}
    for feature in FEATURES:
        kind = feature.users
        try:
            if kind.key not in objects:
                scopes = installation.settings.scopes
                objects[kind.key] = [
                    body for scope in scopes for body in await listed(client, kind, scope)
                ]
            using = [body for body in objects[kind.key] if feature.asks(body)]
            check = await _check(client, installation, feature, using) if using else None
        except errors.ApiError as error:
            check = Check(feature.what, None, f"can't be checked: {error.message}")
        if check is not None:
            yield check


async def _check(
    client: KubeClient,
    installation: Installation,
    feature: Feature,
    using: Sequence[Mapping[str, Any]],
) -> Check:
    user, scopes = installation.user, installation.settings.scopes
    missing = [
        (kind, verb, scope)
        for scope in scopes
        for kind in feature.kinds
        for verb in feature.verbs
        if not await allowed(client, (kind, "", verb, scope), user)
    ]
    more = f" and {len(using) - 1} more" if using[1:] else ""
    asks = "ask" if using[1:] else "asks"
    first = using[0]["metadata"]
    who = user or "you"
    whose = f"{feature.users.kind} {first['namespace']}/{first['name']}{more}"
    if not missing:
        return Check(feature.what, True, f"{feature.field} of {whose}: granted to {who}")
    kind, verb, scope = missing[0]
    others = f" and {len(missing) - 1} more" if missing[1:] else ""
    said = (
        f"{whose} {asks} for {feature.field}, but {who} cannot {verb} {kind.key} in "
        f"{scope or 'all namespaces'}{others}: {feature.consequence}; the chart grants it "
        f"({feature.switch})"
    )
    return Check(feature.what, False if user else None, said)
