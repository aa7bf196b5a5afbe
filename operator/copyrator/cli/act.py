"""`copyrator suspend`, `resume`, `reconcile`, `reseal`: changes to rules and Bundles."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from copyrator.api import names
from copyrator.api.times import format_micro_time
from copyrator.cli import rows
from copyrator.cli.cluster import Target, cluster_options, run, split_name
from copyrator.cli.faults import Fault
from copyrator.cli.objects import RESOURCES, SINGULAR, What, complete_names, one
from copyrator.cli.output import Format, object_option, prose, show
from copyrator.kube.client.client import KubeClient

LOOK = 0.25
"""Seconds between two reads of the object that is waited for."""

_what = click.argument("what", type=What("rules", "bundles"))
_name = click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=complete_names)
_timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the operator; 0 doesn't wait.",
)


@click.command()
@_what
@_name
@cluster_options()
@_timeout
@object_option
def suspend(target: Target, what: str, name: str, timeout: float, shape: Format | None) -> None:
    """Suspend a rule or Bundle: nothing is written or deployed until it is resumed."""
    _say(*run(_set_suspend(target, what, name, value=True, timeout=timeout)), shape)


@click.command()
@_what
@_name
@cluster_options()
@_timeout
@object_option
def resume(target: Target, what: str, name: str, timeout: float, shape: Format | None) -> None:
    """Resume a suspended rule or Bundle."""
    _say(*run(_set_suspend(target, what, name, value=False, timeout=timeout)), shape)


@click.command()
@_what
@_name
@cluster_options()
@click.option("--force", is_flag=True, help="Use the annotation forceAt instead of requestedAt.")
@_timeout
@object_option
def reconcile(
    *,
    target: Target,
    what: str,
    name: str,
    force: bool,
    timeout: float,
    shape: Format | None,
) -> None:
    """Reconcile a rule or Bundle now, and wait until that is done.

    A Bundle's registry is polled, and its version is deployed even if it is deployed already
    or failed too often. A rule's failed copies are retried at once.
    """
    _say(*run(_reconcile(target, what, name, force=force, timeout=timeout)), shape)


def _say(body: Mapping[str, Any], sentence: str, shape: Format | None) -> None:
    """Print the result, or the object as it is then."""
    if shape is None:
        prose([sentence])
    else:
        show(body, shape)


@click.command()
@click.argument("what", type=What("rules"))
@_name
@cluster_options()
@_timeout
def reseal(target: Target, what: str, name: str, timeout: float) -> None:
    """Overwrite the objects that have a rule's marks without a valid seal.

    Such objects result from a lost hash key, a restore or a forgery; those with the content that
    the rule requires need no command. The others are in conflict until they are removed or
    overwritten by this command. Only objects with the marks of this rule are overwritten, where it
    requires a copy. Nothing is deleted.
    """
    run(_reseal(target, what, name, timeout=timeout))


async def _reseal(target: Target, what: str, name: str, *, timeout: float) -> None:  # noqa: ASYNC109
    async with target.connect() as client:
        namespace, name = split_name(name, "" if "/" in name else target.namespace)
        await one(client, what, namespace, name)
        token = format_micro_time(datetime.now(UTC))
        patch = {"metadata": {"annotations": {names.ANN_RULE_RESEAL_AT: token}}}
        body = await client.patch(RESOURCES[what], namespace, name, patch)

        def done(seen: dict[str, Any]) -> bool:
            annotations = seen["metadata"].get("annotations") or {}
            return annotations.get(names.ANN_RULE_RESEAL_AT) != token

        body = await _wait(client, what, body, timeout, done)
        word = "resealed" if timeout else "annotated"
        prose([f"{SINGULAR[what]} {namespace}/{name} {word}{_how(body, timeout)}"])


async def _set_suspend(
    target: Target,
    what: str,
    name: str,
    *,
    value: bool,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> tuple[dict[str, Any], str]:
    async with target.connect() as client:
        namespace, name = split_name(name, "" if "/" in name else target.namespace)
        body = await one(client, what, namespace, name)
        shown = f"{SINGULAR[what]} {namespace}/{name}"
        if not isinstance(body.get("spec"), Mapping):
            raise Fault(
                f"{shown} is in the old form, which can't be suspended; convert it to spec "
                "(docs/rules.md), or stop the operator"
            )
        if bool(body["spec"].get("suspend")) is value:
            return body, f"{shown} is {'suspended' if value else 'not suspended'} already."
        patch = {"spec": {"suspend": value or None}}
        body = await client.patch(RESOURCES[what], namespace, name, patch)
        generation = body["metadata"]["generation"]
        body = await _wait(client, what, body, timeout, lambda seen: _observed(seen) >= generation)
        return body, f"{shown} {'suspended' if value else 'resumed'}{_how(body, timeout)}"


async def _reconcile(
    target: Target,
    what: str,
    name: str,
    *,
    force: bool,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> tuple[dict[str, Any], str]:
    async with target.connect() as client:
        namespace, name = split_name(name, "" if "/" in name else target.namespace)
        body = await one(client, what, namespace, name)
        if what == "rules":
            annotation, echo = names.ANN_RULE_REQUESTED_AT, "lastHandledRequest"
        elif force:
            annotation, echo = names.ANN_FORCE_AT, "lastHandledForce"
        else:
            annotation, echo = names.ANN_REQUESTED_AT, "lastHandledRequest"
        token = format_micro_time(datetime.now(UTC))
        patch = {"metadata": {"annotations": {annotation: token}}}
        body = await client.patch(RESOURCES[what], namespace, name, patch)
        shown = f"{SINGULAR[what]} {namespace}/{name}"
        body = await _wait(
            client, what, body, timeout, lambda seen: (seen.get("status") or {}).get(echo) == token
        )
        return body, f"{shown} {'reconciled' if timeout else 'annotated'}{_how(body, timeout)}"


def _observed(body: Mapping[str, Any]) -> int:
    return int((body.get("status") or {}).get("observedGeneration") or 0)


def _how(body: Mapping[str, Any], waited: float) -> str:
    condition = rows.ready(body)
    if not waited or not condition:
        return "."
    message = f": {condition['message']}" if condition.get("message") else "."
    return f"; status {condition.get('reason')}{message}"


async def _wait(
    client: KubeClient,
    what: str,
    body: dict[str, Any],
    timeout: float,  # noqa: ASYNC109 - the user's
    done: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Read the object until it is done.

    Raises:
        Fault: it isn't, within `timeout` seconds.
    """
    namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
    deadline = asyncio.get_running_loop().time() + timeout
    while timeout and not done(body):
        if asyncio.get_running_loop().time() > deadline:
            reason = rows.ready(body)
            said = f" Its status is {reason['reason']}: {reason.get('message')}." if reason else ""
            raise Fault(
                f"{SINGULAR[what]} {namespace}/{name}: the operator didn't respond within "
                f"{timeout:g} s.{said} Check that it is running: copyrator doctor"
            )
        await asyncio.sleep(LOOK)
        body = await client.get(RESOURCES[what], namespace, name)
    return body
