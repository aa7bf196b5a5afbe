"""Finds the operator that serves the cluster, and its settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api.text import parse_time
from copyrator.cli.core.cluster import complete_namespaces
from copyrator.cli.core.objects import RESOURCES, Body, listed
from copyrator.kube import errors
from copyrator.kube.permissions import Subject, is_allowed
from copyrator.kube.resources import DEPLOYMENTS, LEASES, Resource
from copyrator.kube.watch.reflector import name_of
from copyrator.runtime.flags import parameters, parse
from copyrator.settings.config import KNOWN_KINDS, Settings

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def username(client: KubeClient) -> str:
    """The name of the user, or of the one who is impersonated."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await client.request("POST", _REVIEWS, body=body)
    return str(answer["status"]["userInfo"]["username"])


Need = tuple[Resource, str, str, str | None]
"""Resource, subresource, verb, namespace (None: the whole cluster)."""


async def allowed(client: KubeClient, need: Need, user: str | None, name: str = "") -> bool:
    """Whether `user`, or the caller, has the permission; with a name, to this object.

    Raises:
        ApiError: access reviews aren't allowed.
    """
    resource, subresource, verb, namespace = need
    attributes = {
        "group": resource.group,
        "resource": resource.plural,
        "subresource": subresource,
        "verb": verb,
        "namespace": namespace or "",
    }
    if name:
        attributes["name"] = name
    account = None
    if user:  # a service account's, ``system:serviceaccount:NAMESPACE:NAME``
        every = "system:serviceaccounts"
        account = Subject(user, (every, f"{every}:{user.split(':')[2]}", "system:authenticated"))
    return await is_allowed(client, attributes, account)


async def describe_lacking(client: KubeClient, what: str, body: Body, *verbs: str) -> str:
    """Which of these verbs the caller may not use on a rule or Bundle; empty where there is none.

    Raises:
        ApiError: access reviews aren't allowed.
    """
    (namespace, name), resource = name_of(body), RESOURCES[what]
    lacking = [
        verb
        for verb in verbs
        if not await allowed(client, (resource, "", verb, namespace), None, name)
    ]
    if not lacking:
        return ""
    verb, is_ = ("verb", "is") if len(lacking) == 1 else ("verbs", "are")
    return (
        f"the {verb} {' and '.join(lacking)} on {resource.key} {is_} missing in the namespace "
        f"{namespace}"
    )


SELECTOR = "app.kubernetes.io/name=copyrator"
LEASE_NAME = "copyrator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """An installed operator, as far as it can be found."""

    settings: Settings
    namespace: str
    """The namespace of its Deployment, or at least its Lease."""
    deployment: str | None = None
    image: str | None = None
    service_account: str | None = None
    found: bool = False
    """False: nothing was found, and these are the defaults."""
    settings_known: bool = True
    """False: an operator without a Deployment; its rules' statuses show what it refuses."""
    others: Sequence[Installation] = ()
    """Those of further Deployments."""
    manifest: Body | None = None
    """The Deployment, as it was when it was found."""
    home: str | None = None
    """The only namespace in which it was looked for."""
    denied: Sequence[errors.Forbidden] = ()
    """Why it may be there although it wasn't found."""

    @property
    def is_read(self) -> bool:
        """Whether the settings are the operator's, and not the defaults."""
        return self.image is not None or (self.found and self.settings_known)

    @property
    def lease_namespace(self) -> str:
        """The namespace of its Lease."""
        return self.settings.lease_namespace or self.namespace

    @property
    def lease(self) -> str:
        """Its Lease, as ``namespace/name``."""
        return f"{self.lease_namespace}/{self.settings.lease_name}"

    @property
    def denial(self) -> str:
        """The permissions that the user lacks to find it; or empty."""
        lacks = " or ".join(str(one.refusal or one.message) for one in self.denied)
        return f"you have no permission to {lacks}, by which it is found" if lacks else ""

    @property
    def user(self) -> str | None:
        """The operator's user name in RBAC."""
        if self.service_account is None:
            return None
        return f"system:serviceaccount:{self.namespace}:{self.service_account}"


def _home_option(*more: str) -> Callable[..., Any]:
    return click.option(
        *more,
        "--operator-namespace",
        "home",
        envvar="COPYRATOR_OPERATOR_NAMESPACE",
        metavar="NAME",
        help="Namespace of the operator; default: that of its Deployment.",
        shell_complete=complete_namespaces,
    )


