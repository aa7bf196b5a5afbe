"""`copyrator migrate`: rules that replace other copying tools' annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import click
import yaml

from copyrator.api.counts import count
from copyrator.cli.cluster import Target, cluster_options, run
from copyrator.cli.installation import find_installation, own_namespace_option
from copyrator.cli.migrate_merge import Migration, migrations
from copyrator.cli.migrate_tools import DATA_KINDS, RequestedCopies, cluster_secret, requests
from copyrator.cli.migrate_trust import BundleRule, bundle_rules, imported
from copyrator.cli.objects import listed
from copyrator.cli.output import Format, dump, items, object_option, reference
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import (
    CONFIGMAPS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)

CLUSTER_SECRETS = Resource(
    "clustersecret.io", "v2", "clustersecrets", "ClusterSecret", namespaced=False
)

TRUST_BUNDLES = Resource("trust.cert-manager.io", "v1alpha1", "bundles", "Bundle", namespaced=False)
SECRET_IMPORTS = Resource("secretgen.carvel.dev", "v1alpha1", "secretimports", "SecretImport")
SECRET_EXPORTS = Resource("secretgen.carvel.dev", "v1alpha1", "secretexports", "SecretExport")
PLACEHOLDER = "secretgen.carvel.dev/image-pull-secret"
"""Annotation of Secrets that secretgen fills with all registries' credentials."""

COPIED = (CONFIGMAPS, SECRETS, SERVICEACCOUNTS, ROLES, ROLEBINDINGS)
"""What one of these tools copies."""


@click.command()
@cluster_options(namespace=False)
@own_namespace_option
@click.option(
    "--trust-namespace",
    metavar="NAMESPACE",
    default="cert-manager",
    show_default=True,
    help="Namespace of the sources of trust-manager's Bundles.",
)
@object_option
def migrate(target: Target, home: str | None, trust_namespace: str, shape: Format | None) -> None:
    """Print rules that replace the annotations of other copying tools.

    It reads the annotations of kubernetes-replicator, reflector and
    config-syncer (metadata only), ClusterSecrets, trust-manager's Bundles, and secretgen's
    SecretImports and SecretExports. Nothing is changed. The rules adopt the copies
    that the tools made; docs/adoption.md has the order of steps.
    """
    found, where = run(_find(target, home, trust_namespace))
    if not found:
        click.echo("No object in this cluster is copied by these tools.", err=True)
        return
    if shape is None:
        _print_with_remarks(found, where)
    elif shape is Format.NAME:
        click.echo("\n".join(reference(one.rule(where)) for one in found))
    else:
        dump(items([one.rule(where) for one in found]), shape)
    tools = ", ".join(sorted({tool for one in found for tool in one.request.tool.split(", ")}))
    click.echo(
        f"{count(len(found), 'rule')} in place of {tools}. Stop the old tool first, then apply "
        "them: docs/adoption.md",
        err=True,
    )


def _print_with_remarks(found: Sequence[Migration | BundleRule], where: str) -> None:
    for one in found:
        request = one.request
        click.echo("---")
        click.echo(f"# {request.tool}: {request.kind} {request.namespace}/{request.name}")
        for remark in request.remarks:
            click.echo(f"# NOTE: {remark}")
        click.echo(yaml.safe_dump(one.rule(where), sort_keys=False).rstrip())


async def _find(
    target: Target, home: str | None, trust_namespace: str
) -> tuple[list[Migration | BundleRule], str]:
    async with target.connect() as client:
        installation = await find_installation(client, home)
        known = [
            body["metadata"]["name"]
            for body in await listed(client, NAMESPACES, None, metadata_only=True)
        ]
        found: list[RequestedCopies] = []
        for resource in COPIED:
            try:
                bodies = await listed(client, resource, None, metadata_only=True)
            except errors.Forbidden as error:
                if resource.kind in DATA_KINDS:
                    raise
                click.echo(f"Skipping {resource.plural}: {error}", err=True)
                continue
            found += requests(resource.kind, bodies, known)
            _tell_placeholders(bodies)
        for body in await _all(client, CLUSTER_SECRETS):
            found.append(cluster_secret(body, known))
        exports = await _all(client, SECRET_EXPORTS)
        found += imported(await _all(client, SECRET_IMPORTS), exports)
        bundles = [
            rule
            for body in await _all(client, TRUST_BUNDLES)
            for rule in bundle_rules(body, trust_namespace)
        ]
    return [*migrations(found), *bundles], installation.settings.namespace


async def _all(client: KubeClient, resource: Resource) -> list[dict[str, Any]]:
    """All objects of a tool's kind; none where the tool isn't installed."""
    with suppress(errors.NotFound, errors.Forbidden):
        return await listed(client, resource, None)
    return []


def _tell_placeholders(bodies: Sequence[Mapping[str, Any]]) -> None:
    for body in bodies:
        metadata = body["metadata"]
        if PLACEHOLDER in (metadata.get("annotations") or {}):
            click.echo(
                f"Secret {metadata['namespace']}/{metadata['name']} is filled by secretgen with "
                "all exported registries' credentials: write one rule with spec.sources and "
                "merge_dockerconfig instead (docs/composed.md)",
                err=True,
            )
