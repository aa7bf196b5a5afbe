"""Checks of the operator's permissions, each by access reviews.

Those on workloads are needed only for some fields of Bundles and rules; the chart grants them by
switches of their own. Edits of values and credentials take effect at once only where the objects
may be watched: what is watched is computed by the operator's own code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.names import ANN_ACCEPT_FROM
from copyrator.api.rollout import Restart
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import count
from copyrator.bundles.engine.references import (
    Ref,
    WatchScope,
    decide,
    find_uncovered,
    references_of,
    scope_permissions,
)
from copyrator.bundles.features.health.fields import HealthMode
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.bundles.jobs.restrictions import refusal
from copyrator.cli.core.installation import Installation, Need, allowed
from copyrator.cli.core.objects import RESOURCES, Body
from copyrator.cli.doctor.check import Check, tried
from copyrator.kube import errors
from copyrator.kube.resources import (
    BUNDLES,
    CONFIGMAPS,
    DAEMONSETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    PODS,
    RULES,
    SECRETS,
    STATEFULSETS,
    Discovery,
    Resource,
)
from copyrator.kube.watch.reflector import name_of
from copyrator.settings.config import Settings

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

WRITE = ("get", "list", "watch", "create", "update", "patch", "delete")


async def missing_permissions(
    client: KubeClient, settings: Settings, user: str | None, *, plans: bool
) -> list[tuple[str, str]]:
    """The missing permissions of `user`, or of the caller, of all that the operator needs.

    Each with its remedy.

    Those for `plans` count where any Bundle's deploy is planned first.

    Raises:
        ApiError: access reviews aren't allowed.
    """
    resources = await _kinds(client, settings)
    needs = list(dict.fromkeys(_needs(settings, list(resources), plans=plans)))
    limit = asyncio.Semaphore(8)

    async def is_denied(need: Need) -> bool:
        async with limit:
            resource, _, verb, _ = need
            lease = settings.lease_name if resource is LEASES and verb != "create" else ""
            return not await allowed(client, need, user, lease)

    answers = await asyncio.gather(*(is_denied(need) for need in needs))
    return [
        (_shown(need), _remedy(need[0], resources.get(need[0], "")))
        for need, missing in zip(needs, answers, strict=True)
        if missing
    ]


def _remedy(resource: Resource, kind: str) -> str:
    """What helps; `kind` is the value of --kinds that asks for this resource, or empty."""
    if not kind or not resource.group or "." in kind:
        return "install the chart's ClusterRole"
    return (
        f"the chart grants nothing in the API group {resource.group} for {kind}: set {kind}."
        f"{resource.group} in rules.kinds (--kinds)"
    )


async def _kinds(client: KubeClient, settings: Settings) -> dict[Resource, str]:
    """The resources of --kinds that the cluster serves, and the value of each."""
    discovery = Discovery(client)
    found = {}
    for kind in settings.kinds:
        word, _, rest = kind.partition(".")
        group, _, version = rest.partition("/")
        try:
            resource = await discovery.resolve(word, f"{group}/{version}" if version else None)
        except (errors.KindUnavailable, errors.AmbiguousKind):
            continue  # the operator reports it itself, and so does a rule of this kind
        found[resource] = kind
    return found


def _needs(settings: Settings, kinds: list[Resource], *, plans: bool) -> Iterator[Need]:
    home = settings.lease_namespace or settings.namespace
    for verb in ("get", "create", "update"):
        yield LEASES, "", verb, home
    for verb in ("get", "list", "watch"):  # the signature policy and the keys that it names
        yield CONFIGMAPS, "", verb, settings.namespace
    wanted: list[tuple[Resource, str, tuple[str, ...]]] = [
        (RULES, "", ("list", "watch", "patch", "mark")),
        (RULES, "status", ("patch",)),
        (BUNDLES, "", ("get", "list", "watch", "patch")),
        (BUNDLES, "status", ("patch",)),
        (JOBS, "", ("get", "list", "watch", "create", "patch")),
        (PODS, "", ("list", "watch")),
        (PODS, "log", ("get",)),
        (EVENTS, "", ("get", "create", "patch")),
        *((kind, "", WRITE) for kind in kinds),
    ]
    if plans:
        wanted.append((SECRETS, "", ("create", "delete", "deletecollection")))
    for namespace in settings.scopes:
        for resource, subresource, verbs in wanted:
            for verb in verbs:
                yield resource, subresource, verb, namespace
    if not settings.watch_namespaces:
        yield NAMESPACES, "", "list", None
        yield NAMESPACES, "", "watch", None


async def permission_reviews(client: KubeClient, installation: Installation) -> Check:
    """Whether the operator may review what the service accounts of Jobs lack; it is optional."""
    what = "Permission reviews"
    user = installation.user
    if user is None:
        return Check(what, None, "the operator's account isn't known without a Deployment")
    try:
        granted = await allowed(client, (_REVIEWS, "", "create", None), user)
    except errors.ApiError as error:
        return Check(what, None, f"can't review those of {user}: {error.message}")
    if granted:
        return Check(what, True, "plans name the permissions that their service account lacks")
    said = (
        f"{user} cannot create {_REVIEWS.key}: plans don't name the permissions that their "
        "service account lacks, which shows once a deploy fails; the chart grants it "
        "(bundles.permissionReviews.enabled), but not with watchNamespaces"
    )
    return Check(what, None, said)


CONSENT: Final = "Consent reviews"


@tried(CONSENT, "can't be reviewed")
async def consent_reviews(
    client: KubeClient, installation: Installation, bundles: Sequence[Body]
) -> Check | None:
    """Whether the operator may ask for the consent of other namespaces to releases there.

    None where no Bundle has its release in another namespace.
    """
    user, settings = installation.user, installation.settings
    if not any(map(_is_elsewhere, bundles)):
        return None
    if user is None:
        return Check(CONSENT, None, "the operator's account isn't known without a Deployment")
    needs: list[Need] = [(_LOCAL_REVIEWS, "", "create", scope) for scope in settings.scopes]
    missing = [one for one in needs if not await allowed(client, one, user)]
    if not missing:
        said = "releases in other namespaces need their consent: a permission or an annotation"
        return Check(CONSENT, True, said)
    said = (
        f"{user} cannot {_shown(missing[0])}: Bundles with their release in another namespace "
        f"deploy only where that Namespace has the annotation {ANN_ACCEPT_FROM}; the chart grants "
        "it (bundles.permissionReviews.enabled)"
    )
    return Check(CONSENT, None, said)


def _is_elsewhere(body: Body) -> bool:
    spec = body.get("spec") or {}
    if spec.get("kubeConfig"):
        return False  # the credential is the consent
    return spec.get("project_namespace") not in (None, "", name_of(body).namespace)


_LOCAL_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview"
)
_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)


def _shown(need: Need) -> str:
    resource, subresource, verb, namespace = need
    what = f"{resource.key}/{subresource}" if subresource else resource.key
    return f"{verb} {what} in {namespace or 'all namespaces'}"


WORKLOADS: Final = (DEPLOYMENTS, STATEFULSETS, DAEMONSETS)


def _rollout(body: Body) -> Mapping[str, Any]:
    found = (body.get("spec") or {}).get("rollout")
    return found if isinstance(found, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Feature:
    """A field that needs permissions, and the chart's switch that grants them."""

    what: str
    field: str
    users: str
    """What has the field: ``rules`` or ``bundles``."""
    asks: Callable[[Body], bool]
    kinds: tuple[Resource, ...]
    verbs: tuple[str, ...]
    switch: str
    consequence: str


