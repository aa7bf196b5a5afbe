"""`copyrator uninstall`: removes the finalizers that would block deletions without the operator.

With --stop the operator is stopped first, before anything that it needs is removed.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from copyrator.api import names
from copyrator.api.text import count
from copyrator.bundles.fields import parse_status
from copyrator.cli.core.cluster import Target, cluster_options
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import (
    Installation,
    find_installation,
    holder_of,
    of_deployment,
    own_namespace_option,
    pod_selector,
)
from copyrator.cli.core.objects import (
    MANAGED,
    Body,
    annotations_of,
    copy_kinds,
    listed,
    listed_in,
    named_kinds,
)
from copyrator.kube import errors
from copyrator.kube.resources import (
    BUNDLES,
    CONFIGMAPS,
    DEPLOYMENTS,
    PODS,
    RULES,
    SECRETS,
    Resource,
)
from copyrator.kube.watch.reflector import name_of
from copyrator.settings.config import Settings

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

PATIENCE = 90.0
"""Seconds for pods to end: three times their grace period."""


async def stop(client: KubeClient, namespace: str, name: str) -> Installation:
    """Scale the operator's Deployment to 0 and wait until no pod of it is left.

    Raises:
        Fault: a pod doesn't end; it might add finalizers again.
    """
    body = await client.patch(DEPLOYMENTS, namespace, name, {"spec": {"replicas": 0}})
    selector = pod_selector(body)
    try:
        async with asyncio.timeout(PATIENCE):
            while await listed(client, PODS, namespace, selector=selector, metadata_only=True):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise Fault(
            f"pods of the Deployment {namespace}/{name} haven't terminated after {PATIENCE:.0f} s: "
            f"kubectl -n {namespace} get pods -l {selector}"
        ) from None
    return of_deployment(body)


async def check_uninstalling(client: KubeClient, namespace: str, release: str) -> None:
    """Refuse where Helm isn't uninstalling the release: it marks that before it runs hooks.

    Raises:
        Fault: it isn't.
    """
    selector = f"owner=helm,name={release},status=uninstalling"
    for resource in (SECRETS, CONFIGMAPS):  # HELM_DRIVER
        if await listed(client, resource, namespace, selector=selector, metadata_only=True):
            return
    raise Fault(
        f"Helm isn't uninstalling the release {release} in {namespace}: nothing is changed. This "
        'Job is only for "helm uninstall"; where the chart is installed by "helm template" or '
        "Argo CD, set uninstall.hook=false, and to leave, scale the Deployment to 0 and run: "
        f"{hint('uninstall')}. The same helps with HELM_DRIVER=sql, after helm uninstall --no-hooks"
    )


OURS = {RULES: names.FINALIZER_RULE, BUNDLES: names.FINALIZER_BUNDLE}


@click.command()
@cluster_options(namespace=False)
@own_namespace_option
@click.option("--dry-run", is_flag=True, help="Only print what would be changed.")
@click.option(
    "--stop",
    "deployment",
    metavar="DEPLOYMENT",
    help="First scale this Deployment to 0; requires --operator-namespace.",
)
@click.option(
    "--helm-release",
    "release",
    metavar="RELEASE",
    help="Only while Helm uninstalls this release; requires --stop.",
)
async def uninstall(
    target: Target, home: str | None, dry_run: bool, deployment: str | None, release: str | None
) -> None:
    """Remove the operator's finalizers from rules and Bundles, so that deletions don't hang.

    Copies and releases are kept: nothing is deleted or uninstalled. Run this command after
    the operator was stopped and before its CRDs are deleted; `helm uninstall` runs it.
    """
    if deployment and (home is None or dry_run):
        raise click.UsageError("--stop requires --operator-namespace and excludes --dry-run")
    if release and not deployment:
        raise click.UsageError("--helm-release requires --stop")
    async with target.connect() as client:
        if home and deployment:
            if release:
                await check_uninstalling(client, home, release)
            installation, holder = await stop(client, home, deployment), None
        else:
            installation = await find_installation(client, home)
            holder = await holder_of(client, installation)
        if holder and not dry_run:
            raise Fault(
                f"the operator {holder} is running and would add its finalizers again: stop it "
                "first "
                f"(helm uninstall copyrator -n {installation.namespace}, or scale its Deployment "
                "to 0) and wait 10 seconds"
            )
        held = [
            (resource, body)
            for resource in (RULES, BUNDLES)
            for body in await listed_in(client, resource, installation.settings.scopes)
        ]
        for resource, body in held:
            await _remove_finalizers(client, resource, body, dry_run=dry_run)
        await _what_stays(client, held, installation.settings)
        if holder:
            click.echo(f"Stop the operator first; {holder} holds the Lease now.")
        if dry_run:
            click.echo("Nothing has been changed (--dry-run).")


async def _remove_finalizers(
    client: KubeClient, resource: Resource, body: Body, *, dry_run: bool
) -> None:
    metadata = body["metadata"]
    shown = f"{resource.kind} {name_of(body)}"
    finalizers = list(metadata.get("finalizers") or ())
    if OURS[resource] not in finalizers:
        return
    going = " It is being deleted and will be removed." if "deletionTimestamp" in metadata else ""
    verb = "would lose" if dry_run else "lost"
    if not dry_run:
        patch = {
            "metadata": {
                "resourceVersion": metadata["resourceVersion"],
                "finalizers": [one for one in finalizers if one != OURS[resource]],
            }
        }
        with suppress(errors.NotFound):
            await client.patch(resource, *name_of(body), patch)
    click.echo(f"{shown} {verb} its finalizer.{going}")


async def _what_stays(
    client: KubeClient, held: list[tuple[Resource, dict[str, Any]]], settings: Settings
) -> None:
    copies = 0
    rules = [body for kind, body in held if kind is RULES]
    kinds = await copy_kinds(client, named_kinds(rules), settings.kinds)
    for resource, scope in itertools.product(kinds, settings.scopes):
        with suppress(errors.Forbidden):
            found = await listed(client, resource, scope, selector=MANAGED, metadata_only=True)
            copies += sum(bool(annotations_of(body).get(names.ANN_RULE)) for body in found)
    deployed = [parse_status(body, "deployed").deployed for _, body in held]
    releases = sum(bool(one.version) for one in deployed)
    click.echo(
        f"{count(copies, 'copy', 'copies')} and {count(releases, 'release')} stay as they are."
    )
