"""`copyrator confirm-delete rule`: lets an edit delete more copies than `spec.maxDelete`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from copyrator.api import names
from copyrator.api.counts import count
from copyrator.api.rule_status import RuleReason, read_rule_status, read_unconfirmed
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.hints import hint_about
from copyrator.cli.core.objects import What, complete_names, one
from copyrator.cli.core.output import Format, object_option, prose, show
from copyrator.cli.core.waiting import response_timeout_option, result, shown, wait
from copyrator.cli.view import rows
from copyrator.kube import errors
from copyrator.kube.resources import RULES


@click.command("confirm-delete")
@click.argument("what", type=What("rules"))
@click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=complete_names)
@cluster_options()
@response_timeout_option
@object_option
def confirm_delete(
    target: Target, what: str, name: str, timeout: float, shape: Format | None
) -> None:
    """Confirm that an edited rule may delete more of its copies than spec.maxDelete.

    Only the current generation of the rule is confirmed: each further edit is checked again.
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
        namespace, name = target.locate(name)
        body = await one(client, what, namespace, name)
        deleted, generation = _waiting(what, body), body["metadata"]["generation"]
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
                f"{shown(what, body)} was changed in the meantime; check it and try again: "
                f"{hint_about('describe', 'rule', body)}"
            ) from None
        body = await wait(client, what, body, timeout, _is_taken)
        text = f"{shown(what, body)}: the deletion of {deleted} by generation {generation}"
        return body, f"{text} is confirmed{result(body, waited=timeout > 0)}"


def _is_taken(body: Mapping[str, Any]) -> bool:
    """Whether the operator has taken the confirmation."""
    return rows.ready(body).get("reason") != RuleReason.DELETION_UNCONFIRMED


def _waiting(what: str, body: Mapping[str, Any]) -> str:
    """The copies whose deletion waits, with their number."""
    status = body.get("status") or {}
    edit = read_unconfirmed(read_rule_status(status))
    generation = body["metadata"]["generation"]
    if status.get("observedGeneration") != generation:
        raise Fault(
            f"{shown(what, body)}: the operator hasn't reconciled its current generation yet; "
            "try again"
        )
    if edit is None or not edit.copies:
        raise Fault(f"{shown(what, body)}: no deletion is waiting for confirmation")
    return count(edit.copies, "copy", "copies")
