"""`copyrator version`: of this program, and of the operator in the cluster."""

from __future__ import annotations

import click

from copyrator import __version__
from copyrator.cli.cluster import Target, cluster_options, run
from copyrator.cli.installation import find_installation, own_namespace_option
from copyrator.cli.output import Format, answer_option, dump
from copyrator.kube.client.connection import KubeconfigError
from copyrator.kube.errors import ApiError


@click.command()
@cluster_options(namespace=False)
@own_namespace_option
@click.option("--client", "client_only", is_flag=True, help="Don't connect to the cluster.")
@answer_option
def version(target: Target, home: str | None, client_only: bool, shape: Format | None) -> None:
    """Print this program's version, and the operator's image where one is installed."""
    found = {"client": __version__}
    if not client_only:
        try:
            found["operator"] = run(_operator(target, home))
        except (ApiError, KubeconfigError) as error:
            click.echo(f"The cluster can't be read: {error}", err=True)
    if shape is not None:
        dump(found, shape)
        return
    for part, text in found.items():
        click.echo(f"{part + ':':<10}{text}")


async def _operator(target: Target, home: str | None) -> str:
    async with target.connect() as client:
        return (await find_installation(client, home)).image or "no Deployment found"