FEATURES: Final = (
    Feature(
        "Health of releases",
        "spec.health",
        "bundles",
        lambda body: (body.get("spec") or {}).get("health") == HealthMode.WATCH,
        (*WORKLOADS, JOBS),
        ("list", "watch"),
        "bundles.health.enabled",
        "the condition Healthy stays Unknown",
    ),
    Feature(
        "Health of rollouts",
        "spec.rollout.health",
        "rules",
        lambda body: _rollout(body).get("health") is True,
        WORKLOADS,
        ("get", "list"),
        "rules.consumers",
        "their rollouts wait",
    ),
    Feature(
        "Restarts of rollouts",
        "spec.rollout.restart",
        "rules",
        lambda body: _rollout(body).get("restart") == Restart.CONSUMERS,
        WORKLOADS,
        ("get", "list", "patch"),
        "rules.restart",
        "their rollouts wait",
    ),
)


async def workloads(
    client: KubeClient, installation: Installation, objects: Mapping[str, Sequence[Body]]
) -> AsyncIterator[Check]:
    """A check of each feature that a Bundle or a rule uses; ``objects``: by ``rules``, …."""
    for feature in FEATURES:
        using = [body for body in objects.get(feature.users, ()) if feature.asks(body)]
        if not using:
            continue
        try:
            yield await _check(client, installation, feature, using)
        except errors.ApiError as error:
            yield Check(feature.what, None, f"can't be checked: {error.message}")


