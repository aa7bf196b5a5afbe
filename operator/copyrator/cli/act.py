"""`copyrator suspend` and `resume`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import click

from copyrator.cli.cluster import Target, cluster_options, run
from copyrator.cli.faults import Fault
from copyrator.cli.objects import RESOURCES, What, complete_names, listed, one
from copyrator.cli.output import Format, dump, items, object_option, prose, reference, show
from copyrator.cli.waiting import observed, response_timeout_option, result, shown, wait
from copyrator.kube.client.client import KubeClient

AT_ONCE = 8
"""Objects that --all changes and waits for at the same time."""

_what = click.argument("what", type=What("rules", "bundles"))
_name = click.argument(
    "name", metavar="[[NAMESPACE/]NAME]", required=False, shell_complete=complete_names
)
_all = click.option("--all", "every", is_flag=True, help="All rules or Bundles of the namespace.")

Result = tuple[dict[str, Any], str]
"""The object, and what was done to it."""


@click.command()
@_what
@_name
@cluster_options()
@_all
@response_timeout_option
@object_option
def suspend(target: Target, what: str, shape: Format | None, **more: Any) -> None:
    """Suspend a rule or Bundle: nothing is written or deployed until it is resumed."""
    _print(run(_set_all(target, what, value=True, **more)), shape)


@click.command()
@_what
@_name
@cluster_options()
@_all
@response_timeout_option
@object_option
def resume(target: Target, what: str, shape: Format | None, **more: Any) -> None:
    """Resume a suspended rule or Bundle."""
    _print(run(_set_all(target, what, value=False, **more)), shape)


def _print(results: Sequence[Result], shape: Format | None) -> None:
    """Print the sentences, or the objects as they are then."""
    bodies = [body for body, _ in results]
    if shape is None:
        prose([sentence for _, sentence in results])
    elif shape is Format.NAME:
        for body in bodies:
            click.echo(reference(body))
    elif len(bodies) == 1:
        show(bodies[0], shape)
    else:
        dump(items(bodies), shape)


async def _set_all(
    target: Target,
    what: str,
    *,
    name: str | None,
    every: bool,
    value: bool,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> list[Result]:
    if bool(name) == every:
        raise click.UsageError(
            f"set the name of one of the {what}, or --all for all of a namespace"
        )
    async with target.connect() as client:
        bodies = await _chosen(client, target, what, name)
        limit = asyncio.Semaphore(AT_ONCE)

        async def change(body: dict[str, Any]) -> Result:
            async with limit:
                return await set_suspend(client, what, body, value=value, timeout=timeout)

        return list(await asyncio.gather(*map(change, bodies)))


async def _chosen(
    client: KubeClient, target: Target, what: str, name: str | None
) -> list[dict[str, Any]]:
    if name:
        namespace, name = target.locate(name)
        return [await one(client, what, namespace, name)]
    found = await listed(client, RESOURCES[what], target.namespace)
    if what == "rules":  # the old form has no suspend
        found = [body for body in found if isinstance(body.get("spec"), Mapping)]
    if not found:
        raise Fault(f"no {what} that can be suspended found in the namespace {target.namespace}")
    return found


async def set_suspend(
    client: KubeClient,
    what: str,
    body: dict[str, Any],
    *,
    value: bool,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> Result:
    """Suspend or resume one object, and wait for the operator so many seconds.

    Raises:
        Fault: it is a rule in the old form, or the operator doesn't respond.
    """
    if not isinstance(body.get("spec"), Mapping):
        raise Fault(
            f"{shown(what, body)} is in the old form, which can't be suspended; convert it to spec "
            "(docs/rules.md), or stop the operator"
        )
    if bool(body["spec"].get("suspend")) is value:
        already = "is already suspended" if value else "isn't suspended"
        return body, f"{shown(what, body)} {already}."
    metadata = body["metadata"]
    patch = {"spec": {"suspend": value or None}}
    body = await client.patch(RESOURCES[what], metadata["namespace"], metadata["name"], patch)
    generation = body["metadata"]["generation"]
    body = await wait(client, what, body, timeout, lambda seen: observed(seen) >= generation)
    done = "suspended" if value else "resumed"
    return body, f"{shown(what, body)} {done}{result(body, waited=timeout > 0)}"
