"""`copyrator migrate`: rules that replace other copying tools' annotations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import click
import yaml

from copyrator.api.counts import count
from copyrator.cli.cluster import Target, cluster_options, run
from copyrator.cli.installation import find_installation, own_namespace_option
from copyrator.cli.migrate_merge import Migration, migrations
from copyrator.cli.migrate_tools import DATA_KINDS, RequestedCopies, cluster_secret, requests
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

COPIED = (CONFIGMAPS, SECRETS, SERVICEACCOUNTS, ROLES, ROLEBINDINGS)
"""What one of these tools copies."""


@click.command()
@cluster_options(namespace=False)
@own_namespace_option
@object_option
def migrate(target: Target, home: str | None, shape: Format | None) -> None:
    """Print rules that replace the annotations of other copying tools.

    It reads the annotations of kubernetes-replicator, reflector and
    config-syncer (metadata only) and ClusterSecrets. Nothing is changed. The rules adopt the copies
    that the tools made; docs/adoption.md has the order of steps.
    """
    found, where = run(_find(target, home))
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


def _print_with_remarks(found: Sequence[Migration], where: str) -> None:
    for one in found:
        request = one.request
        click.echo("---")
        click.echo(f"# {request.tool}: {request.kind} {request.namespace}/{request.name}")
        for remark in request.remarks:
            click.echo(f"# NOTE: {remark}")
        click.echo(yaml.safe_dump(one.rule(where), sort_keys=False).rstrip())


async def _find(target: Target, home: str | None) -> tuple[list[Migration], str]:
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
        for body in await _cluster_secrets(client):
            found.append(cluster_secret(body, known))
    return migrations(found), installation.settings.namespace


async def _cluster_secrets(client: KubeClient) -> list[dict[str, object]]:
    with suppress(errors.NotFound, errors.Forbidden):
        return await listed(client, CLUSTER_SECRETS, None)
    return []