async def _check(
    client: KubeClient,
    installation: Installation,
    feature: Feature,
    using: Sequence[Body],
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
    who = user or "you"
    whose = f"{RESOURCES[feature.users].kind} {name_of(using[0])}{more}"
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


_AT_ONCE: Final = 8
_REMEDY: Final = {
    CONFIGMAPS: "the chart's roles grant the permission",
    SECRETS: 'bundles.allowedSecrets: ["*"] in the chart grants the permission',
}


@dataclass(frozen=True, slots=True)
class Polled:
    """Objects that Bundles name and no watch covers; they are read at polls."""

    named: int
    """All objects that Bundles name."""
    refs: frozenset[Ref]

    def sentence(self, who: str) -> str:
        """How many are read at polls, and the remedy."""
        if not self.refs:
            watched = count(self.named, "object is", "objects are")
            return f"{watched} referenced by Bundles; edits take effect at once"
        denials = [
            f"{who} cannot list and watch all {kind.plural} of these namespaces, only single ones "
            f"by name ({_REMEDY[kind]})"
            for kind in sorted({ref.resource for ref in self.refs}, key=lambda kind: kind.plural)
        ]
        have = "has" if len(self.refs) == 1 else "have"
        return (
            f"{len(self.refs)} of {count(self.named, 'object')} referenced by Bundles {have} no "
            "watch, so edits take effect at the next poll: "
            f"{' and '.join(denials)}"
        )


async def polled_references(
    client: KubeClient, installation: Installation, bundles: Iterable[Body]
) -> Polled:
    """Find the objects that are read at polls only.

    Raises:
        ApiError: permissions can't be reviewed.
    """
    settings = installation.settings
    wanted: dict[Resource, dict[str, set[str]]] = {CONFIGMAPS: {}, SECRETS: {}}
    policy = settings.allowed_service_accounts, settings.allowed_images, settings.allowed_secrets
    for body in bundles:
        spec = parse_bundle(body, BundleDefaults())
        if isinstance(spec, InvalidSpec) or refusal(spec, *policy):
            continue
        for ref in references_of(spec):
            if settings.serves(ref.namespace):
                wanted[ref.resource].setdefault(ref.namespace, set()).add(ref.name)
    scopes = await _granted(client, installation, wanted)
    named = sum(len(names) for found in wanted.values() for names in found.values())
    return Polled(named, frozenset(find_uncovered(wanted, scopes)))


async def _granted(
    client: KubeClient, installation: Installation, wanted: dict[Resource, dict[str, set[str]]]
) -> set[WatchScope]:
    """What the operator may watch by its permissions."""
    gate = asyncio.Semaphore(_AT_ONCE)
    served = installation.settings.watch_namespaces

    async def is_denied(scope: WatchScope) -> bool:
        async with gate:
            for needs in scope_permissions(scope, served):
                need = (scope.resource, "", needs.permission.verb, needs.namespace or None)
                if not await allowed(client, need, installation.user):
                    return True
        return False

    refused: set[WatchScope] = set()
    good: set[WatchScope] = set()
    while True:
        scopes = decide(wanted, refused)
        unknown = [scope for scope in scopes if scope.is_wide and scope not in good]
        answers = await asyncio.gather(*map(is_denied, unknown))
        bad = {scope for scope, missing in zip(unknown, answers, strict=True) if missing}
        if not bad:
            return scopes
        refused |= bad
        good |= set(unknown) - bad
