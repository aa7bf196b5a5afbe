"""`copyrator confirm-delete rule`: lets an edit delete more copies than `spec.maxDelete`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from copyrator.api import names
from copyrator.api.counts import count
from copyrator.api.rule_status import RuleReason, read_rule_status, read_unconfirmed
from copyrator.cli import rows
from copyrator.cli.cluster import Target, cluster_options, run, split_name
from copyrator.cli.faults import Fault
from copyrator.cli.hints import hint
from copyrator.cli.objects import What, complete_names, one
from copyrator.cli.output import Format, object_option, prose, show
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import RULES

LOOK = 0.25
"""Seconds between two reads of the rule that is waited for."""


@click.command("confirm-delete")
@click.argument("what", type=What("rules"))
@click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=complete_names)
@cluster_options()
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the operator; 0 doesn't wait.",
)
@object_option
def confirm_delete(
    target: Target, what: str, name: str, timeout: float, shape: Format | None
) -> None:
    """Let an edited rule delete more of its copies than spec.maxDelete.

    Only the present generation of the rule is confirmed: the next edit is decided on anew.
    """
    body, sentence = run(_confirm(target, what, name, timeout))
    if shape is None:
        prose([sentence])
    else:
        show(body, shape)


async def _confirm(
    target: Target,
    what: str,
    name: str,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> tuple[dict[str, Any], str]:
    """Annotate the rule, at the version that was read.

    Raises:
        Fault: no deletion of it waits, or the rule was edited meanwhile.
    """
    async with target.connect() as client:
        namespace, name = split_name(name, "" if "/" in name else target.namespace)
        body = await one(client, what, namespace, name)
        deleted, generation = _waiting(body), body["metadata"]["generation"]
        patch = {
            "metadata": {
                "resourceVersion": body["metadata"]["resourceVersion"],
                "annotations": {names.ANN_CONFIRM_DELETE: str(generation)},
            }
        }
        try:
            body = await client.patch(RULES, namespace, name, patch)
        except errors.ConflictError:
            raise Fault(
                f"rule {namespace}/{name} has just been changed; look at it, and try again: "
                f"{hint('describe', 'rule', f'{namespace}/{name}')}"
            ) from None
        if timeout:
            body = await _wait(client, body, timeout)
        text = f"rule {namespace}/{name}: the deletion of {deleted} by generation {generation}"
        return body, f"{text} is confirmed{_how(body) if timeout else '.'}"


def _waiting(body: Mapping[str, Any]) -> str:
    """The copies whose deletion waits, with their number."""
    shown = f"rule {body['metadata']['namespace']}/{body['metadata']['name']}"
    status = body.get("status") or {}
    edit = read_unconfirmed(read_rule_status(status))
    generation = body["metadata"]["generation"]
    if status.get("observedGeneration") != generation:
        raise Fault(
            f"{shown}: the operator hasn't reconciled its present generation yet; try again"
        )
    if edit is None or not edit.copies:
        raise Fault(f"{shown}: no deletion waits for a confirmation")
    return count(edit.copies, "copy", "copies")


async def _wait(client: KubeClient, body: dict[str, Any], timeout: float) -> dict[str, Any]:  # noqa: ASYNC109
    """Read the rule until the operator has taken the confirmation.

    Raises:
        Fault: it hasn't, within `timeout` seconds.
    """
    namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
    deadline = asyncio.get_running_loop().time() + timeout
    while rows.ready(body).get("reason") == RuleReason.DELETION_UNCONFIRMED:
        if asyncio.get_running_loop().time() > deadline:
            raise Fault(
                f"rule {namespace}/{name}: the operator didn't respond within {timeout:g} s. Check "
                f"that it is running: {hint('doctor')}"
            )
        await asyncio.sleep(LOOK)
        body = await client.get(RULES, namespace, name)
    return body


def _how(body: Mapping[str, Any]) -> str:
    condition = rows.ready(body)
    return f"; status {condition.get('reason')}: {condition.get('message')}"