operator_namespace_option = _home_option()
own_namespace_option = _home_option("-n", "--namespace")
"""The same for commands about the installation and no other namespace."""


async def find_installation(client: KubeClient, home: str | None = None) -> Installation:
    """Find the chart's Deployment, else the operator's Lease, in `home` or any namespace.

    In the operator's own container its environment is enough; it may list neither.
    """
    own = os.environ.get("POD_NAMESPACE")
    if home is None and own and "COPYRATOR_LEASE_NAME" in os.environ:
        env = [{"name": name, "value": value} for name, value in os.environ.items()]
        return Installation(settings=settings_of({"env": env}, own), namespace=own, found=True)
    denied: list[errors.Forbidden] = []

    async def try_list(resource: Resource, selector: str | None = None) -> list[dict[str, Any]]:
        try:
            return await listed(client, resource, home, selector=selector)
        except errors.Forbidden as error:
            denied.append(error)
            return []

    if deployments := await try_list(DEPLOYMENTS, SELECTOR):
        first, *others = map(of_deployment, deployments)
        return replace(first, others=others)
    leases = [one for one in await try_list(LEASES) if name_of(one).name == LEASE_NAME]
    if leases:  # those of former installations stay, so the one that was renewed last counts
        namespace = name_of(max(leases, key=lambda one: renewed(one) or _NEVER)).namespace
        return Installation(
            settings=Settings(namespace=namespace, tenant_rules=True, kinds=KNOWN_KINDS),
            namespace=namespace,
            found=True,
            settings_known=False,
        )
    namespace = home or Settings().namespace
    return Installation(
        settings=Settings(namespace=namespace), namespace=namespace, home=home, denied=denied
    )


def of_deployment(body: Body) -> Installation:
    """The installation of a Deployment of the chart."""
    (namespace, name), pod = name_of(body), body["spec"]["template"]["spec"]
    container = next(
        (one for one in pod["containers"] if one["name"] == "copyrator"), pod["containers"][0]
    )
    return Installation(
        settings=settings_of(container, namespace),
        namespace=namespace,
        deployment=name,
        image=container.get("image"),
        service_account=pod.get("serviceAccountName") or "default",
        found=True,
        manifest=body,
    )


def pod_selector(deployment: Body) -> str:
    """The labels of a Deployment's pods, for a list and for kubectl."""
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    return ",".join(f"{label}={value}" for label, value in sorted(labels.items()))


def settings_of(container: Mapping[str, Any], namespace: str) -> Settings:
    """The settings of a container's arguments and variables.

    They are parsed by the operator's own options, so that both read them alike. Arguments of
    `kopf run` aren't settings.
    """
    variables = {
        one["name"]: one.get("value", namespace)
        for one in container.get("env") or ()
        if "value" in one or one["name"] == "POD_NAMESPACE"
    }
    arguments = container.get("args") or ()
    if any("copyrator.kopf_main" in one for one in (*(container.get("command") or ()), *arguments)):
        arguments = ()
    for option in (found := parameters()):
        variable = option.envvar
        option.envvar = None
        if isinstance(variable, str) and variable in variables and option.expose_value:
            option.default = variables[variable]
    try:
        return parse(found, [word for word in arguments if word != "run"])
    except click.ClickException:
        return Settings(namespace=variables.get("NAMESPACE", namespace))


_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def renewed(lease: Body) -> datetime | None:
    """When a Lease was last written: by the API server's clock, else by that of its holder."""
    writes = (one.get("time") for one in lease["metadata"].get("managedFields") or ())
    last = max(filter(None, map(parse_time, writes)), default=None)
    return last or parse_time((lease.get("spec") or {}).get("renewTime"))


def is_current(lease: Body, now: datetime) -> bool:
    """Whether a Lease hasn't expired; `now` by the API server's clock."""
    last, lasts = renewed(lease), (lease.get("spec") or {}).get("leaseDurationSeconds") or 0
    return last is not None and (now - last).total_seconds() <= lasts


async def holder_of(client: KubeClient, installation: Installation) -> str | None:
    """The leader, by a Lease that hasn't expired; None where there is none, or it can't be read."""
    place, name = installation.lease_namespace, installation.settings.lease_name
    with suppress(errors.NotFound, errors.Forbidden):
        lease = await client.get(LEASES, place, name)
        if is_current(lease, client.server_time):
            return (lease.get("spec") or {}).get("holderIdentity") or None
    return None
